//! Which snapshots make up a range of key groups.

use fluvial_core::{Error, KeyGroupRange, Result, Snapshot, StateVersion, StoreId};
use std::fmt::Display;
use std::str::FromStr;

/// Snapshots that make a range of key groups, by what their tokens say: for backends.
///
/// The number of partitions may change at every restart, so a range may be cut in any way.
#[derive(Debug)]
pub struct Parts<T> {
    parts: Vec<(KeyGroupRange, T)>,
}

impl<T: FromStr<Err = Error> + Display> Parts<T> {
    /// Those of `snapshots` that hold keys of `groups`.
    ///
    /// # Errors
    ///
    /// `Invalid` unless they are of that store and version, and hold each group exactly once; what
    /// `T` says of a token that is none.
    pub fn of(
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

    /// Each with its range, in order.
    pub fn iter(&self) -> impl Iterator<Item = (KeyGroupRange, &T)> {
        self.parts.iter().map(|(range, token)| (*range, token))
    }

    /// A name for what they make together.
    pub fn name(&self) -> String {
        let names: Vec<String> =
            self.parts.iter().map(|(range, token)| format!("{range}={token}")).collect();
        names.join("|")
    }
}

impl<T: Clone + Default> Parts<T> {
    /// The token of the one snapshot that holds exactly `groups`; the default one, which must be
    /// that of a store without keys, if there are no snapshots.
    pub fn exact(&self, groups: KeyGroupRange) -> Option<T> {
        match self.parts.as_slice() {
            [] => Some(T::default()),
            [(range, token)] if *range == groups => Some(token.clone()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_core::{ErrorKind, OperatorId, StoreName};
    use std::fmt;

    #[derive(Debug, Clone, Default, PartialEq)]
    struct Token(String);

    impl FromStr for Token {
        type Err = Error;
        fn from_str(text: &str) -> Result<Self> {
            Ok(Self(text.to_owned()))
        }
    }

    impl Display for Token {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&self.0)
        }
    }

    fn open(ranges: &[(u16, u16)], start: u16, end: u16) -> Result<Parts<Token>> {
        let id = StoreId {
            operator: OperatorId::new("count").unwrap(),
            store: StoreName::new("default").unwrap(),
        };
        let snapshot = |(start, end)| Snapshot {
            id: id.clone(),
            groups: KeyGroupRange { start, end },
            version: StateVersion(1),
            rows: 0,
            token: format!("from-{start}"),
        };
        let snapshots: Vec<_> = ranges.iter().copied().map(snapshot).collect();
        Parts::of(&id, KeyGroupRange { start, end }, StateVersion(1), &snapshots)
    }

    #[test]
    fn snapshots_must_hold_each_group_once() {
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

    #[test]
    fn only_a_whole_snapshot_is_exact() {
        let groups = KeyGroupRange { start: 0, end: 4 };
        let exact = |ranges: &[(u16, u16)]| open(ranges, 0, 4).unwrap().exact(groups);
        assert_eq!(exact(&[(0, 4)]), Some(Token("from-0".into())));
        assert_eq!(exact(&[(0, 5)]), None);
        assert_eq!(exact(&[(0, 2), (2, 4)]), None);
        let parts = open(&[(2, 4), (0, 2)], 1, 3).unwrap();
        assert_eq!(
            parts.iter().map(|(_, token)| token.0.as_str()).collect::<Vec<_>>(),
            ["from-0", "from-2"]
        );
    }
}
