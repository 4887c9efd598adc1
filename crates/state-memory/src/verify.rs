//! Verification: every frame that snapshots name is read again.

use crate::codec;
use crate::frame::{Kind, open_frame};
use crate::objects::Objects;
use crate::table::Table;
use crate::token::{FrameRef, Token};
use fluvial_core::{Damage, KeyGroupRange, Result, Snapshot, StoreId, Verification};
use futures::{StreamExt, TryStreamExt};
use std::collections::BTreeMap;

/// Frames being read at once.
const PARALLEL: usize = 16;

/// Checks each frame once, however many snapshots need it.
pub(crate) async fn verify(
    objects: &Objects,
    snapshots: &[Snapshot],
    report: &dyn Verification,
) -> Result<()> {
    let mut frames = BTreeMap::new();
    for snapshot in snapshots {
        let Snapshot { id, version, groups, .. } = snapshot;
        let token: Token = match snapshot.token.parse() {
            Ok(token) => token,
            Err(error) => {
                let what = format!("version {version} of state {id}, key groups {groups}");
                report.damaged(Damage::of(what, None, error)?);
                continue;
            }
        };
        for (i, frame) in token.0.into_iter().enumerate() {
            let kind = if i == 0 { Kind::Full } else { Kind::Delta };
            frames.insert((id, frame.object.clone(), frame.offset), (kind, frame));
        }
    }
    let mut checks = Vec::with_capacity(frames.len());
    for ((id, ..), (kind, frame)) in frames {
        checks.push(check(objects, id, kind, frame, report));
    }
    let mut checks = futures::stream::iter(checks).buffered(PARALLEL);
    while let Some(()) = checks.try_next().await? {}
    Ok(())
}

async fn check(
    objects: &Objects,
    id: &StoreId,
    kind: Kind,
    frame: FrameRef,
    report: &dyn Verification,
) -> Result<()> {
    let path = objects.path(id, &frame.object);
    let checked = objects.read_at(&path, &frame).await.and_then(|bytes| {
        let all = KeyGroupRange { start: 0, end: u16::MAX };
        let body = open_frame(kind, &bytes)?;
        codec::apply(&body, &mut Table::default(), all, all)?;
        Ok(bytes.len() as u64)
    });
    match checked {
        Ok(bytes) => report.checked(bytes),
        Err(error) => {
            let place = Some(frame.offset..frame.offset + frame.length);
            report.damaged(Damage::of(path.to_string(), place, error)?);
        }
    }
    Ok(())
}
