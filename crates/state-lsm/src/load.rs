//! Makes a version from the manifests of its snapshots.

use crate::objects::PARALLEL;
use crate::run::{Run, RunKey};
use crate::shared::Shared;
use crate::token::{Place, Token};
use crate::version::Version;
use fluvial_core::{Error, KeyGroupRange, Result, Snapshot, StateVersion, StoreId};
use futures::{StreamExt, TryStreamExt};
use std::sync::Arc;

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
        let genesis = version == StateVersion(0) && snapshots.is_empty();
        if !(apart && ends || genesis) {
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

    /// Opens `groups` of them.
    ///
    /// # Errors
    ///
    /// `NotFound` if an object is gone, `Corrupt` if one is damaged.
    pub(crate) async fn load(&self, shared: &Shared, groups: KeyGroupRange) -> Result<Version> {
        let mut rows = Version::empty(groups).rows;
        let mut runs = Vec::new();
        for (range, token) in &self.parts {
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
        for (ranges, start, end) in
            [(&[(0, 4)][..], 0, 4), (&[(0, 4)], 1, 3), (&[(2, 4), (0, 2)], 1, 3)]
        {
            assert!(open(ranges, start, end).is_ok(), "{ranges:?} {start}..{end}");
        }
        for (ranges, start, end) in [
            (&[][..], 0, 4),
            (&[(0, 3)], 0, 4),
            (&[(0, 2), (3, 4)], 0, 4),
            (&[(0, 3), (2, 4)], 0, 4),
        ] {
            let error = open(ranges, start, end).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid, "{ranges:?} {start}..{end}");
        }
    }
}
