//! Makes a version from the manifests of its snapshots.

use crate::objects::PARALLEL;
use crate::run::{Run, RunKey};
use crate::shared::Shared;
use crate::token::{Place, Token};
use crate::version::Version;
use fluvial_core::{Error, KeyGroupRange, Result};
use futures::{StreamExt, TryStreamExt};
use std::sync::Arc;

/// Snapshots that make a range of key groups.
pub(crate) type Parts = fluvial_state::Parts<Token>;

/// Opens `groups` of them.
///
/// # Errors
///
/// `NotFound` if an object is gone, `Corrupt` if one is damaged.
pub(crate) async fn version(
    shared: &Shared,
    parts: &Parts,
    groups: KeyGroupRange,
) -> Result<Version> {
    let mut rows = Version::empty(groups).rows;
    let mut runs = Vec::new();
    for (range, token) in parts.iter() {
        let Token(Some(place)) = token else { continue };
        let wanted = range.intersect(groups);
        let (found, part) = load(shared, place, wanted).await?;
        if part.len() != usize::from(wanted.end - wanted.start) {
            let error = crate::objects::damaged("it is of other key groups");
            return Err(error.at(format_args!("state in {}", place.object)));
        }
        let start = usize::from(wanted.start - groups.start);
        rows[start..start + part.len()].copy_from_slice(&part);
        runs.extend(found);
    }
    Ok(Version::new(groups, rows, runs))
}

type Runs = Vec<(Arc<Run>, KeyGroupRange)>;

/// The runs that a manifest names, and the rows of each group, for the groups that are wanted.
async fn load(shared: &Shared, place: &Place, wanted: KeyGroupRange) -> Result<(Runs, Vec<u64>)> {
    let manifest = shared.manifest(place).await?;
    let rows = manifest.groups.groups().zip(&manifest.rows);
    let rows = rows.filter(|(group, _)| wanted.contains(*group)).map(|(_, rows)| *rows).collect();
    let reads = manifest.runs.into_iter().filter_map(|run| {
        let clip = run.clip.intersect(wanted);
        let object = run.object.unwrap_or_else(|| place.object.clone());
        let key = RunKey { object, offset: run.meta.offset };
        let read = async move { Ok::<_, Error>((shared.run(key, run.meta).await?, clip)) };
        (!clip.is_empty()).then_some(read)
    });
    let reads: Vec<_> = reads.collect();
    let runs: Runs = futures::stream::iter(reads).buffered(PARALLEL).try_collect().await?;
    Ok((runs, rows))
}
