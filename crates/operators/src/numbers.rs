//! `KeyNumbers`: the keys of a batch, numbered group by group.

use fluvial_core::{Error, Result};

/// Numbers keys `0, 1, 2, ...` in the order of their first appearance.
///
/// Each group has a part of the hash table for itself, small enough for a cache to hold while rows
/// come group by group. Nothing depends on the order in it.
#[derive(Debug, Default)]
pub(crate) struct KeyNumbers {
    /// A tag and a number, one more than it is; 0 where there is none.
    slots: Vec<u64>,
    /// Where the slots of each group start, and how many they are less one: a power of two.
    parts: Vec<(usize, usize)>,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    tags: Vec<u32>,
}

impl KeyNumbers {
    /// Room for so many rows of each group, numbered from 0.
    pub(crate) fn with_room(rows: impl Iterator<Item = usize>) -> Self {
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

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The key with this number.
    pub(crate) fn key(&self, number: usize) -> &[u8] {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.bytes[start..self.ends[number]]
    }

    /// The tag of the key.
    pub(crate) fn tag(&self, number: usize) -> u32 {
        self.tags[number]
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
    pub(crate) fn find_tag(&self, group: usize, tag: u32, is: impl Fn(u32) -> bool) -> Option<u32> {
        self.search(group, tag, is).ok()
    }

    /// The number of a key of a group.
    pub(crate) fn find(&self, group: usize, tag: u32, key: &[u8]) -> Option<u32> {
        self.find_tag(group, tag, |number| self.key(number as usize) == key)
    }

    /// The number of a key, whose tag this is. There must be room for it. If it is new it has the
    /// number that [`Self::len`] was before.
    pub(crate) fn intern(&mut self, group: usize, tag: u32, key: &[u8]) -> Result<u32> {
        let free = match self.search(group, tag, |number| self.key(number as usize) == key) {
            Ok(number) => return Ok(number),
            Err(free) => free,
        };
        let number = u32::try_from(self.len()).ok().filter(|number| *number < u32::MAX);
        let number = number.ok_or_else(|| {
            Error::invalid("a batch has over four billion keys: use smaller batches")
        })?;
        self.slots[free] = u64::from(tag) << 32 | u64::from(number + 1);
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
        self.tags.push(tag);
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::tag_of;

    #[test]
    fn keys_are_numbered_as_they_come_and_found_again() {
        let keys: [(usize, &[u8]); 4] =
            [(0, b"\0\0a"), (0, b"\0\0b"), (0, b"\0\0a"), (1, b"\0\x01a")];
        let mut all = KeyNumbers::with_room([3, 1].into_iter());
        let numbers = keys.map(|(group, key)| all.intern(group, tag_of(key), key).unwrap());
        assert_eq!(numbers, [0, 1, 0, 2]);
        let tag = tag_of(b"\0\0b");
        assert_eq!(all.find(0, tag, b"\0\0b"), Some(1));
        assert_eq!(all.find(0, tag, b"\0\0c"), None);
        assert_eq!(all.find_tag(0, tag, |number| number != 1), None);
        assert_eq!(KeyNumbers::with_room([0].into_iter()).find_tag(0, tag, |_| true), None);
    }
}
