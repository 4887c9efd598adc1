//! Verification: every manifest and every run that snapshots need is read again from where it is
//! stored, whatever is in memory or in the local cache.

use crate::manifest::RunMeta;
use crate::objects::PARALLEL;
use crate::run::{Run, RunKey};
use crate::shared::Shared;
use crate::token::{Place, Token};
use fluvial_core::{Damage, Result, Snapshot, Verification};
use futures::{StreamExt, TryStreamExt};
use std::collections::{BTreeMap, BTreeSet};

/// Blocks that are read at once.
const PIECE: usize = 256;

/// Checks each manifest and each run once, however many snapshots need it.
pub(crate) async fn verify(
    shared: &Shared,
    snapshots: &[Snapshot],
    report: &dyn Verification,
) -> Result<()> {
    let mut places = BTreeSet::new();
    for snapshot in snapshots {
        let Snapshot { id, version, groups, .. } = snapshot;
        match snapshot.token.parse() {
            Ok(Token(place)) => places.extend(place),
            Err(error) => {
                let what = format!("version {version} of state {id}, key groups {groups}");
                report.damaged(Damage::of(what, None, error)?);
            }
        }
    }
    let mut runs: BTreeMap<RunKey, RunMeta> = BTreeMap::new();
    for place in &places {
        match shared.manifest(place).await {
            Ok(manifest) => {
                report.checked(place.length);
                for run in manifest.runs {
                    let object = run.object.unwrap_or_else(|| place.object.clone());
                    runs.insert(RunKey { object, offset: run.meta.offset }, run.meta);
                }
            }
            Err(error) => {
                let Place { object, offset, length, .. } = place;
                let path = shared.objects.path(object).to_string();
                report.damaged(Damage::of(path, Some(*offset..offset + length), error)?);
            }
        }
    }
    let checks: Vec<_> =
        runs.into_iter().map(|(key, meta)| check(shared, key, meta, report)).collect();
    futures::stream::iter(checks).buffered(PARALLEL).try_collect::<()>().await
}

async fn check(
    shared: &Shared,
    key: RunKey,
    meta: RunMeta,
    report: &dyn Verification,
) -> Result<()> {
    let path = shared.objects.path(&key.object).to_string();
    let (data, rest) = (meta.offset + meta.data, meta.meta + meta.filter);
    let run = match Run::open(&shared.objects, key, meta, &shared.budget).await {
        Ok(run) => run,
        Err(error) => {
            report.damaged(Damage::of(path, Some(data..data + rest), error)?);
            return Ok(());
        }
    };
    report.checked(rest);
    let blocks: Vec<u32> = (0..run.meta.blocks).collect();
    for piece in blocks.chunks(PIECE) {
        let place = |block: u32| {
            let place = run.tail.index.place(block);
            run.meta.offset + place.start..run.meta.offset + place.end
        };
        let all = place(piece[0]).start..place(piece[piece.len() - 1]).end;
        match run.read_stored(&shared.objects, piece).await {
            Err(error) => report.damaged(Damage::of(path.clone(), Some(all), error)?),
            Ok(stored) => {
                for (block, bytes) in piece.iter().zip(stored) {
                    match run.unpack(*block, &bytes) {
                        Ok(_) => report.checked(bytes.len() as u64),
                        Err(error) => {
                            let place = Some(place(*block));
                            report.damaged(Damage::of(path.clone(), place, error)?);
                        }
                    }
                }
            }
        }
    }
    Ok(())
}
