//! `Distinct`: the keys of a batch, those of both sides numbered together, group by group.

use arrow::array::{Array, BinaryArray, BooleanArray, TimestampMicrosecondArray};
use fluvial_core::{Error, Result};
use xxhash_rust::xxh3::xxh3_64;

/// The keys of rows, and what is known of them. Equally long.
pub(super) struct Keys<'a> {
    pub(super) keys: &'a BinaryArray,
    /// Their times, where keys have one.
    pub(super) times: Option<&'a TimestampMicrosecondArray>,
    /// Which of them match nothing.
    pub(super) nulls: Option<&'a BooleanArray>,
}

/// Numbers keys `0, 1, 2, ...` in the order of their first appearance.
///
/// Each group has a part of the hash table for itself, small enough for a cache to hold while rows
/// come group by group. Nothing depends on the order in it.
#[derive(Debug, Default)]
pub(super) struct Distinct {
    /// A tag and a number, one more than it is; 0 where there is none.
    slots: Vec<u64>,
    /// Where the slots of each group start, and how many they are less one: a power of two.
    parts: Vec<(usize, usize)>,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    tags: Vec<u32>,
    /// The time in each key, where keys have one.
    times: Vec<Option<i64>>,
    /// Which keys may match: those without a null that matches nothing.
    joinable: Vec<bool>,
}

/// Half of the hash of a key: what stored rows are found by. Stored, so it stays what it is.
pub(super) fn tag_of(key: &[u8]) -> u32 {
    (xxh3_64(key) >> 32) as u32
}

impl Distinct {
    /// Room for so many rows of each group, numbered from 0.
    pub(super) fn with_room(rows: impl Iterator<Item = usize>) -> Self {
        let mut parts = Vec::new();
        let mut slots = 0;
        for rows in rows {
            // One stays free, so that every search ends.
            let size = (rows + rows / 2 + 1).next_power_of_two();
            parts.push((slots, size - 1));
            slots += size;
        }
        Self { slots: vec![0; slots], parts, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The key with this number, its group in front.
    pub(super) fn key(&self, number: usize) -> &[u8] {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.bytes[start..self.ends[number]]
    }

    /// The tag of the key.
    pub(super) fn tag(&self, number: usize) -> u32 {
        self.tags[number]
    }

    /// The time in the key.
    pub(super) fn time(&self, number: usize) -> Option<i64> {
        self.times.get(number).copied().flatten()
    }

    /// Whether rows of this key may match.
    pub(super) fn joins(&self, number: usize) -> bool {
        self.joinable[number]
    }

    /// The first number of a group with this tag for which `is` holds, or the slot where the search
    /// ended.
    #[inline]
    fn search(
        &self,
        group: usize,
        tag: u32,
        is: impl Fn(u32) -> bool,
    ) -> std::result::Result<u32, usize> {
        let (start, mask) = self.parts[group];
        let mut at = tag as usize & mask;
        loop {
            let slot = self.slots[start + at];
            if slot == 0 {
                return Err(start + at);
            }
            let number = slot as u32 - 1;
            if (slot >> 32) as u32 == tag && is(number) {
                return Ok(number);
            }
            at = (at + 1) & mask;
        }
    }

    /// The first number of a group with this tag for which `is` holds.
    #[inline]
    pub(super) fn find_tag(&self, group: usize, tag: u32, is: impl Fn(u32) -> bool) -> Option<u32> {
        self.search(group, tag, is).ok()
    }

    /// The number of a key of a group.
    pub(super) fn find(&self, group: usize, tag: u32, key: &[u8]) -> Option<u32> {
        self.find_tag(group, tag, |number| self.key(number as usize) == key)
    }

    /// The number of the key in row `row` of `keys`. There must be room for it.
    pub(super) fn intern(&mut self, group: usize, keys: &Keys<'_>, row: usize) -> Result<u32> {
        let key = keys.keys.value(row);
        let tag = tag_of(key);
        let free = match self.search(group, tag, |number| self.key(number as usize) == key) {
            Ok(number) => return Ok(number),
            Err(free) => free,
        };
        let number = u32::try_from(self.len()).ok().filter(|number| *number < u32::MAX);
        let number = number.ok_or_else(|| {
            Error::invalid("a batch has over four billion join keys: use smaller batches")
        })?;
        self.slots[free] = u64::from(tag) << 32 | u64::from(number + 1);
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        self.tags.push(tag);
        if let Some(times) = keys.times {
            self.times.push(times.is_valid(row).then(|| times.value(row)));
        }
        self.joinable.push(keys.nulls.is_none_or(|nulls| !nulls.value(row)));
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_numbered_as_they_come_and_found_again() {
        let keys = BinaryArray::from_iter_values([b"\0\0a", b"\0\0b", b"\0\0a", b"\0\x01a"]);
        let keys = Keys { keys: &keys, times: None, nulls: None };
        let mut distinct = Distinct::with_room([3, 1].into_iter());
        let groups = [0, 0, 0, 1];
        let numbers: Vec<u32> =
            (0..4).map(|row| distinct.intern(groups[row], &keys, row).unwrap()).collect();
        assert_eq!(numbers, [0, 1, 0, 2]);
        let tag = tag_of(b"\0\0b");
        assert_eq!(distinct.find(0, tag, b"\0\0b"), Some(1));
        assert_eq!(distinct.find(0, tag, b"\0\0c"), None);
        assert_eq!(distinct.find_tag(0, tag, |number| number != 1), None);
        assert_eq!(Distinct::with_room([0].into_iter()).find_tag(0, tag, |_| true), None);
    }
}
