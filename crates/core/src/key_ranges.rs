//! Sets of keys as ranges: what backends keep of the ranges that were deleted.

use crate::state::KeyRange;
use std::cmp::Ordering;

/// KeyRanges in order, apart from each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyRanges(Vec<KeyRange>);

/// The order of two ends: an empty one is the end of everything.
fn compare_ends(a: &[u8], b: &[u8]) -> Ordering {
    match (a.is_empty(), b.is_empty()) {
        (false, false) => a.cmp(b),
        (a, b) => a.cmp(&b),
    }
}

/// Whether a range that ends at `end` lies before `key` and does not touch it.
fn ends_before(end: &[u8], key: &[u8]) -> bool {
    !end.is_empty() && end < key
}

impl KeyRanges {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each range in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &KeyRange> {
        self.0.iter()
    }

    /// Whether every key of `range` lies in them.
    pub fn covers(&self, range: &KeyRange) -> bool {
        let after = self.0.partition_point(|one| one.start <= range.start);
        range.is_empty() || after > 0 && !compare_ends(&self.0[after - 1].end, &range.end).is_lt()
    }

    /// Whether `key` lies in one of them.
    pub fn contains(&self, key: &[u8]) -> bool {
        let after = self.0.partition_point(|range| range.start.as_slice() <= key);
        after > 0 && self.0[after - 1].contains(key)
    }

    /// Adds a range; it becomes one with those it touches.
    pub fn insert(&mut self, range: &KeyRange) {
        if range.is_empty() {
            return;
        }
        let first = self.0.partition_point(|r| ends_before(&r.end, &range.start));
        let last = self.0.partition_point(|r| !ends_before(&range.end, &r.start));
        let mut whole = range.clone();
        if first < last {
            let (low, high) = (&self.0[first], &self.0[last - 1]);
            if low.start < whole.start {
                whole.start.clone_from(&low.start);
            }
            if compare_ends(&high.end, &whole.end).is_gt() {
                whole.end.clone_from(&high.end);
            }
        }
        self.0.splice(first..last.max(first), [whole]);
    }

    /// Those of both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let (most, rest) = if self.0.len() < other.0.len() { (other, self) } else { (self, other) };
        let mut all = most.clone();
        rest.0.iter().for_each(|range| all.insert(range));
        all
    }

    /// What of `range` lies in none of them, in order.
    pub fn outside(&self, range: &KeyRange) -> Vec<KeyRange> {
        let mut pieces = Vec::new();
        let mut start = range.start.clone();
        let first = self.0.partition_point(|r| ends_before(&r.end, &range.start));
        for hole in &self.0[first..] {
            if !range.end.is_empty() && hole.start >= range.end {
                break;
            }
            if start < hole.start {
                pieces.push(KeyRange { start, end: hole.start.clone() });
            }
            if hole.end.is_empty() {
                return pieces;
            }
            start = hole.end.clone().max(range.start.clone());
        }
        if range.end.is_empty() || start < range.end {
            pieces.push(KeyRange { start, end: range.end.clone() });
        }
        pieces
    }

    /// Bytes of memory held, roughly.
    pub fn held(&self) -> usize {
        let bytes: usize = self.0.iter().map(|r| r.start.len() + r.end.len()).sum();
        bytes + self.0.capacity() * size_of::<KeyRange>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(0u8..3, 0..3)
    }

    fn range() -> impl Strategy<Value = KeyRange> {
        (key(), key()).prop_map(|(start, end)| KeyRange { start, end })
    }

    #[test]
    fn ranges_that_follow_each_other_are_one() {
        let mut ranges = KeyRanges::default();
        let all = KeyRange { start: b"a".to_vec(), end: b"z".to_vec() };
        ranges.insert(&KeyRange { start: b"a".to_vec(), end: b"c\0".to_vec() });
        ranges.insert(&KeyRange { end: b"z".to_vec(), ..all.after(b"c") });
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [&all]);
    }

    #[test]
    fn a_hole_from_the_first_key_on_leaves_the_rest() {
        let mut ranges = KeyRanges::default();
        ranges.insert(&KeyRange { start: Vec::new(), end: vec![2] });
        let rest = KeyRange { start: vec![2], end: Vec::new() };
        assert_eq!(ranges.outside(&KeyRange::all()), [rest]);
    }

    proptest! {
        #[test]
        fn a_set_of_ranges_is_a_set(inserted in proptest::collection::vec(range(), 0..6), asked in range()) {
            let mut ranges = KeyRanges::default();
            inserted.iter().for_each(|r| ranges.insert(r));
            let apart = ranges.0.windows(2).all(|w| ends_before(&w[0].end, &w[1].start));
            prop_assert!(apart, "{ranges:?}");
            let pieces = ranges.outside(&asked);
            prop_assert_eq!(ranges.covers(&asked), asked.is_empty() || pieces.is_empty());
            let digits = || [None, Some(0u8), Some(1), Some(2)];
            for key in digits().into_iter().flat_map(|a| digits().map(|b| [a, b])).flat_map(|[a, b]| {
                digits().map(|c| [a, b, c].into_iter().map_while(|d| d).collect::<Vec<u8>>())
            }) {
                let inside = inserted.iter().any(|r| !r.is_empty() && r.contains(&key));
                prop_assert_eq!(ranges.contains(&key), inside, "{:?} in {:?}", &key, &ranges);
                let expected = !asked.is_empty() && asked.contains(&key) && !inside;
                let found = pieces.iter().filter(|p| p.contains(&key)).count();
                prop_assert_eq!(found, usize::from(expected), "{:?} in {:?}", &key, &pieces);
            }
        }
    }
}
