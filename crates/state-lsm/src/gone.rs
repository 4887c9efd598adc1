//! Sets of keys that were deleted by range.
//!
//! What a window leaves behind is the same range in every key group. It is held once for all of
//! them: a set costs what its windows cost, not windows times groups.

use fluvial_core::{KeyGroup, KeyGroupRange, KeyRange, KeyRanges};
use std::ops::Range;
use std::sync::Arc;

/// One past the last group that a key can name.
const GROUPS_END: u32 = 1 << 16;

/// Groups with the same ranges behind the two bytes of the group.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    groups: Range<u32>,
    rests: Arc<KeyRanges>,
}

/// Ranges of keys. Parts are in order, not empty, and unlike their neighbours.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Gone(Vec<Part>);

/// The group of a bound, and what lies behind it. One that is too short to have a group is that of
/// the first key behind it.
fn bound(bytes: &[u8]) -> (u32, &[u8]) {
    match bytes {
        [] => (0, &[]),
        [high] => (u32::from(*high) << 8, &[]),
        [high, low, rest @ ..] => (u32::from(*high) << 8 | u32::from(*low), rest),
    }
}

fn end_bound(bytes: &[u8]) -> (u32, &[u8]) {
    if bytes.is_empty() { (GROUPS_END, &[]) } else { bound(bytes) }
}

/// What a range is in its first group, in those where it is everything, and in its last.
fn split(range: &KeyRange) -> impl Iterator<Item = (Range<u32>, KeyRange)> {
    let ((first, start), (last, end)) = (bound(&range.start), end_bound(&range.end));
    let rest = |start: &[u8], end: &[u8]| KeyRange { start: start.to_vec(), end: end.to_vec() };
    let parts = if first == last {
        let one = (start < end).then(|| (first..first + 1, rest(start, end)));
        [one, None, None]
    } else if first < last {
        let inner = first + u32::from(!start.is_empty());
        [
            (inner > first).then(|| (first..inner, rest(start, &[]))),
            (inner < last).then(|| (inner..last, KeyRange::all())),
            (!end.is_empty()).then(|| (last..last + 1, rest(&[], end))),
        ]
    } else {
        [None, None, None]
    };
    parts.into_iter().flatten()
}

/// A bound behind the bytes of a group; an empty end is the end of the group.
fn with_group(group: u32, rest: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(2 + rest.len());
    key.extend_from_slice(&(group as u16).to_be_bytes());
    key.extend_from_slice(rest);
    key
}

fn end_with_group(group: u32, rest: &[u8]) -> Vec<u8> {
    match (rest.is_empty(), group + 1) {
        (true, GROUPS_END) => Vec::new(),
        (true, next) => with_group(next, &[]),
        (false, _) => with_group(group, rest),
    }
}

/// What of `ranges` is not in `others`.
fn difference(ranges: &KeyRanges, others: &KeyRanges) -> KeyRanges {
    let mut left = KeyRanges::default();
    for range in ranges.iter() {
        others.outside(range).iter().for_each(|piece| left.insert(piece));
    }
    left
}

/// What one set says of a group.
type Side<'s> = Option<&'s Arc<KeyRanges>>;

impl Gone {
    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether `key` lies in one of them.
    pub(crate) fn contains(&self, key: &[u8]) -> bool {
        let (group, rest) = bound(key);
        self.rests_of(group).is_some_and(|rests| rests.contains(rest))
    }

    fn rests_of(&self, group: u32) -> Side<'_> {
        let after = self.0.partition_point(|part| part.groups.start <= group);
        let part = &self.0[after.checked_sub(1)?];
        (group < part.groups.end).then_some(&part.rests)
    }

    /// Groups that have the same ranges, and what these are behind the group, in order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (Range<u32>, &KeyRanges)> {
        self.0.iter().map(|part| (part.groups.clone(), &*part.rests))
    }

    /// Adds a range.
    pub(crate) fn insert(&mut self, range: &KeyRange) {
        for (groups, rest) in split(range) {
            let mut rests = KeyRanges::default();
            rests.insert(&rest);
            self.add(groups, rests);
        }
    }

    /// Adds the same ranges to these groups.
    pub(crate) fn add(&mut self, groups: Range<u32>, rests: KeyRanges) {
        let rests = Arc::new(rests);
        if self.0.last().is_none_or(|last| last.groups.end <= groups.start) {
            return self.push(groups, rests);
        }
        *self = self.union(&Self(vec![Part { groups, rests }]));
    }

    fn push(&mut self, groups: Range<u32>, rests: Arc<KeyRanges>) {
        if rests.is_empty() || groups.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some(last) if last.groups.end == groups.start && last.rests == rests => {
                last.groups.end = groups.end;
            }
            _ => self.0.push(Part { groups, rests }),
        }
    }

    /// What two sets come to, group by group.
    fn combine(&self, other: &Self, both: impl Fn(Side<'_>, Side<'_>) -> Arc<KeyRanges>) -> Self {
        let mut all = Self::default();
        let (mut ours, mut theirs) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut at = 0;
        loop {
            let (one, two) = (ours.peek().copied(), theirs.peek().copied());
            let edge = |part: &Part| match part.groups.start > at {
                true => part.groups.start,
                false => part.groups.end,
            };
            let Some(until) = one.into_iter().chain(two).map(edge).min() else { return all };
            let here = |part: Option<&'_ Part>| part.is_some_and(|part| part.groups.start <= at);
            let side = |part| here(part).then_some(part).flatten();
            if here(one) || here(two) {
                let sides = (side(one).map(|p| &p.rests), side(two).map(|p| &p.rests));
                all.push(at..until, both(sides.0, sides.1));
            }
            at = until;
            ours.next_if(|part| part.groups.end <= at);
            theirs.next_if(|part| part.groups.end <= at);
        }
    }

    /// Those of both.
    #[must_use]
    pub(crate) fn union(&self, other: &Self) -> Self {
        match (self.is_empty(), other.is_empty()) {
            (_, true) => return self.clone(),
            (true, _) => return other.clone(),
            _ => {}
        }
        self.combine(other, |ours, theirs| match (ours, theirs) {
            (Some(ours), Some(theirs)) => Arc::new(ours.union(theirs)),
            (one, other) => one.or(other).cloned().unwrap_or_default(),
        })
    }

    /// What is not in the other.
    #[must_use]
    pub(crate) fn minus(&self, other: &Self) -> Self {
        if self.is_empty() || other.is_empty() {
            return self.clone();
        }
        self.combine(other, |ours, theirs| match (ours, theirs) {
            (Some(ours), Some(theirs)) => Arc::new(difference(ours, theirs)),
            (ours, _) => ours.cloned().unwrap_or_default(),
        })
    }

    /// What of them lies in these groups.
    #[must_use]
    pub(crate) fn within(&self, groups: KeyGroupRange) -> Self {
        let mut all = Self::default();
        for Part { groups: own, rests } in &self.0 {
            let start = own.start.max(groups.start.into());
            let end = own.end.min(groups.end.into());
            all.push(start..end.max(start), Arc::clone(rests));
        }
        all
    }

    /// Whether all keys with one of these groups, which are in order, and a rest in `rest` are in
    /// them.
    pub(crate) fn covers(&self, groups: impl Iterator<Item = KeyGroup>, rest: &KeyRange) -> bool {
        let mut parts = self.0.iter().peekable();
        // Whether the part that is looked at covers the rest.
        let mut known: Option<bool> = None;
        for group in groups {
            let group = u32::from(group.0);
            while parts.next_if(|part| part.groups.end <= group).is_some() {
                known = None;
            }
            let Some(part) = parts.peek().filter(|part| part.groups.start <= group) else {
                return false;
            };
            if !*known.get_or_insert_with(|| part.rests.covers(rest)) {
                return false;
            }
        }
        true
    }

    /// Those that touch these groups as ranges of keys: in order, apart from each other.
    fn ranges_of(&self, groups: Range<u32>) -> Vec<KeyRange> {
        let mut ranges: Vec<KeyRange> = Vec::new();
        let from = self.0.partition_point(|part| part.groups.end <= groups.start);
        for part in self.0[from..].iter().take_while(|part| part.groups.start < groups.end) {
            let own = part.groups.start.max(groups.start)..part.groups.end.min(groups.end);
            for (group, rest) in own.flat_map(|g| part.rests.iter().map(move |rest| (g, rest))) {
                let start = with_group(group, &rest.start);
                let end = end_with_group(group, &rest.end);
                match ranges.last_mut() {
                    Some(last) if last.end == start => last.end = end,
                    _ => ranges.push(KeyRange { start, end }),
                }
            }
        }
        ranges
    }

    /// All of them as ranges of keys: in order, apart from each other.
    pub(crate) fn ranges(&self) -> Vec<KeyRange> {
        self.ranges_of(0..GROUPS_END)
    }

    /// What of `range` lies in none of them, in order.
    pub(crate) fn outside(&self, range: &KeyRange) -> Vec<KeyRange> {
        let mut holes = KeyRanges::default();
        if !self.is_empty() {
            let (first, (last, _)) = (bound(&range.start).0, end_bound(&range.end));
            self.ranges_of(first..last + 1).iter().for_each(|hole| holes.insert(hole));
        }
        holes.outside(range)
    }

    /// Bytes of memory held, roughly.
    pub(crate) fn held(&self) -> usize {
        let rests: usize = self.0.iter().map(|part| part.rests.held()).sum();
        rests + self.0.capacity() * size_of::<Part>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn key() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            vec(0u8..3, 0..2),
            (0u8..3, vec(0u8..3, 0..3)).prop_map(|(group, rest)| [&[0, group][..], &rest].concat()),
        ]
    }

    fn range() -> impl Strategy<Value = KeyRange> {
        (key(), key()).prop_map(|(start, end)| KeyRange { start, end })
    }

    fn set(ranges: &[KeyRange]) -> Gone {
        let mut gone = Gone::default();
        ranges.iter().for_each(|range| gone.insert(range));
        gone
    }

    /// Every short key of a few groups.
    fn keys() -> Vec<Vec<u8>> {
        let digits = [None, Some(0u8), Some(1), Some(2)];
        let rests = digits.iter().flat_map(|a| digits.map(|b| [*a, b]));
        let rests: Vec<Vec<u8>> =
            rests.map(|rest| rest.into_iter().map_while(|digit| digit).collect()).collect();
        let groups = [[0, 0], [0, 1], [0, 2], [0, 3], [1, 0], [2, 7], [255, 255]];
        groups.iter().flat_map(|group| rests.iter().map(|r| [&group[..], r].concat())).collect()
    }

    fn has(ranges: &[KeyRange], key: &[u8]) -> bool {
        ranges.iter().any(|range| !range.is_empty() && range.contains(key))
    }

    #[test]
    fn a_window_of_all_groups_is_one_part() {
        let window =
            |group: u16, time: u8| KeyRange::prefix(&[&group.to_be_bytes()[..], &[time]].concat());
        let mut gone = Gone::default();
        for time in [3, 1, 2] {
            (0..128).for_each(|group| gone.insert(&window(group, time)));
            assert_eq!(gone.0.len(), 1);
        }
        assert_eq!(gone.ranges().len(), 128);
    }

    proptest! {
        #[test]
        fn it_is_a_set_of_keys(
            ours in vec(range(), 0..6),
            theirs in vec(range(), 0..4),
            asked in range(),
            from in 0u16..3,
            count in 0u16..3,
        ) {
            let (a, b) = (set(&ours), set(&theirs));
            let (union, minus) = (a.union(&b), a.minus(&b));
            let groups = KeyGroupRange { start: from, end: from + count };
            let clipped = a.within(groups);
            let (listed, outside) = (a.ranges(), a.outside(&asked));
            prop_assert_eq!(&set(&listed), &a);
            prop_assert!(listed.windows(2).all(|w| !w[0].end.is_empty() && w[0].end < w[1].start));
            for key in keys() {
                let (one, other) = (has(&ours, &key), has(&theirs, &key));
                let own = KeyGroup::of(&key).is_some_and(|group| groups.contains(group));
                prop_assert_eq!(a.contains(&key), one, "{:?}", &key);
                prop_assert_eq!(union.contains(&key), one || other, "{:?}", &key);
                prop_assert_eq!(minus.contains(&key), one && !other, "{:?}", &key);
                prop_assert_eq!(clipped.contains(&key), one && own, "{:?}", &key);
                prop_assert_eq!(has(&listed, &key), one, "{:?}", &key);
                let left = !asked.is_empty() && asked.contains(&key) && !one;
                prop_assert_eq!(has(&outside, &key), left, "{:?}", &key);
            }
            let all = (0..3).map(KeyGroup);
            let rest = KeyRange { start: vec![1], end: vec![2] };
            let covered = (0..3u8).all(|group| {
                has_all(&ours, &KeyRange { start: vec![0, group, 1], end: vec![0, group, 2] })
            });
            prop_assert_eq!(a.covers(all, &rest), covered);
        }
    }

    fn has_all(ranges: &[KeyRange], range: &KeyRange) -> bool {
        let mut set = KeyRanges::default();
        ranges.iter().for_each(|range| set.insert(range));
        set.covers(range)
    }
}
