//! Versions in memory.
//!
//! For each store and range of key groups there is one whole version, the *base*, and the deltas
//! of attempts on top of it. Which attempt counts is not known at its commit but when somebody
//! opens its token: only then its delta becomes part of the base, and the others are forgotten.
//! So a batch that is run again after a failed sink still finds the version it started from.

use crate::codec;
use crate::table::Table;
use bytes::Bytes;
use fluvial_core::{KeyGroupRange, Result, StoreId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// How many attempts are kept; those before them must be read again.
const ATTEMPTS_MAX: usize = 3;

type Key = (StoreId, KeyGroupRange);

/// All versions in memory.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    slots: Mutex<BTreeMap<Key, Arc<Mutex<Slot>>>>,
}

#[derive(Debug, Default)]
struct Slot {
    base: Option<(String, Arc<Table>)>,
    attempts: VecDeque<Attempt>,
}

#[derive(Debug)]
struct Attempt {
    /// What it is called once it is elected.
    token: String,
    /// What it applies to.
    name: String,
    delta: Bytes,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cache {
    fn slot(&self, id: &StoreId, groups: KeyGroupRange) -> Arc<Mutex<Slot>> {
        Arc::clone(lock(&self.slots).entry((id.clone(), groups)).or_default())
    }

    /// The version called `name`, if it is in memory.
    pub(crate) fn get(
        &self,
        id: &StoreId,
        groups: KeyGroupRange,
        name: &str,
    ) -> Result<Option<Arc<Table>>> {
        lock(&self.slot(id, groups)).get(name, groups)
    }

    /// Keeps a version that was read, in place of the one that was there, and of those with
    /// other ranges of the same groups: the number of partitions has changed.
    pub(crate) fn keep(&self, id: &StoreId, groups: KeyGroupRange, name: &str, table: &Arc<Table>) {
        lock(&self.slots).retain(|(other, range), _| {
            other != id || *range == groups || range.intersect(groups).is_empty()
        });
        let slot = self.slot(id, groups);
        let mut slot = lock(&slot);
        slot.attempts.retain(|attempt| attempt.name == name);
        slot.base = Some((name.to_owned(), Arc::clone(table)));
    }

    /// Keeps the delta of an attempt that became durable.
    pub(crate) fn attempt(
        &self,
        id: &StoreId,
        groups: KeyGroupRange,
        name: String,
        token: String,
        delta: Bytes,
    ) {
        let slot = self.slot(id, groups);
        let mut slot = lock(&slot);
        if slot.base.as_ref().is_some_and(|(base, _)| *base == name) {
            slot.attempts.push_back(Attempt { token, name, delta });
            if slot.attempts.len() > ATTEMPTS_MAX {
                slot.attempts.pop_front();
            }
        }
    }

    /// Bytes of memory held, roughly.
    pub(crate) fn held(&self) -> usize {
        let slots: Vec<_> = lock(&self.slots).values().cloned().collect();
        slots.iter().map(|slot| lock(slot).held()).sum()
    }
}

impl Slot {
    fn get(&mut self, name: &str, groups: KeyGroupRange) -> Result<Option<Arc<Table>>> {
        let Some((base, table)) = &self.base else { return Ok(None) };
        if base == name {
            return Ok(Some(Arc::clone(table)));
        }
        let elected = self.attempts.iter().position(|a| a.token == name && a.name == *base);
        let Some(elected) = elected.and_then(|at| self.attempts.remove(at)) else {
            return Ok(None);
        };
        self.attempts.clear();
        // From here on the base is out of the slot: if the delta does not apply, it is gone.
        let Some((_, table)) = self.base.take() else { return Ok(None) };
        // If somebody still reads the old version, the new one becomes a copy.
        let mut table = Arc::try_unwrap(table).unwrap_or_else(|shared| Table::clone(&shared));
        codec::apply(&elected.delta, &mut table, groups, groups)?;
        let table = Arc::new(table);
        self.base = Some((name.to_owned(), Arc::clone(&table)));
        Ok(Some(table))
    }

    fn held(&self) -> usize {
        let deltas: usize = self.attempts.iter().map(|attempt| attempt.delta.len()).sum();
        deltas + self.base.as_ref().map_or(0, |(_, table)| table.held())
    }
}
