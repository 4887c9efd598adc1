//! Makes a version in memory from the frames of its snapshots.

use crate::codec;
use crate::frame::{Kind, open_frame};
use crate::objects::Objects;
use crate::table::Table;
use crate::token::{FrameRef, Token};
use bytes::Bytes;
use fluvial_core::{KeyGroupRange, Result, StoreId};
use futures::{StreamExt, TryStreamExt};

/// Frames being read at once.
const PARALLEL: usize = 16;

/// Snapshots that make a range of key groups.
pub(crate) type Parts = fluvial_state::Parts<Token>;

/// Reads `groups` of them.
///
/// # Errors
///
/// `NotFound` if an object is gone, `Corrupt` if one is damaged.
pub(crate) async fn table(
    objects: &Objects,
    id: &StoreId,
    parts: &Parts,
    groups: KeyGroupRange,
) -> Result<Table> {
    let mut reads = Vec::new();
    for (range, token) in parts.iter() {
        for (i, frame) in token.0.iter().enumerate() {
            let kind = if i == 0 { Kind::Full } else { Kind::Delta };
            reads.push(read(objects, id, range, kind, frame.clone()));
        }
    }
    let mut frames = futures::stream::iter(reads).buffered(PARALLEL);
    let mut table = Table::default();
    while let Some(Read { range, kind, frame, bytes }) = frames.try_next().await? {
        open_frame(kind, &bytes)
            .and_then(|body| codec::apply(&body, &mut table, range, groups))
            .map_err(|error| error.at(format_args!("state of {id} in {}", frame.object)))?;
    }
    Ok(table)
}

/// A frame that was read.
struct Read {
    range: KeyGroupRange,
    kind: Kind,
    frame: FrameRef,
    bytes: Bytes,
}

async fn read(
    objects: &Objects,
    id: &StoreId,
    range: KeyGroupRange,
    kind: Kind,
    frame: FrameRef,
) -> Result<Read> {
    let bytes = objects.read(id, &frame).await?;
    Ok(Read { range, kind, frame, bytes })
}
