//! What the variables of all kinds have in common while a batch runs.

use super::layout;
use arrow::array::{Array, BinaryArray};
use fluvial_core::{KeyGroupRange, Result, StateStore};
use std::any::Any;

/// The keys that are being handled: some thousand, read and written together.
pub(super) struct Block {
    /// `[group] [key]` of each.
    pub(super) keys: BinaryArray,
}

impl Block {
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn key(&self, at: usize) -> &[u8] {
        self.keys.value(at)
    }
}

/// The memory of one variable in one batch.
pub(super) trait Stored: Send {
    /// Writes what the handlers changed, and forgets the block.
    fn flush(
        &mut self,
        block: &Block,
        clock: Expiry,
        state: &mut dyn StateStore,
        tally: &mut Tally,
    ) -> Result<()>;

    /// Removes the entry under `key` because its time has come. Returns whether it was there.
    fn expire(&mut self, key: &[u8], state: &mut dyn StateStore, tally: &mut Tally)
    -> Result<bool>;

    fn as_any(&mut self) -> &mut dyn Any;
}

/// The time of the batch, for what has a TTL.
#[derive(Debug, Clone, Copy)]
pub(super) struct Expiry {
    pub(super) now_ms: i64,
}

impl Expiry {
    /// When something written now goes.
    pub(super) fn after(self, ttl_ms: Option<i64>) -> Option<i64> {
        ttl_ms.map(|ttl| self.now_ms.saturating_add(ttl))
    }

    /// Whether something is over. No expiry is never.
    pub(super) fn is_over(self, expiry_ms: Option<i64>) -> bool {
        expiry_ms.is_some_and(|expiry| expiry <= self.now_ms)
    }
}

/// What changed, counted as Spark counts.
#[derive(Debug)]
pub(super) struct Tally {
    first_group: u16,
    variables: usize,
    /// How many entries came and went, by group and variable.
    entries: Vec<i64>,
    /// Entries written by handlers.
    pub(super) updated: u64,
    /// Entries removed by handlers, there or not, and by TTL.
    pub(super) removed: u64,
}

impl Tally {
    pub(super) fn new(groups: KeyGroupRange, variables: usize) -> Self {
        let count = usize::from(groups.end.saturating_sub(groups.start));
        let entries = vec![0; count * variables];
        Self { first_group: groups.start, variables, entries, updated: 0, removed: 0 }
    }

    /// Entries of the variable in `slot` came or went in the group of `key`.
    pub(super) fn change(&mut self, slot: usize, key: &[u8], by: i64) {
        let group = usize::from(layout::group_of(key).0.wrapping_sub(self.first_group));
        if let Some(entries) = self.entries.get_mut(group * self.variables + slot) {
            *entries += by;
        }
    }

    /// How many entries came and went, by group and variable; forgotten then.
    pub(super) fn take_changes(&mut self) -> Vec<i64> {
        let count = self.entries.len();
        std::mem::replace(&mut self.entries, vec![0; count])
    }
}

/// Keys and values to be written in one call each.
#[derive(Debug, Default)]
pub(super) struct Writes {
    pub(super) puts: Vec<Vec<u8>>,
    pub(super) deletes: Vec<Vec<u8>>,
    /// Entries by time to write.
    pub(super) expiries: Vec<Vec<u8>>,
}

impl Writes {
    /// Notes that what lies under `key` expires at another time than before.
    pub(super) fn expires(&mut self, key: &[u8], before: Option<i64>, after: Option<i64>) {
        if before == after {
            return;
        }
        if let Some(before) = before {
            self.deletes.push(layout::expiry(key, before));
        }
        if let Some(after) = after {
            self.expiries.push(layout::expiry(key, after));
        }
    }

    /// Writes all; `values` are those of `puts`.
    pub(super) fn apply(self, values: &BinaryArray, state: &mut dyn StateStore) -> Result<()> {
        if !self.deletes.is_empty() {
            state.delete_many(&BinaryArray::from_iter_values(self.deletes))?;
        }
        if !self.puts.is_empty() {
            state.put_many(&BinaryArray::from_iter_values(self.puts), values)?;
        }
        if !self.expiries.is_empty() {
            let nothing = BinaryArray::from_iter_values(self.expiries.iter().map(|_| []));
            state.put_many(&BinaryArray::from_iter_values(self.expiries), &nothing)?;
        }
        Ok(())
    }
}

/// Deletes one key.
pub(super) fn delete(key: &[u8], state: &mut dyn StateStore) -> Result<()> {
    state.delete_many(&BinaryArray::from_iter_values([key]))
}

/// Reads one key.
pub(super) fn get(key: &[u8], state: &dyn StateStore) -> Result<BinaryArray> {
    state.get_many(&BinaryArray::from_iter_values([key]))
}

/// All entries of a range, in pieces.
pub(super) fn scan_all(
    range: &fluvial_core::KeyRange,
    state: &dyn StateStore,
    mut each: impl FnMut(&fluvial_core::Entries) -> Result<()>,
) -> Result<()> {
    const PIECE: usize = 4096;
    let mut range = range.clone();
    loop {
        let entries = state.scan(&range, PIECE)?;
        let count = entries.keys.len();
        if count > 0 {
            each(&entries)?;
            range = range.after(entries.keys.value(count - 1));
        }
        if count < PIECE {
            return Ok(());
        }
    }
}
