//! Key groups: the unit in which keyed state moves between partitions.
//!
//! A key belongs to one of K groups (a stable hash of its encoding). K is fixed when a query is
//! created. A partition owns a contiguous range of groups, so the number of partitions may
//! change at any restart without touching a key.

use crate::error::{Error, Result};
use crate::ids::PartitionId;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One group of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyGroup(pub u16);

impl KeyGroup {
    /// The first two bytes of every state key: the group, big-endian.
    pub fn prefix(self) -> [u8; 2] {
        self.0.to_be_bytes()
    }

    /// The group of a state key; `None` if it is too short to have one.
    pub fn of(key: &[u8]) -> Option<Self> {
        key.first_chunk().map(|group| Self(u16::from_be_bytes(*group)))
    }
}

/// How many key groups a query has. Pinned by its first plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct KeyGroupCount(u16);

impl KeyGroupCount {
    /// The default: 128 groups, which is also the highest number of partitions.
    pub const DEFAULT: Self = Self(128);

    /// A count of 1 to 32768 groups.
    ///
    /// # Errors
    ///
    /// `Invalid` outside that range.
    pub fn new(count: u16) -> Result<Self> {
        if (1..=32_768).contains(&count) {
            Ok(Self(count))
        } else {
            Err(Error::invalid(format!("the number of key groups must be 1 to 32768, not {count}")))
        }
    }

    /// The number.
    pub fn get(self) -> u16 {
        self.0
    }

    /// The group of a key with this stable hash.
    pub fn group_of(self, hash: u64) -> KeyGroup {
        // Multiply-shift spreads the high bits; `%` would be as stable, only slower.
        KeyGroup(((u128::from(hash) * u128::from(self.0)) >> 64) as u16)
    }

    /// The range that `partition` of `partitions` owns. Ranges are contiguous, disjoint and
    /// cover all groups; with more partitions than groups the surplus own nothing.
    pub fn range_of(self, partition: PartitionId, partitions: u32) -> KeyGroupRange {
        let bound = |p: u64| (p * u64::from(self.0) / u64::from(partitions.max(1))) as u16;
        let p = u64::from(partition.0);
        KeyGroupRange { start: bound(p), end: bound(p + 1) }
    }

    /// The partition of `partitions` that owns `group`: the inverse of [`Self::range_of`].
    pub fn partition_of(self, group: KeyGroup, partitions: u32) -> PartitionId {
        let (g, k, p) = (u64::from(group.0), u64::from(self.0), u64::from(partitions.max(1)));
        PartitionId((((g + 1) * p - 1) / k) as u32)
    }

    /// All groups.
    pub fn all(self) -> KeyGroupRange {
        KeyGroupRange { start: 0, end: self.0 }
    }
}

impl TryFrom<u16> for KeyGroupCount {
    type Error = Error;
    fn try_from(count: u16) -> Result<Self> {
        Self::new(count)
    }
}

impl From<KeyGroupCount> for u16 {
    fn from(count: KeyGroupCount) -> Self {
        count.0
    }
}

/// A contiguous range of key groups, `start..end`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct KeyGroupRange {
    /// First group.
    pub start: u16,
    /// One past the last group.
    pub end: u16,
}

impl KeyGroupRange {
    /// Whether it holds no group.
    pub fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// Whether `group` lies in it.
    pub fn contains(self, group: KeyGroup) -> bool {
        (self.start..self.end).contains(&group.0)
    }

    /// What both have.
    #[must_use]
    pub fn intersect(self, other: Self) -> Self {
        let start = self.start.max(other.start);
        Self { start, end: self.end.min(other.end).max(start) }
    }

    /// Each group in order.
    pub fn groups(self) -> impl Iterator<Item = KeyGroup> {
        (self.start..self.end).map(KeyGroup)
    }
}

impl fmt::Display for KeyGroupRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exhaustive: ranges partition the groups, and `partition_of` is the inverse.
    #[test]
    fn every_group_has_exactly_its_partition() {
        for k in [1u16, 2, 3, 7, 128] {
            let count = KeyGroupCount::new(k).unwrap();
            for partitions in 1..=40u32 {
                let mut next = 0;
                for p in (0..partitions).map(PartitionId) {
                    let range = count.range_of(p, partitions);
                    assert_eq!(range.start, next);
                    next = range.end;
                    for group in range.groups() {
                        assert_eq!(count.partition_of(group, partitions), p, "{k} {partitions}");
                    }
                }
                assert_eq!(next, k);
            }
        }
    }

    #[test]
    fn hashes_stay_in_range() {
        let count = KeyGroupCount::DEFAULT;
        assert_eq!(count.group_of(0), KeyGroup(0));
        assert_eq!(count.group_of(u64::MAX), KeyGroup(127));
    }
}
