//! Makes a version in memory from the frames of its snapshots.

use crate::codec;
use crate::frame::{Kind, open_frame};
use crate::objects::Objects;
use crate::table::Table;
use crate::token::{FrameRef, Token};
use bytes::Bytes;
use fluvial_core::{Error, KeyGroupRange, Result, Snapshot, StateVersion, StoreId};
use futures::{StreamExt, TryStreamExt};

/// Frames being read at once.
const PARALLEL: usize = 16;

/// Snapshots that make a range of key groups.
#[derive(Debug)]
pub(crate) struct Parts {
    parts: Vec<(KeyGroupRange, Token)>,
}

impl Parts {
    /// Those of `snapshots` that hold keys of `groups`.
    ///
    /// # Errors
    ///
    /// `Invalid` unless they are of that store and version, and hold each group exactly once.
    pub(crate) fn of(
        id: &StoreId,
        groups: KeyGroupRange,
        version: StateVersion,
        snapshots: &[Snapshot],
    ) -> Result<Self> {
        let mut parts = Vec::new();
        for snapshot in snapshots {
            if snapshot.id != *id || snapshot.version != version {
                return Err(Error::invalid(format!(
                    "version {version} of state {id} was to be opened from version {} of {}",
                    snapshot.version, snapshot.id
                )));
            }
            if !snapshot.groups.intersect(groups).is_empty() {
                parts.push((snapshot.groups, snapshot.token.parse()?));
            }
        }
        parts.sort_by_key(|(range, _)| *range);
        let apart = parts.windows(2).all(|pair| pair[0].0.end == pair[1].0.start);
        let ends = match (parts.first(), parts.last()) {
            (Some((first, _)), Some((last, _))) => {
                first.start <= groups.start && groups.end <= last.end
            }
            _ => groups.is_empty(),
        };
        let covered = apart && ends;
        let genesis = version == StateVersion(0) && snapshots.is_empty();
        if !covered && !genesis {
            return Err(Error::invalid(format!(
                "the snapshots of version {version} of state {id} do not hold each of the key \
                 groups {groups} once"
            )));
        }
        Ok(Self { parts })
    }

    /// The token of the one snapshot that holds exactly `groups`.
    pub(crate) fn exact(&self, groups: KeyGroupRange) -> Option<Token> {
        match self.parts.as_slice() {
            [] => Some(Token::default()),
            [(range, token)] if *range == groups => Some(token.clone()),
            _ => None,
        }
    }

    /// A name for what they make together.
    pub(crate) fn name(&self) -> String {
        let names: Vec<String> =
            self.parts.iter().map(|(range, token)| format!("{range}={token}")).collect();
        names.join("|")
    }

    /// Reads `groups` of them.
    ///
    /// # Errors
    ///
    /// `NotFound` if an object is gone, `Corrupt` if one is damaged.
    pub(crate) async fn load(
        &self,
        objects: &Objects,
        id: &StoreId,
        groups: KeyGroupRange,
    ) -> Result<Table> {
        let mut reads = Vec::new();
        for (range, token) in &self.parts {
            for (i, frame) in token.0.iter().enumerate() {
                let kind = if i == 0 { Kind::Full } else { Kind::Delta };
                reads.push(read(objects, id, *range, kind, frame.clone()));
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

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_core::{ErrorKind, OperatorId, StoreName};

    #[test]
    fn snapshots_must_hold_each_group_once() {
        let id = StoreId {
            operator: OperatorId::new("count").unwrap(),
            store: StoreName::new("default").unwrap(),
        };
        let snapshot = |(start, end)| Snapshot {
            id: id.clone(),
            groups: KeyGroupRange { start, end },
            version: StateVersion(1),
            rows: 0,
            token: "empty".into(),
        };
        let open = |ranges: &[(u16, u16)], start, end| {
            let snapshots: Vec<_> = ranges.iter().copied().map(snapshot).collect();
            Parts::of(&id, KeyGroupRange { start, end }, StateVersion(1), &snapshots)
        };
        for (ranges, start, end) in [
            (&[(0, 4)][..], 0, 4),
            (&[(0, 4)], 1, 3),
            (&[(2, 4), (0, 2)], 0, 4),
            (&[(2, 4), (0, 2)], 1, 3),
            (&[(2, 4), (0, 2), (4, 9)], 3, 3),
            (&[(0, 2), (2, 3), (3, 9)], 1, 9),
        ] {
            assert!(open(ranges, start, end).is_ok(), "{ranges:?} {start}..{end}");
        }
        for (ranges, start, end) in [
            (&[][..], 0, 4),
            (&[(0, 3)], 0, 4),
            (&[(1, 4)], 0, 4),
            (&[(0, 2), (3, 4)], 0, 4),
            (&[(0, 3), (2, 4)], 0, 4),
            (&[(0, 4), (0, 4)], 0, 4),
        ] {
            let error = open(ranges, start, end).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{ranges:?} {start}..{end}");
        }
    }
}
