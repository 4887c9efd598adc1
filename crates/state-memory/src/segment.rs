//! Keys and values by hash, in few allocations: the part of a table with one prefix.

use crate::arena::{Arena, Place};
use crate::order::{Keys, Order};
use fluvial_core::KeyRange;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as IndexEntry;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use xxhash_rust::xxh3::xxh3_64;

/// A map from keys to values. A value may be a *tombstone*: the key is known to be gone.
#[derive(Debug, Default)]
pub(crate) struct Segment {
    records: Records,
    index: HashTable<Slot>,
    /// Records without a value.
    tombstones: usize,
    /// Records with a mark.
    marked: usize,
    /// Behind a lock because a scan may have to sort. Held for the time of a call.
    order: Mutex<Order>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    /// Half of the hash: growing the index reads no record, and few false records are read.
    hash: u32,
    id: u32,
}

#[derive(Debug, Clone, Default)]
struct Records {
    entries: Vec<Entry>,
    arena: Arena,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    place: Place,
    key_len: u32,
    /// Bytes of the value, or [`TOMBSTONE`].
    value_len: u32,
    /// Bytes that a value may have without moving.
    room: u32,
    hash: u32,
    state: State,
}

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Removed,
    Live,
    /// Live, with the mark that its writer gave it.
    Marked,
}

const TOMBSTONE: u32 = u32::MAX;

/// A mark on a record, for whoever holds the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// None.
    Plain,
    /// The record hides one of a table below.
    Hides,
}

/// How many records were removed, and of which kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Removed {
    pub(crate) records: usize,
    /// Those without a value.
    pub(crate) tombstones: usize,
    /// Those with a mark.
    pub(crate) marked: usize,
}

impl std::ops::AddAssign for Removed {
    fn add_assign(&mut self, other: Self) {
        self.records += other.records;
        self.tombstones += other.tombstones;
        self.marked += other.marked;
    }
}

/// The hash of a key, to be computed once and used with several tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Hash(u32);

impl Hash {
    /// The hash of `key`.
    pub(crate) fn of(key: &[u8]) -> Self {
        Self((xxh3_64(key) >> 32) as u32)
    }
}

/// Spreads half a hash over the bits that the index looks at.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

impl Keys for Records {
    fn key(&self, id: u32) -> Option<&[u8]> {
        let entry = &self.entries[id as usize];
        (entry.state != State::Removed)
            .then(|| self.arena.get(entry.place, 0, entry.key_len as usize))
    }

    fn is_live(&self, id: u32) -> bool {
        self.entries[id as usize].state != State::Removed
    }
}

impl Records {
    fn add(&mut self, hash: u32, key: &[u8], value: Option<&[u8]>, state: State) -> u32 {
        let id = u32::try_from(self.entries.len())
            .ok()
            .filter(|id| *id < u32::MAX)
            .expect("a partition holds less than four billion keys");
        let value_len = value.map_or(TOMBSTONE, |v| v.len() as u32);
        let value = value.unwrap_or_default();
        let place = self.arena.append([key, value], key.len() + value.len());
        let (key_len, room) = (key.len() as u32, value.len() as u32);
        self.entries.push(Entry { place, key_len, value_len, room, hash, state });
        id
    }

    fn value(&self, id: u32) -> Option<&[u8]> {
        let entry = &self.entries[id as usize];
        (entry.value_len != TOMBSTONE)
            .then(|| self.arena.get(entry.place, entry.key_len as usize, entry.value_len as usize))
    }

    fn set(&mut self, id: u32, value: Option<&[u8]>) {
        let entry = &mut self.entries[id as usize];
        let Some(value) = value else {
            entry.value_len = TOMBSTONE;
            return;
        };
        let key_len = entry.key_len as usize;
        if value.len() <= entry.room as usize {
            self.arena.overwrite(entry.place, key_len, value);
        } else {
            let old = entry.place;
            let key = self.arena.get(old, 0, key_len).to_vec();
            let place = self.arena.append([&key, value], key_len + value.len());
            self.arena.free(old, key_len + entry.room as usize);
            entry.place = place;
            entry.room = value.len() as u32;
        }
        entry.value_len = value.len() as u32;
    }

    fn remove(&mut self, id: u32) {
        let entry = &mut self.entries[id as usize];
        entry.state = State::Removed;
        self.arena.free(entry.place, (entry.key_len + entry.room) as usize);
    }
}

impl Segment {
    /// Number of records, tombstones included.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there is no record.
    pub(crate) fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Bytes of all keys and values.
    pub(crate) fn bytes(&self) -> usize {
        self.records.arena.live()
    }

    /// Makes room for so many more records.
    pub(crate) fn reserve(&mut self, records: usize) {
        self.index.reserve(records, |slot| spread(slot.hash));
        self.records.entries.reserve(records);
        self.order_mut().reserve(records);
    }

    /// Whether a record has a mark.
    pub(crate) fn has_marks(&self) -> bool {
        self.marked > 0
    }

    /// Whether there is a tombstone.
    pub(crate) fn has_tombstones(&self) -> bool {
        self.tombstones > 0
    }

    /// The record of a key.
    pub(crate) fn find(&self, hash: Hash, key: &[u8]) -> Option<u32> {
        let same = |slot: &Slot| slot.hash == hash.0 && self.records.key(slot.id) == Some(key);
        self.index.find(spread(hash.0), same).map(|slot| slot.id)
    }

    /// The value of a record; `None` for a tombstone.
    pub(crate) fn value(&self, id: u32) -> Option<&[u8]> {
        self.records.value(id)
    }

    /// The key of a record that is there.
    pub(crate) fn key(&self, id: u32) -> &[u8] {
        self.records.key(id).unwrap_or_default()
    }

    /// The hash of the key of a record.
    pub(crate) fn hash(&self, id: u32) -> Hash {
        Hash(self.records.entries[id as usize].hash)
    }

    /// The mark of a record.
    pub(crate) fn mark(&self, id: u32) -> Mark {
        match self.records.entries[id as usize].state {
            State::Marked => Mark::Hides,
            State::Live | State::Removed => Mark::Plain,
        }
    }

    /// Sets the value of a record; `None` makes it a tombstone. May give records new ids.
    pub(crate) fn set(&mut self, id: u32, value: Option<&[u8]>) {
        self.tombstones -= usize::from(self.value(id).is_none());
        self.tombstones += usize::from(value.is_none());
        self.records.set(id, value);
        self.compact_if_sparse();
    }

    /// Adds a record for a key that has none.
    pub(crate) fn insert(&mut self, hash: Hash, key: &[u8], value: Option<&[u8]>, mark: Mark) {
        let state = match mark {
            Mark::Plain => State::Live,
            Mark::Hides => State::Marked,
        };
        self.tombstones += usize::from(value.is_none());
        self.marked += usize::from(mark == Mark::Hides);
        let id = self.records.add(hash.0, key, value, state);
        self.index.insert_unique(spread(hash.0), Slot { hash: hash.0, id }, |s| spread(s.hash));
        self.order_mut().add(id);
    }

    /// Puts a value, whether or not there was one.
    pub(crate) fn put(&mut self, hash: Hash, key: &[u8], value: &[u8]) {
        let records = &self.records;
        let same = |slot: &Slot| slot.hash == hash.0 && records.key(slot.id) == Some(key);
        match self.index.entry(spread(hash.0), same, |slot| spread(slot.hash)) {
            IndexEntry::Occupied(slot) => {
                let id = slot.get().id;
                self.set(id, Some(value));
            }
            IndexEntry::Vacant(slot) => {
                let id = self.records.add(hash.0, key, Some(value), State::Live);
                slot.insert(Slot { hash: hash.0, id });
                self.order_mut().add(id);
            }
        }
    }

    /// Removes a record.
    pub(crate) fn remove(&mut self, id: u32) {
        self.forget(id);
        self.order_mut().note_removal();
        self.compact_if_sparse();
    }

    fn forget(&mut self, id: u32) {
        self.tombstones -= usize::from(self.value(id).is_none());
        self.marked -= usize::from(self.mark(id) == Mark::Hides);
        let hash = spread(self.records.entries[id as usize].hash);
        if let Ok(slot) = self.index.find_entry(hash, |slot| slot.id == id) {
            slot.remove();
        }
        self.records.remove(id);
    }

    /// Visits the records of `range` in the order of their keys until `visit` breaks.
    pub(crate) fn scan(
        &self,
        range: &KeyRange,
        visit: impl FnMut(u32) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.with_order(|order| order.scan(&self.records, range, visit))
    }

    /// How many records lie in `range`.
    pub(crate) fn count(&self, range: &KeyRange) -> u64 {
        self.with_order(|order| order.count(&self.records, range))
    }

    /// Removes the records of `range`.
    pub(crate) fn remove_range(&mut self, range: &KeyRange) -> Removed {
        let before = self.size();
        let order = self.order.get_mut().unwrap_or_else(PoisonError::into_inner);
        for id in order.take(&self.records, range) {
            self.forget(id);
        }
        self.compact_if_sparse();
        let after = self.size();
        Removed {
            records: before.records - after.records,
            tombstones: before.tombstones - after.tombstones,
            marked: before.marked - after.marked,
        }
    }

    /// What a removal of all of it would remove.
    pub(crate) fn size(&self) -> Removed {
        Removed { records: self.len(), tombstones: self.tombstones, marked: self.marked }
    }

    /// Every record, in the order in which they were added.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + Clone + use<'_> {
        (0..self.records.entries.len() as u32).filter(|id| self.records.is_live(*id))
    }

    /// Bytes of memory held, roughly.
    pub(crate) fn held(&self) -> usize {
        self.records.arena.held()
            + self.records.entries.capacity() * size_of::<Entry>()
            + self.index.allocation_size()
            + self.with_order(|order| order.held())
    }

    fn order_mut(&mut self) -> &mut Order {
        self.order.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_order<T>(&self, f: impl FnOnce(&mut Order) -> T) -> T {
        f(&mut self.order.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes the records anew when more than half of what is held is of no use: it costs as
    /// much as the removals before it.
    fn compact_if_sparse(&mut self) {
        let Records { entries, arena } = &self.records;
        let dead_entries = entries.len() - self.index.len();
        let dead_bytes = arena.held().saturating_sub(arena.live());
        if dead_entries > self.index.len() + 4096 || dead_bytes > arena.live() + (4 << 20) {
            self.compact();
        }
    }

    fn compact(&mut self) {
        let old = std::mem::take(&mut self.records);
        let mut new_ids = vec![u32::MAX; old.entries.len()];
        self.records.entries.reserve_exact(self.index.len());
        self.index.clear();
        self.index.shrink_to_fit(|slot| spread(slot.hash));
        for (id, entry) in old.entries.iter().enumerate() {
            let Some(key) = old.key(id as u32) else { continue };
            let new = self.records.add(entry.hash, key, old.value(id as u32), entry.state);
            new_ids[id] = new;
            let slot = Slot { hash: entry.hash, id: new };
            self.index.insert_unique(spread(entry.hash), slot, |slot| spread(slot.hash));
        }
        self.order_mut().renumber(|id| Some(new_ids[id as usize]).filter(|new| *new != u32::MAX));
    }
}

impl Clone for Segment {
    fn clone(&self) -> Self {
        Self {
            records: self.records.clone(),
            index: self.index.clone(),
            tombstones: self.tombstones,
            marked: self.marked,
            order: Mutex::new(self.with_order(|order| order.clone())),
        }
    }
}

#[cfg(test)]
mod tests;
