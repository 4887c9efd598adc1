//! A table in segments, one for each prefix of its keys.
//!
//! Keys begin with their group, and where state is ordered by time, with their time after it. A
//! segment has all keys of one (group, time): what was written together and is removed together
//! lies together, so a window that is over is dropped and not taken apart. Where keys have no
//! time in front, a segment has all keys of a group.

use crate::prefix::{Cut, Overlap, Prefix, Span};
use crate::segment::{Hash, Mark, Removed, Segment};
use fluvial_core::KeyRange;
use hashbrown::HashTable;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Segments with fewer records than this on average are too small ...
const RECORDS_MIN: usize = 4;
/// ... if there are more than so many of them.
const SEGMENTS_MIN: usize = 1024;

/// A map from keys to values. A value may be a *tombstone*: the key is known to be gone.
#[derive(Debug, Clone, Default)]
pub(crate) struct Table {
    cut: Cut,
    slots: Vec<Slot>,
    vacant: Vec<u32>,
    /// Slots by prefix.
    index: HashTable<u32>,
    /// The same in order.
    order: BTreeMap<Prefix, u32>,
    len: usize,
}

#[derive(Debug, Clone)]
struct Slot {
    prefix: Prefix,
    segment: Segment,
}

/// Where a record is, until the table changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Id {
    slot: u32,
    record: u32,
}

/// The records of one prefix, for reading.
#[derive(Clone, Copy)]
pub(crate) struct Part<'t> {
    cut: Cut,
    prefix: Prefix,
    segment: &'t Segment,
}

impl<'t> Part<'t> {
    /// What all its keys begin with.
    pub(crate) fn prefix(&self) -> &Prefix {
        &self.prefix
    }

    /// How many records it has, tombstones included.
    pub(crate) fn len(&self) -> usize {
        self.segment.len()
    }

    /// How many of them have a value.
    pub(crate) fn values(&self) -> usize {
        self.segment.len() - self.segment.size().tombstones
    }

    /// The key of a record of it.
    pub(crate) fn key(&self, record: u32) -> &'t [u8] {
        self.segment.key(record)
    }

    /// The value of a record of it; `None` for a tombstone.
    pub(crate) fn value(&self, record: u32) -> Option<&'t [u8]> {
        self.segment.value(record)
    }

    /// Every record, in the order in which they were added.
    pub(crate) fn records(&self) -> impl Iterator<Item = u32> + Clone + use<'t> {
        self.segment.iter()
    }

    /// Whether all its keys lie in `range`.
    pub(crate) fn lies_in(&self, range: &KeyRange) -> bool {
        self.overlap(range) == Some(Overlap::All)
    }

    /// Whether some of its keys may lie in `range`.
    pub(crate) fn may_lie_in(&self, range: &KeyRange) -> bool {
        matches!(self.overlap(range), Some(Overlap::All | Overlap::Some))
    }

    fn overlap(&self, range: &KeyRange) -> Option<Overlap> {
        let span = Span::of(range, self.cut)?;
        (self.prefix >= span.first).then(|| span.overlap(&self.prefix))
    }

    /// Whether `other`, a table over the one that this is of, may hide some of it.
    pub(crate) fn may_be_hidden_by(&self, other: &Table) -> bool {
        match other.cut == self.cut {
            true => other.slot(&self.prefix).is_some_and(|s| other.segment(s).has_marks()),
            false => !other.is_empty(),
        }
    }
}

impl Table {
    /// A table without records, cut as `other` is.
    pub(crate) fn cut_like(other: &Self) -> Self {
        Self { cut: other.cut, ..Self::default() }
    }

    /// Number of records, tombstones included.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no record.
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of all keys and values.
    pub(crate) fn bytes(&self) -> usize {
        self.parts().map(|part| part.segment.bytes()).sum()
    }

    /// Its parts in the order of their prefixes.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part<'_>> {
        self.order.iter().map(|(prefix, slot)| self.part(*prefix, *slot))
    }

    fn part(&self, prefix: Prefix, slot: u32) -> Part<'_> {
        Part { cut: self.cut, prefix, segment: self.segment(slot) }
    }

    fn segment(&self, slot: u32) -> &Segment {
        &self.slots[slot as usize].segment
    }

    fn segment_mut(&mut self, slot: u32) -> &mut Segment {
        &mut self.slots[slot as usize].segment
    }

    fn slot(&self, prefix: &Prefix) -> Option<u32> {
        let same = |slot: &u32| self.slots[*slot as usize].prefix == *prefix;
        self.index.find(prefix.hash(), same).copied()
    }

    /// How it is cut.
    pub(crate) fn cut(&self) -> Cut {
        self.cut
    }

    /// The segment that would hold a key, and every key with the same [`Cut::FINEST`] prefix.
    pub(crate) fn segment_of(&self, key: &[u8]) -> Option<&Segment> {
        self.slot(&self.cut.prefix(key)).map(|slot| self.segment(slot))
    }

    /// The record of a key.
    pub(crate) fn find(&self, hash: Hash, key: &[u8]) -> Option<Id> {
        let slot = self.slot(&self.cut.prefix(key))?;
        self.segment(slot).find(hash, key).map(|record| Id { slot, record })
    }

    /// Changes the segment of a key, and of every key with the same [`Cut::FINEST`] prefix; it is
    /// made if there is none, and dropped if it is left empty.
    pub(crate) fn change<T>(&mut self, key: &[u8], change: impl FnOnce(&mut Segment) -> T) -> T {
        let slot = self.slot_for(key);
        self.change_slot(slot, change)
    }

    /// Changes the segment of a prefix, as [`Self::change`].
    fn change_prefix(&mut self, prefix: Prefix, change: impl FnOnce(&mut Segment)) {
        let slot = match self.slot(&prefix) {
            Some(slot) => slot,
            None => self.add_segment(prefix, Segment::default()),
        };
        self.change_slot(slot, change);
    }

    fn change_slot<T>(&mut self, slot: u32, change: impl FnOnce(&mut Segment) -> T) -> T {
        let segment = self.segment_mut(slot);
        let before = segment.len();
        let changed = change(segment);
        let (after, is_empty) = (segment.len(), segment.is_empty());
        self.len = self.len - before + after;
        if is_empty {
            self.drop_segment(slot);
        }
        changed
    }

    /// Adds a record for a key that has none.
    fn insert(&mut self, hash: Hash, key: &[u8], value: Option<&[u8]>, mark: Mark) {
        self.change(key, |segment| segment.insert(hash, key, value, mark));
    }

    /// Puts a value, whether or not there was one.
    pub(crate) fn put(&mut self, hash: Hash, key: &[u8], value: &[u8]) {
        self.change(key, |segment| segment.put(hash, key, value));
    }

    /// Removes the record of a key, if there is one.
    pub(crate) fn remove(&mut self, hash: Hash, key: &[u8]) {
        if let Some(Id { slot, record }) = self.find(hash, key) {
            let segment = self.segment_mut(slot);
            segment.remove(record);
            let is_empty = segment.is_empty();
            self.len -= 1;
            if is_empty {
                self.drop_segment(slot);
            }
        }
    }

    /// The segment in which a key belongs, made if there is none.
    fn slot_for(&mut self, key: &[u8]) -> u32 {
        let prefix = self.cut.prefix(key);
        if let Some(slot) = self.slot(&prefix) {
            return slot;
        }
        let segments = self.order.len();
        if self.cut == Cut::GroupAndTime
            && segments >= SEGMENTS_MIN
            && self.len < segments * RECORDS_MIN
        {
            self.cut_by_group();
            return self.slot_for(key);
        }
        self.add_segment(prefix, Segment::default())
    }

    fn add_segment(&mut self, prefix: Prefix, segment: Segment) -> u32 {
        let added = Slot { prefix, segment };
        let slot = match self.vacant.pop() {
            Some(slot) => {
                self.slots[slot as usize] = added;
                slot
            }
            None => {
                self.slots.push(added);
                self.slots.len() as u32 - 1
            }
        };
        let slots = &self.slots;
        let hash = |slot: &u32| slots[*slot as usize].prefix.hash();
        self.index.insert_unique(prefix.hash(), slot, hash);
        self.order.insert(prefix, slot);
        slot
    }

    fn drop_segment(&mut self, slot: u32) -> Segment {
        let prefix = self.slots[slot as usize].prefix;
        if let Ok(entry) = self.index.find_entry(prefix.hash(), |other| *other == slot) {
            entry.remove();
        }
        self.order.remove(&prefix);
        self.vacant.push(slot);
        std::mem::take(self.segment_mut(slot))
    }

    /// Puts small segments together.
    fn cut_by_group(&mut self) {
        let mut coarse = Self { cut: Cut::Group, ..Self::default() };
        for part in self.parts() {
            for record in part.records() {
                let (key, value) = (part.key(record), part.value(record));
                let (hash, mark) = (part.segment.hash(record), part.segment.mark(record));
                coarse.insert(hash, key, value, mark);
            }
        }
        *self = coarse;
    }

    /// Visits the records of `range` in the order of their keys until `visit` breaks.
    pub(crate) fn scan<'t>(
        &'t self,
        range: &KeyRange,
        mut visit: impl FnMut(&Part<'t>, u32) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        for (part, _) in self.overlapping(range) {
            part.segment.scan(range, |record| visit(&part, record))?;
        }
        ControlFlow::Continue(())
    }

    /// The parts in which keys of `range` may lie.
    fn overlapping<'t, 'r>(
        &'t self,
        range: &'r KeyRange,
    ) -> impl Iterator<Item = (Part<'t>, Overlap)> + use<'t, 'r> {
        let span = Span::of(range, self.cut);
        span.into_iter().flat_map(move |span| {
            self.order.range(span.first..).map_while(move |(prefix, slot)| {
                let overlap = span.overlap(prefix);
                (overlap != Overlap::After).then(|| (self.part(*prefix, *slot), overlap))
            })
        })
    }

    /// Whether no record lies in `range`; `false` may be wrong.
    pub(crate) fn is_clear(&self, range: &KeyRange) -> bool {
        self.overlapping(range).next().is_none()
    }

    /// How many records lie in `range`.
    pub(crate) fn count(&self, range: &KeyRange) -> u64 {
        let counts = self.overlapping(range).map(|(part, overlap)| match overlap {
            Overlap::All => part.segment.len() as u64,
            Overlap::Some | Overlap::After => part.segment.count(range),
        });
        counts.sum()
    }

    /// Removes the records of `range`.
    pub(crate) fn remove_range(&mut self, range: &KeyRange) -> Removed {
        let mut removed = Removed::default();
        let Some(span) = Span::of(range, self.cut) else { return removed };
        let mut emptied = Vec::new();
        for (prefix, slot) in self.order.range(span.first..) {
            let segment = &mut self.slots[*slot as usize].segment;
            removed += match span.overlap(prefix) {
                Overlap::After => break,
                Overlap::All => segment.size(),
                Overlap::Some => segment.remove_range(range),
            };
            if segment.is_empty() || span.overlap(prefix) == Overlap::All {
                emptied.push(*slot);
            }
        }
        for slot in emptied {
            self.drop_segment(slot);
        }
        self.len -= removed.records;
        removed
    }

    /// Takes over the records of a table of changes: values are put, tombstones remove, and
    /// those with a mark are known to have one here.
    pub(crate) fn absorb(&mut self, mut changes: Self) {
        if self.is_empty() {
            *self = Self::cut_like(&changes);
        }
        for slot in std::mem::take(&mut changes.order).into_values() {
            let Slot { prefix, .. } = changes.slots[slot as usize];
            let segment = std::mem::take(changes.segment_mut(slot));
            let is_new = self.cut == changes.cut && self.slot(&prefix).is_none();
            if is_new && !segment.has_marks() && !segment.has_tombstones() {
                self.len += segment.len();
                self.add_segment(prefix, segment);
                continue;
            }
            if self.cut == changes.cut {
                self.change_prefix(prefix, |own| own.absorb(segment));
                continue;
            }
            for record in segment.iter() {
                self.absorb_record(&segment, record);
            }
        }
    }

    fn absorb_record(&mut self, changes: &Segment, record: u32) {
        let (hash, key) = (changes.hash(record), changes.key(record));
        match (changes.value(record), changes.mark(record)) {
            (Some(value), Mark::Plain) => self.insert(hash, key, Some(value), Mark::Plain),
            (Some(value), Mark::Hides) => self.put(hash, key, value),
            (None, _) => self.remove(hash, key),
        }
    }

    /// Bytes of memory held, roughly.
    pub(crate) fn held(&self) -> usize {
        let segments: usize = self.parts().map(|part| part.segment.held()).sum();
        // Nodes of a tree are two thirds full on average.
        let node = (size_of::<Prefix>() + size_of::<u32>()) * 3 / 2;
        segments
            + self.slots.capacity() * size_of::<Slot>()
            + self.index.allocation_size()
            + self.order.len() * node
    }
}

#[cfg(test)]
mod tests;
