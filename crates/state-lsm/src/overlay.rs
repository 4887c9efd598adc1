//! The writes of one batch: keys and values in one arena, found by hash, put in order when
//! somebody asks for it.
//!
//! Each entry knows whether the version below has its key, so that the number of keys is exact
//! at any time. Where that is not known, because a block was not close, the commit finds out.

use crate::budget::lock;
use crate::codec::tag;
use crate::gone::Gone;
use fluvial_core::{KeyGroup, KeyRange};
use hashbrown::HashTable;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

/// Whether the version has a key, behind what this batch deleted by range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Below {
    Has,
    HasNot,
    /// A block would have to be read.
    Unknown,
}

/// What the batch says of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Live,
    Dead,
    /// Nothing any more: the entry is no longer found by its key.
    Dropped,
}

#[derive(Debug, Clone)]
struct Entry {
    hash: u64,
    key_at: usize,
    value_at: usize,
    key_len: u32,
    value_len: u32,
    state: State,
    below: Below,
}

/// An entry as others see it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Write<'o> {
    pub(crate) key: &'o [u8],
    pub(crate) hash: u64,
    /// `None` if it is deleted.
    pub(crate) value: Option<&'o [u8]>,
    pub(crate) below: Below,
}

/// The writes of one batch.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    arena: Vec<u8>,
    /// Bytes of the arena that nobody refers to.
    garbage: usize,
    entries: Vec<Entry>,
    table: HashTable<u32>,
    order: Mutex<Order>,
    /// Ranges of the version that are gone; `entries` were made after that.
    pub(crate) gone: Gone,
    /// Keys of the version that were deleted by range, in each group.
    removed: BTreeMap<KeyGroup, i64>,
    /// By how much the number of keys has changed.
    delta: i64,
    unknown: usize,
}

/// Entries in order: several lists, each in order, the first ones longer.
#[derive(Debug, Default)]
pub(crate) struct Order {
    pub(crate) lists: Vec<Vec<u32>>,
    /// How many entries are in them.
    seen: usize,
}

impl Overlay {
    /// Whether nothing was written.
    pub(crate) fn is_unchanged(&self) -> bool {
        self.table.is_empty() && self.gone.is_empty()
    }

    /// By how much the number of keys has changed; entries that are not known are taken for
    /// changes of what is there.
    pub(crate) fn delta(&self) -> i64 {
        self.delta
    }

    /// Whether the commit has to look for some keys.
    pub(crate) fn has_unknown(&self) -> bool {
        self.unknown > 0
    }

    /// Bytes of memory held.
    pub(crate) fn held(&self) -> usize {
        self.arena.capacity()
            + self.entries.capacity() * size_of::<Entry>()
            + self.table.capacity() * 5
            + lock(&self.order).seen * 4
            + self.gone.held()
    }

    fn key(&self, entry: &Entry) -> &[u8] {
        &self.arena[entry.key_at..entry.key_at + entry.key_len as usize]
    }

    fn write(&self, entry: &Entry) -> Write<'_> {
        let value = &self.arena[entry.value_at..entry.value_at + entry.value_len as usize];
        let value = (entry.state == State::Live).then_some(value);
        Write { key: self.key(entry), hash: entry.hash, value, below: entry.below }
    }

    fn find(&self, hash: u64, key: &[u8]) -> Option<u32> {
        let is_it = |at: &u32| {
            let entry = &self.entries[*at as usize];
            entry.hash == hash && self.key(entry) == key
        };
        self.table.find(hash, is_it).copied()
    }

    /// What the batch says of a key.
    pub(crate) fn get(&self, hash: u64, key: &[u8]) -> Option<Write<'_>> {
        self.find(hash, key).map(|at| self.write(&self.entries[at as usize]))
    }

    /// Whether the batch says something of a key.
    pub(crate) fn has(&self, hash: u64, key: &[u8]) -> bool {
        self.find(hash, key).is_some()
    }

    /// An entry of one of the lists in order; `None` if it was dropped.
    pub(crate) fn entry(&self, at: u32) -> Option<Write<'_>> {
        let entry = &self.entries[at as usize];
        (entry.state != State::Dropped).then(|| self.write(entry))
    }

    fn push(&mut self, bytes: &[u8]) -> usize {
        let at = self.arena.len();
        self.arena.extend_from_slice(bytes);
        at
    }

    fn add(&mut self, hash: u64, key: &[u8], state: State, value: &[u8], below: Below) {
        let key_at = self.push(key);
        let value_at = self.push(value);
        let (key_len, value_len) = (key.len() as u32, value.len() as u32);
        let at = self.entries.len() as u32;
        self.entries.push(Entry { hash, key_at, value_at, key_len, value_len, state, below });
        let entries = &self.entries;
        self.table.insert_unique(hash, at, |at| entries[*at as usize].hash);
        self.unknown += usize::from(below == Below::Unknown);
    }

    /// Makes room for so many more entries.
    pub(crate) fn reserve(&mut self, entries: usize, bytes: usize) {
        self.arena.reserve(bytes);
        self.entries.reserve(entries);
        let known = &self.entries;
        self.table.reserve(entries, |at| known[*at as usize].hash);
    }

    /// Writes a value. `below` counts only if the batch says nothing of the key yet.
    pub(crate) fn put(&mut self, hash: u64, key: &[u8], value: &[u8], below: Below) {
        let Some(at) = self.find(hash, key) else {
            self.delta += i64::from(below == Below::HasNot);
            return self.add(hash, key, State::Live, value, below);
        };
        let entry = &self.entries[at as usize];
        let (old_at, old_len) = (entry.value_at, entry.value_len as usize);
        let value_at = if value.len() <= old_len {
            self.arena[old_at..old_at + value.len()].copy_from_slice(value);
            self.garbage += old_len - value.len();
            old_at
        } else {
            self.garbage += old_len;
            self.push(value)
        };
        let entry = &mut self.entries[at as usize];
        self.delta += i64::from(entry.state == State::Dead);
        (entry.value_at, entry.value_len) = (value_at, value.len() as u32);
        entry.state = State::Live;
        if self.garbage > (1 << 20) && self.garbage > self.arena.len() / 2 {
            self.tidy();
        }
    }

    /// Deletes a key. `below` counts only if the batch says nothing of it yet.
    pub(crate) fn delete(&mut self, hash: u64, key: &[u8], below: Below) {
        let Some(at) = self.find(hash, key) else {
            if below != Below::HasNot {
                self.delta -= 1;
                self.add(hash, key, State::Dead, &[], below);
            }
            return;
        };
        let entry = &mut self.entries[at as usize];
        self.delta -= i64::from(entry.state == State::Live);
        entry.state = State::Dead;
        if entry.below == Below::HasNot {
            self.drop_entry(at);
        }
    }

    fn drop_entry(&mut self, at: u32) {
        let entry = &mut self.entries[at as usize];
        entry.state = State::Dropped;
        self.unknown -= usize::from(entry.below == Below::Unknown);
        self.garbage += (entry.key_len + entry.value_len) as usize;
        if let Ok(place) = self.table.find_entry(entry.hash, |other| *other == at) {
            place.remove();
        }
    }

    /// Moves what is still there together.
    fn tidy(&mut self) {
        let entries = &self.entries;
        let is_there = |at: &u32| entries[*at as usize].state != State::Dropped;
        lock(&self.order).lists.iter_mut().for_each(|list| list.retain(is_there));
        let mut arena = Vec::with_capacity(self.arena.len() - self.garbage);
        for entry in &mut self.entries {
            if entry.state == State::Dropped {
                (entry.key_len, entry.value_len) = (0, 0);
            }
            let key = entry.key_at..entry.key_at + entry.key_len as usize;
            let value = entry.value_at..entry.value_at + entry.value_len as usize;
            entry.key_at = arena.len();
            arena.extend_from_slice(&self.arena[key]);
            entry.value_at = arena.len();
            arena.extend_from_slice(&self.arena[value]);
        }
        self.arena = arena;
        self.garbage = 0;
    }

    /// By how much the entries in `range` change the number of keys; `None` if one is not known.
    pub(crate) fn count(&self, range: &KeyRange) -> Option<i64> {
        if self.table.is_empty() {
            return Some(0);
        }
        let mut sum = 0;
        for list in &self.ordered().lists {
            for write in self.in_range(list, range).iter().filter_map(|at| self.entry(*at)) {
                sum += i64::from(write.value.is_some());
                sum -= match write.below {
                    Below::Has => 1,
                    Below::HasNot => 0,
                    Below::Unknown => return None,
                };
            }
        }
        Some(sum)
    }

    /// Keys that must be looked for before `range` can be counted.
    pub(crate) fn unknown_in(&self, range: &KeyRange) -> Vec<Vec<u8>> {
        if self.unknown == 0 {
            return Vec::new();
        }
        let order = self.ordered();
        let inside = order.lists.iter().flat_map(|list| self.in_range(list, range));
        let writes = inside.filter_map(|at| self.entry(*at));
        writes.filter(|w| w.below == Below::Unknown).map(|write| write.key.to_vec()).collect()
    }

    /// Says of a key whether the version has it.
    pub(crate) fn resolve(&mut self, hash: u64, key: &[u8], has: bool) {
        let Some(at) = self.find(hash, key) else { return };
        let entry = &mut self.entries[at as usize];
        if entry.below != Below::Unknown {
            return;
        }
        self.unknown -= 1;
        entry.below = if has { Below::Has } else { Below::HasNot };
        if !has {
            self.delta += 1;
            if entry.state == State::Dead {
                self.drop_entry(at);
            }
        }
    }

    /// Removes everything in `ranges`. `below` is how many keys of the version that removes in each
    /// group from `first` on; all entries in the ranges must be known.
    pub(crate) fn delete_ranges(&mut self, ranges: &Gone, first: KeyGroup, below: &[i64]) {
        if !self.table.is_empty() {
            for range in ranges.ranges() {
                let doomed: Vec<u32> = {
                    let order = self.ordered();
                    let inside = order.lists.iter().flat_map(|list| self.in_range(list, &range));
                    inside.copied().filter(|at| self.entry(*at).is_some()).collect()
                };
                for at in doomed {
                    let entry = &self.entries[at as usize];
                    self.delta -= i64::from(entry.state == State::Live);
                    self.delta += i64::from(entry.below == Below::Has);
                    self.drop_entry(at);
                }
            }
        }
        for (group, count) in (first.0..).zip(below).filter(|(_, count)| **count != 0) {
            *self.removed.entry(KeyGroup(group)).or_default() += count;
            self.delta -= count;
        }
        self.gone = self.gone.union(ranges);
    }

    /// The entries in order.
    pub(crate) fn ordered(&self) -> MutexGuard<'_, Order> {
        let mut order = lock(&self.order);
        if order.seen < self.entries.len() {
            let mut fresh: Vec<u32> = (order.seen as u32..self.entries.len() as u32).collect();
            self.sort(&mut fresh);
            order.seen = self.entries.len();
            // Lists that are not much longer become one with it: few lists, few moves.
            while order.lists.last().is_some_and(|last| last.len() <= 2 * fresh.len()) {
                fresh.append(&mut order.lists.pop().unwrap_or_default());
                self.sort(&mut fresh);
            }
            order.lists.push(fresh);
        }
        order
    }

    fn sort(&self, list: &mut Vec<u32>) {
        list.retain(|at| self.entries[*at as usize].state != State::Dropped);
        let key = |at: u32| self.key(&self.entries[at as usize]);
        let mut tagged: Vec<(u128, u32)> = list.iter().map(|at| (tag(key(*at)), *at)).collect();
        tagged.sort_unstable_by(|a, b| a.0.cmp(&b.0).then_with(|| key(a.1).cmp(key(b.1))));
        list.iter_mut().zip(tagged).for_each(|(into, (_, at))| *into = at);
    }

    /// What of a list lies in `range`. Keys of dropped entries stay until the list is made anew.
    pub(crate) fn in_range<'l>(&self, list: &'l [u32], range: &KeyRange) -> &'l [u32] {
        let key = |at: &u32| self.key(&self.entries[*at as usize]);
        let start = list.partition_point(|at| key(at) < range.start.as_slice());
        let rest = &list[start..];
        match range.end.is_empty() {
            true => rest,
            false => &rest[..rest.partition_point(|at| key(at) < range.end.as_slice())],
        }
    }

    /// All entries in one order.
    pub(crate) fn all(&self) -> Vec<u32> {
        let mut all: Vec<u32> = (0..self.entries.len() as u32).collect();
        self.sort(&mut all);
        all
    }

    /// Every key that the commit has to look for.
    pub(crate) fn unknown_keys(&self) -> Vec<Vec<u8>> {
        self.unknown_in(&KeyRange::all())
    }

    /// By how much the number of keys changes in each group; entries in the order of `all`.
    pub(crate) fn group_deltas(&self, all: &[u32]) -> BTreeMap<KeyGroup, i64> {
        let mut deltas = BTreeMap::new();
        for (group, removed) in &self.removed {
            deltas.insert(*group, -removed);
        }
        for write in all.iter().filter_map(|at| self.entry(*at)) {
            let delta = i64::from(write.value.is_some()) - i64::from(write.below != Below::HasNot);
            if delta != 0
                && let Some(group) = KeyGroup::of(write.key)
            {
                *deltas.entry(group).or_default() += delta;
            }
        }
        deltas
    }
}
