//! Keys and values by hash, in few allocations: the part of a table with one prefix.

use crate::arena::{Arena, State};
use crate::order::{Keys, Order};
use fluvial_core::KeyRange;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as IndexEntry;
use std::ops::ControlFlow;
use std::sync::{Mutex, PoisonError};
use xxhash_rust::xxh3::xxh3_64;

/// Segments of changes from this size on become part of another as they are; smaller ones are
/// copied, so that blocks are not too small.
const WHOLE_MIN: usize = if cfg!(test) { 200 } else { 32 << 10 };

/// A map from keys to values. A value may be a *tombstone*: the key is known to be gone.
#[derive(Debug, Default)]
pub(crate) struct Segment {
    records: Arena,
    index: HashTable<Slot>,
    /// Records without a value.
    tombstones: usize,
    /// Records with a mark.
    marked: usize,
    /// Records that were freed since everything was written anew.
    dead: usize,
    /// Behind a lock because a scan may have to sort. Held for the time of a call.
    order: Mutex<Order>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    /// Half of the hash: growing the index reads no record, and few false records are read.
    hash: u32,
    /// The place of the record.
    id: u32,
}

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

impl Keys for Arena {
    fn key(&self, id: u32) -> Option<&[u8]> {
        Arena::key(self, id)
    }

    fn is_live(&self, id: u32) -> bool {
        self.state(id) != State::Removed
    }

    fn added_since(&self, id: u32) -> impl Iterator<Item = u32> {
        self.from(id)
    }

    fn end(&self) -> u32 {
        Arena::end(self)
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
        self.records.live()
    }

    /// Makes room for so many more records, of so many bytes by [`Self::record_bytes`].
    pub(crate) fn reserve(&mut self, records: usize, bytes: usize) {
        self.index.reserve(records, |slot| spread(slot.hash));
        self.records.reserve(bytes);
    }

    /// Bytes that a record takes.
    pub(crate) fn record_bytes(key: &[u8], value: &[u8]) -> usize {
        Arena::size(key, value)
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
        Hash::of(self.key(id))
    }

    /// The mark of a record.
    pub(crate) fn mark(&self, id: u32) -> Mark {
        match self.records.state(id) {
            State::Marked => Mark::Hides,
            State::Live | State::Removed => Mark::Plain,
        }
    }

    /// Sets the value of a record; `None` makes it a tombstone. May give records new ids.
    pub(crate) fn set(&mut self, id: u32, value: Option<&[u8]>) {
        self.tombstones -= usize::from(self.value(id).is_none());
        self.tombstones += usize::from(value.is_none());
        if !self.records.overwrite(id, value) {
            self.move_record(id, value);
        }
        self.compact_if_sparse();
    }

    fn move_record(&mut self, id: u32, value: Option<&[u8]>) {
        let (key, state) = (self.key(id).to_vec(), self.records.state(id));
        let new = self.records.append(state, &key, value);
        let hash = spread(Hash::of(&key).0);
        if let Some(slot) = self.index.find_mut(hash, |slot| slot.id == id) {
            slot.id = new;
        }
        self.free(id);
    }

    /// Frees a record that is in the index no more.
    fn free(&mut self, id: u32) {
        self.records.free(id);
        self.dead += 1;
        self.order_mut().note_removal();
    }

    /// Adds a record for a key that has none.
    pub(crate) fn insert(&mut self, hash: Hash, key: &[u8], value: Option<&[u8]>, mark: Mark) {
        let state = match mark {
            Mark::Plain => State::Live,
            Mark::Hides => State::Marked,
        };
        self.tombstones += usize::from(value.is_none());
        self.marked += usize::from(mark == Mark::Hides);
        let id = self.records.append(state, key, value);
        self.index.insert_unique(spread(hash.0), Slot { hash: hash.0, id }, |s| spread(s.hash));
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
                let id = self.records.append(State::Live, key, Some(value));
                slot.insert(Slot { hash: hash.0, id });
            }
        }
    }

    /// Puts the value of a key that has none here, nor below if this says nothing of it
    /// (`is_below`); says whether it did.
    pub(crate) fn put_absent(
        &mut self,
        hash: Hash,
        key: &[u8],
        value: &[u8],
        is_below: bool,
    ) -> bool {
        let records = &self.records;
        let same = |slot: &Slot| slot.hash == hash.0 && records.key(slot.id) == Some(key);
        match self.index.entry(spread(hash.0), same, |slot| spread(slot.hash)) {
            IndexEntry::Occupied(slot) => {
                let id = slot.get().id;
                let is_gone = self.records.value(id).is_none();
                if is_gone {
                    self.set(id, Some(value));
                }
                is_gone
            }
            IndexEntry::Vacant(slot) => {
                if !is_below {
                    let id = self.records.append(State::Live, key, Some(value));
                    slot.insert(Slot { hash: hash.0, id });
                }
                !is_below
            }
        }
    }

    /// Removes a record.
    pub(crate) fn remove(&mut self, id: u32) {
        self.forget(id);
        self.compact_if_sparse();
    }

    fn forget(&mut self, id: u32) {
        self.tombstones -= usize::from(self.value(id).is_none());
        self.marked -= usize::from(self.mark(id) == Mark::Hides);
        let hash = spread(self.hash(id).0);
        if let Ok(slot) = self.index.find_entry(hash, |slot| slot.id == id) {
            slot.remove();
        }
        self.free(id);
    }

    /// Takes over the records of a segment of changes to this one: values are put, tombstones
    /// remove, and those with a mark are known to have one here.
    pub(crate) fn absorb(&mut self, mut changes: Self) {
        let whole = changes.records.live() >= WHOLE_MIN;
        let offset = if whole { self.records.take_over(&mut changes.records) } else { None };
        let Some(offset) = offset else {
            for id in changes.iter() {
                self.absorb_copy(&changes, id);
            }
            return;
        };
        self.index.reserve(changes.len() - changes.marked, |slot| spread(slot.hash));
        let all_new = changes.marked == 0 && changes.tombstones == 0;
        // In the order of hashes: this index is gone through once, from front to end.
        for Slot { hash, id } in changes.index {
            let id = id + offset;
            if all_new || self.is_new(Hash(hash), id) {
                self.index.insert_unique(spread(hash), Slot { hash, id }, |s| spread(s.hash));
            }
        }
        self.compact_if_sparse();
    }

    /// Deals with a record of changes that is among the own ones already; says whether it has yet
    /// to be put into the index.
    fn is_new(&mut self, hash: Hash, id: u32) -> bool {
        let (state, has_value) = (self.records.state(id), self.records.value(id).is_some());
        if state == State::Live && has_value {
            return true;
        }
        self.records.unmark(id);
        if !has_value {
            self.erase(hash, id);
            self.free(id);
            return false;
        }
        match self.find(hash, self.key(id)) {
            Some(old) => {
                self.replace(hash, old, id);
                false
            }
            None => true,
        }
    }

    /// Removes the record that has the key of `like`, which is not in the index.
    fn erase(&mut self, hash: Hash, like: u32) {
        let Self { records, index, .. } = self;
        let key = records.key(like);
        let same = |slot: &Slot| slot.hash == hash.0 && records.key(slot.id) == key;
        let Ok(slot) = index.find_entry(spread(hash.0), same) else { return };
        let (Slot { id, .. }, _) = slot.remove();
        self.tombstones -= usize::from(self.value(id).is_none());
        self.marked -= usize::from(self.mark(id) == Mark::Hides);
        self.free(id);
    }

    /// Gives the record `old` the value of `new`, which has its key; one of the two is freed.
    fn replace(&mut self, hash: Hash, old: u32, new: u32) {
        let value = self.records.value(new).unwrap_or_default().to_vec();
        if self.records.overwrite(old, Some(&value)) {
            return self.free(new);
        }
        if let Some(slot) = self.index.find_mut(spread(hash.0), |slot| slot.id == old) {
            slot.id = new;
        }
        self.free(old);
    }

    fn absorb_copy(&mut self, changes: &Self, id: u32) {
        let (hash, key) = (changes.hash(id), changes.key(id));
        match (changes.value(id), changes.mark(id)) {
            (Some(value), Mark::Plain) => self.insert(hash, key, Some(value), Mark::Plain),
            (Some(value), Mark::Hides) => self.put(hash, key, value),
            (None, _) => {
                if let Some(id) = self.find(hash, key) {
                    self.remove(id);
                }
            }
        }
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
        self.records.from(0)
    }

    /// Bytes of memory held, roughly.
    pub(crate) fn held(&self) -> usize {
        self.records.held() + self.index.allocation_size() + self.with_order(|order| order.held())
    }

    fn order_mut(&mut self) -> &mut Order {
        self.order.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn with_order<T>(&self, f: impl FnOnce(&mut Order) -> T) -> T {
        f(&mut self.order.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Writes the records anew when a third of what is held is of no use: each removal pays for
    /// two of them.
    fn compact_if_sparse(&mut self) {
        let (held, live) = (self.records.held(), self.records.live());
        let is_sparse = self.dead > self.len() / 2 + 1024 || held > live / 2 * 3 + (32 << 10);
        if is_sparse && self.dead > 0 || self.records.is_worn() {
            self.compact();
        }
    }

    fn compact(&mut self) {
        let old = std::mem::take(&mut self.records);
        let settled = self.order_mut().end();
        let (mut new_ids, mut new_settled) = (Vec::with_capacity(self.index.len()), None);
        self.dead = 0;
        self.index.clear();
        self.index.shrink_to_fit(|slot| spread(slot.hash));
        for id in old.from(0) {
            if id >= settled {
                new_settled.get_or_insert(self.records.end());
            }
            let key = old.key(id).unwrap_or_default();
            let new = self.records.append(old.state(id), key, old.value(id));
            new_ids.push((id, new));
            let hash = Hash::of(key).0;
            self.index.insert_unique(spread(hash), Slot { hash, id: new }, |s| spread(s.hash));
        }
        let end = new_settled.unwrap_or(self.records.end());
        let new_id = |id: u32| {
            let at = new_ids.binary_search_by_key(&id, |(old, _)| *old).ok()?;
            Some(new_ids[at].1)
        };
        self.order_mut().renumber(new_id, end);
    }
}

impl Clone for Segment {
    fn clone(&self) -> Self {
        Self {
            records: self.records.clone(),
            index: self.index.clone(),
            tombstones: self.tombstones,
            marked: self.marked,
            dead: self.dead,
            order: Mutex::new(self.with_order(|order| order.clone())),
        }
    }
}

#[cfg(test)]
mod tests;
