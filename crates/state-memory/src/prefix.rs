//! The first bytes of keys: what cuts a table into segments, and a segment into buckets.

use fluvial_core::{KeyRange, POINT_KEYS};

/// Bytes of a key group.
const GROUP_BYTES: usize = 2;
/// Bytes of a group, and of what kind a key is.
const KIND_BYTES: usize = 3;
/// Bytes of a group (2), and of a time (9) if the key has one there.
pub(crate) const PREFIX_BYTES: usize = 11;

/// The first bytes of a key, and how many they are: keys are ordered as their prefixes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Prefix {
    /// Zeros after the end of the key.
    bytes: [u8; PREFIX_BYTES],
    length: u8,
}

/// How many bytes make a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Cut {
    /// Those of a group and a time: what is written at one time leaves at one time. Keys that are
    /// only looked up have no time in front: those of one kind are one.
    #[default]
    GroupAndTime,
    /// Those of a group: for keys that have no such time in front.
    Group,
}

impl Cut {
    /// Keys with one prefix of this cut have one prefix of every cut.
    pub(crate) const FINEST: Self = Self::GroupAndTime;

    fn bytes(self, key: &[u8]) -> usize {
        match (self, key.get(GROUP_BYTES)) {
            (Self::Group, _) => GROUP_BYTES,
            (Self::GroupAndTime, Some(kind)) if POINT_KEYS.contains(kind) => KIND_BYTES,
            (Self::GroupAndTime, _) => PREFIX_BYTES,
        }
    }

    /// The prefix of a key.
    pub(crate) fn prefix(self, key: &[u8]) -> Prefix {
        let length = key.len().min(self.bytes(key));
        let mut bytes = [0; PREFIX_BYTES];
        bytes[..length].copy_from_slice(&key[..length]);
        Prefix { bytes, length: length as u8 }
    }
}

impl Prefix {
    /// The bytes.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Whether it is that of `key`.
    pub(crate) fn begins(&self, key: &[u8], cut: Cut) -> bool {
        let bytes = self.as_bytes();
        key.starts_with(bytes) && bytes.len() == key.len().min(cut.bytes(key))
    }

    /// Whether it may have a time in it.
    pub(crate) fn has_time(&self) -> bool {
        usize::from(self.length) == PREFIX_BYTES
    }

    /// A number for hash tables.
    pub(crate) fn hash(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, rest @ ..] = self.bytes;
        let low = u64::from_le_bytes([a, b, c, d, e, f, g, h]) ^ 0x9E37_79B9_7F4A_7C15;
        let [a, b, c] = rest;
        let high = u64::from(u32::from_le_bytes([a, b, c, self.length])) ^ 0xA076_1D64_78BD_642F;
        let product = u128::from(low) * u128::from(high);
        (product as u64) ^ (product >> u64::BITS) as u64
    }
}

/// How the keys of a prefix lie to a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overlap {
    /// All of them lie in it.
    All,
    /// Some may.
    Some,
    /// They come after it, and so do those of every later prefix.
    After,
}

/// The prefixes whose keys can lie in a range.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span<'r> {
    range: &'r KeyRange,
    /// The first of them.
    pub(crate) first: Prefix,
}

impl<'r> Span<'r> {
    /// `None` if no key lies in the range.
    pub(crate) fn of(range: &'r KeyRange, cut: Cut) -> Option<Self> {
        (!range.is_empty()).then(|| Self { range, first: cut.prefix(&range.start) })
    }

    /// How the keys of a prefix from [`Self::first`] on lie to the range.
    pub(crate) fn overlap(&self, prefix: &Prefix) -> Overlap {
        let bytes = prefix.as_bytes();
        let (start, end) = (self.range.start.as_slice(), self.range.end.as_slice());
        if !end.is_empty() && end <= bytes {
            return Overlap::After;
        }
        if start <= bytes && (end.is_empty() || !end.starts_with(bytes)) {
            return Overlap::All;
        }
        Overlap::Some
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> impl Strategy<Value = Vec<u8>> {
        let long = (0u8..2, 0u8..2, proptest::collection::vec(0u8..2, 0..3))
            .prop_map(|(g, t, rest)| [vec![0, g, 1, 0, 0, 0, 0, 0, 0, 0, t], rest].concat());
        let short = proptest::collection::vec(0u8..2, 2..5);
        let point = (0u8..2, 0x0Fu8..0x12, proptest::collection::vec(0u8..2, 0..9))
            .prop_map(|(g, kind, rest)| [vec![0, g, kind], rest].concat());
        prop_oneof![long, short, point]
    }

    proptest! {
        #[test]
        fn prefixes_are_in_the_order_of_keys(a in key(), b in key(), cut in prop_oneof![Just(Cut::Group), Just(Cut::GroupAndTime)]) {
            let (of_a, of_b) = (cut.prefix(&a), cut.prefix(&b));
            if of_a != of_b {
                prop_assert_eq!(of_a < of_b, a < b, "{:?} {:?}", a, b);
            }
        }

        #[test]
        fn overlaps_are_true(start in key(), end in prop_oneof![Just(Vec::new()), key()], key in key(), cut in prop_oneof![Just(Cut::Group), Just(Cut::GroupAndTime)]) {
            let range = KeyRange { start, end };
            let prefix = cut.prefix(&key);
            match Span::of(&range, cut) {
                None => prop_assert!(!range.contains(&key)),
                Some(span) if prefix < span.first => prop_assert!(!range.contains(&key)),
                Some(span) => match span.overlap(&prefix) {
                    Overlap::All => prop_assert!(range.contains(&key)),
                    Overlap::After => prop_assert!(!range.contains(&key)),
                    Overlap::Some => {}
                },
            }
        }
    }
}
