//! The order of keys, made only where somebody asks for it.
//!
//! Keys are found by hash; an order costs time and memory that point reads never pay back. So
//! an order only knows up to which record it has seen them. The first scan puts those that came
//! since into *buckets* by the first bytes of the keys, and sorts a bucket when a scan reads it. In a store that is ordered by time a bucket is
//! one (group, time): to expire it, nothing needs to be sorted or compared.

use crate::prefix::{Cut, Overlap, Prefix, Span};
use fluvial_core::KeyRange;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// The records that the ids of an order stand for.
pub(crate) trait Keys {
    /// The key of a record; `None` if it was removed.
    fn key(&self, id: u32) -> Option<&[u8]>;

    /// Whether the record is still there.
    fn is_live(&self, id: u32) -> bool;

    /// The records that are there from `id` on. Ids rise.
    fn added_since(&self, id: u32) -> impl Iterator<Item = u32>;

    /// After all ids so far; those that will come are not before it.
    fn end(&self) -> u32;
}

/// Ids in the order of their keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct Order {
    /// Records from here on are in no bucket yet.
    end: u32,
    buckets: BTreeMap<Prefix, Bucket>,
    /// Ids in buckets.
    settled: usize,
    /// Counts the records that were removed behind this order's back.
    removals: u64,
}

#[derive(Debug, Clone)]
enum Bucket {
    /// One id, without an allocation: in stores that are not ordered by time most are alone.
    One(u32),
    /// Several. In order if `sorted`; without removed records as of `removals`.
    Many { ids: Vec<u32>, sorted: bool, removals: u64 },
}

impl Bucket {
    fn of(ids: &[u32]) -> Self {
        match ids {
            [id] => Self::One(*id),
            _ => Self::Many { ids: ids.to_vec(), sorted: false, removals: 0 },
        }
    }

    fn add(&mut self, more: &[u32]) {
        match self {
            Self::One(first) => *self = Self::of(&[&[*first], more].concat()),
            Self::Many { ids, sorted, .. } => {
                ids.extend_from_slice(more);
                *sorted = false;
            }
        }
    }

    fn ids(&self) -> &[u32] {
        match self {
            Self::One(id) => std::slice::from_ref(id),
            Self::Many { ids, .. } => ids,
        }
    }

    /// Whether none of its records was removed since it was read last.
    fn is_whole(&self, now: u64) -> bool {
        matches!(self, Self::Many { removals, .. } if *removals == now)
    }

    /// The ids in order, with at most one removed one.
    fn sorted(&mut self, keys: &impl Keys, now: u64) -> &[u32] {
        if let Self::Many { ids, sorted, removals } = self {
            if *removals != now {
                ids.retain(|id| keys.is_live(*id));
                *removals = now;
            }
            if !*sorted {
                sort(ids, keys);
                *sorted = true;
            }
        }
        self.ids()
    }
}

/// Puts ids in the order of their keys.
///
/// Records lie far apart, so each is read once: its key is copied to where the others are. Keys of
/// a bucket have much in common; the eight bytes after that decide nearly always.
fn sort(ids: &mut [u32], keys: &impl Keys) {
    if ids.len() < 2 {
        return;
    }
    let usual = keys.key(ids[0]).map_or(0, <[u8]>::len);
    let mut bytes = Vec::with_capacity(usual * ids.len());
    let mut ends = Vec::with_capacity(ids.len() + 1);
    ends.push(0);
    for id in ids.iter() {
        bytes.extend_from_slice(keys.key(*id).unwrap_or_default());
        ends.push(bytes.len());
    }
    let key = |at: u32| &bytes[ends[at as usize]..ends[at as usize + 1]];
    let count = ids.len() as u32;
    let common = (1..count).fold(key(0).len(), |common, at| {
        let (first, other) = (&key(0)[..common], key(at));
        if other.starts_with(first) {
            return common;
        }
        first.iter().zip(other).take_while(|(a, b)| a == b).count()
    });
    let mut tagged: Vec<(u64, u32)> = (0..count).map(|at| (tag(&key(at)[common..]), at)).collect();
    tagged.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a.1).cmp(key(b.1))));
    let sorted: Vec<u32> = tagged.iter().map(|(_, at)| ids[*at as usize]).collect();
    ids.copy_from_slice(&sorted);
}

/// Eight bytes as a number that is ordered as they are, zeros after their end.
fn tag(bytes: &[u8]) -> u64 {
    let mut tag = [0; 8];
    let length = bytes.len().min(8);
    tag[..length].copy_from_slice(&bytes[..length]);
    u64::from_be_bytes(tag)
}

/// Buckets are as fine as segments can be.
const CUT: Cut = Cut::FINEST;

impl Order {
    /// Records from here on are in no order yet.
    pub(crate) fn end(&self) -> u32 {
        self.end
    }

    /// Takes note that a record was removed. It is dropped from its bucket when that is read.
    pub(crate) fn note_removal(&mut self) {
        self.removals += 1;
    }

    /// Puts what was added into the buckets. Neighbours mostly belong in one.
    fn settle(&mut self, keys: &impl Keys) {
        let (mut run, mut ids): (Option<Prefix>, _) = (None, Vec::new());
        for id in keys.added_since(self.end) {
            let Some(key) = keys.key(id) else { continue };
            if run.is_none_or(|run| !run.begins(key, CUT))
                && let Some(last) = run.replace(CUT.prefix(key))
            {
                self.add(last, &ids);
                ids.clear();
            }
            ids.push(id);
        }
        if let Some(last) = run {
            self.add(last, &ids);
        }
        self.end = keys.end();
    }

    fn add(&mut self, prefix: Prefix, ids: &[u32]) {
        self.settled += ids.len();
        self.buckets.entry(prefix).and_modify(|b| b.add(ids)).or_insert_with(|| Bucket::of(ids));
    }

    /// Visits the records of `range` in order until `visit` breaks.
    pub(crate) fn scan(
        &mut self,
        keys: &impl Keys,
        range: &KeyRange,
        mut visit: impl FnMut(u32) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let Some(span) = Span::of(range, CUT) else { return ControlFlow::Continue(()) };
        self.settle(keys);
        let now = self.removals;
        for (prefix, bucket) in self.buckets.range_mut(span.first..) {
            let overlap = span.overlap(prefix);
            if overlap == Overlap::After {
                break;
            }
            let mut ids = bucket.sorted(keys, now);
            if overlap == Overlap::Some {
                let start = range.start.as_slice();
                ids = &ids[ids.partition_point(|id| keys.key(*id).is_some_and(|k| k < start))..];
                if !range.end.is_empty() {
                    let end = range.end.as_slice();
                    ids = &ids[..ids.partition_point(|id| keys.key(*id).is_some_and(|k| k < end))];
                }
            }
            for id in ids.iter().filter(|id| keys.is_live(**id)) {
                visit(*id)?;
            }
        }
        ControlFlow::Continue(())
    }

    /// How many records lie in `range`.
    pub(crate) fn count(&mut self, keys: &impl Keys, range: &KeyRange) -> u64 {
        let Some(span) = Span::of(range, CUT) else { return 0 };
        self.settle(keys);
        let mut count = 0;
        for (prefix, bucket) in self.buckets.range(span.first..) {
            let ids = bucket.ids();
            count += match span.overlap(prefix) {
                Overlap::After => break,
                Overlap::All if bucket.is_whole(self.removals) => ids.len(),
                Overlap::All => ids.iter().filter(|id| keys.is_live(**id)).count(),
                Overlap::Some => {
                    let inside = |id: u32| keys.key(id).is_some_and(|key| range.contains(key));
                    ids.iter().filter(|id| inside(**id)).count()
                }
            };
        }
        count as u64
    }

    /// Takes the records of `range` out, in any order.
    pub(crate) fn take(&mut self, keys: &impl Keys, range: &KeyRange) -> Vec<u32> {
        let Some(span) = Span::of(range, CUT) else { return Vec::new() };
        self.settle(keys);
        let (mut taken, mut emptied) = (Vec::new(), Vec::new());
        for (prefix, bucket) in self.buckets.range_mut(span.first..) {
            let overlap = span.overlap(prefix);
            if overlap == Overlap::After {
                break;
            }
            let before = bucket.ids().len();
            let mut left = Vec::new();
            for id in bucket.ids().iter().copied().filter(|id| keys.is_live(*id)) {
                let all = overlap == Overlap::All;
                match all || keys.key(id).is_some_and(|key| range.contains(key)) {
                    true => taken.push(id),
                    false => left.push(id),
                }
            }
            self.settled -= before - left.len();
            if left.is_empty() {
                emptied.push(*prefix);
            } else if left.len() < before {
                *bucket = Bucket::Many { ids: left, sorted: false, removals: self.removals };
            }
        }
        for prefix in emptied {
            self.buckets.remove(&prefix);
        }
        taken
    }

    /// Gives every record its new id; those that have none are removed. Records from `end` on are
    /// in no order yet.
    pub(crate) fn renumber(&mut self, new_id: impl Fn(u32) -> Option<u32>, end: u32) {
        self.end = end;
        self.buckets.retain(|_, bucket| match bucket {
            Bucket::One(id) => new_id(*id).map(|new| *id = new).is_some(),
            Bucket::Many { ids, .. } => {
                *ids = ids.iter().filter_map(|id| new_id(*id)).collect();
                !ids.is_empty()
            }
        });
        self.settled = self.buckets.values().map(|bucket| bucket.ids().len()).sum();
    }

    /// Bytes of memory held, roughly.
    pub(crate) fn held(&self) -> usize {
        // Nodes of the tree are two thirds full on average.
        let node = (size_of::<Prefix>() + size_of::<Bucket>()) * 3 / 2;
        self.settled * size_of::<u32>() + self.buckets.len() * node
    }
}
