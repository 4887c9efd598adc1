//! Versions in memory.
//!
//! For each store and range of key groups there is one whole version, the *base*, and the writes
//! of attempts on top of it. Which attempt counts is not known at its commit but when somebody
//! opens its token: only then its writes become part of the base, and the others are forgotten.
//! So a batch that is run again after a failed sink still finds the version it started from.

use crate::budget::{Account, Taken};
use crate::overlay::Overlay;
use crate::pack::Ticket;
use crate::table::Table;
use fluvial_core::{KeyGroupRange, RunId, StoreId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// How many attempts are kept; those before them must be read again.
const ATTEMPTS_MAX: usize = 3;

type Key = (StoreId, KeyGroupRange);

/// All versions in memory.
#[derive(Debug)]
pub(crate) struct Cache {
    run: RunId,
    tickets: AtomicU64,
    account: Option<Account>,
    slots: Mutex<BTreeMap<Key, Arc<Mutex<Slot>>>>,
}

#[derive(Debug, Default)]
struct Slot {
    base: Option<(String, Arc<Table>)>,
    attempts: VecDeque<Attempt>,
    taken: Taken,
}

#[derive(Debug)]
struct Attempt {
    ticket: Ticket,
    /// What it is called once it is elected; `None` while it is not durable.
    token: Option<String>,
    /// What it applies to.
    name: String,
    writes: Overlay,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cache {
    /// No version, for the process of `run`.
    pub(crate) fn new(run: RunId, account: Option<Account>) -> Self {
        Self { run, tickets: AtomicU64::new(0), account, slots: Mutex::default() }
    }

    fn slot(&self, id: &StoreId, groups: KeyGroupRange) -> Arc<Mutex<Slot>> {
        let empty = || {
            let taken = Taken::from(self.account.as_ref());
            Arc::new(Mutex::new(Slot { taken, ..Slot::default() }))
        };
        Arc::clone(lock(&self.slots).entry((id.clone(), groups)).or_insert_with(empty))
    }

    /// The version called `name`, if it is in memory.
    pub(crate) fn get(
        &self,
        id: &StoreId,
        groups: KeyGroupRange,
        name: &str,
    ) -> Option<Arc<Table>> {
        lock(&self.slot(id, groups)).get(name)
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
        slot.account();
    }

    /// Keeps the writes of an attempt over the version called `name`.
    pub(crate) fn seal(
        &self,
        id: &StoreId,
        groups: KeyGroupRange,
        name: String,
        writes: Overlay,
    ) -> Ticket {
        let number = self.tickets.fetch_add(1, Ordering::Relaxed);
        let ticket = Ticket { number, run: self.run.clone() };
        let slot = self.slot(id, groups);
        let mut slot = lock(&slot);
        if slot.base.as_ref().is_some_and(|(base, _)| *base == name) {
            slot.attempts.push_back(Attempt { ticket: ticket.clone(), token: None, name, writes });
            if slot.attempts.len() > ATTEMPTS_MAX {
                slot.attempts.pop_front();
            }
            slot.account();
        }
        ticket
    }

    /// Notes that an attempt became durable.
    pub(crate) fn commit(
        &self,
        id: &StoreId,
        groups: KeyGroupRange,
        ticket: &Ticket,
        token: String,
    ) {
        let slot = self.slot(id, groups);
        let mut slot = lock(&slot);
        if let Some(attempt) = slot.attempts.iter_mut().find(|a| a.ticket == *ticket) {
            attempt.token = Some(token);
        }
    }

    /// Bytes of memory held, roughly.
    pub(crate) fn held(&self) -> usize {
        let slots: Vec<_> = lock(&self.slots).values().cloned().collect();
        slots.iter().map(|slot| lock(slot).held()).sum()
    }
}

impl Slot {
    fn get(&mut self, name: &str) -> Option<Arc<Table>> {
        let (base, table) = self.base.as_ref()?;
        if base == name {
            return Some(Arc::clone(table));
        }
        let is_it = |a: &Attempt| a.token.as_deref() == Some(name) && a.name == *base;
        let at = self.attempts.iter().position(is_it)?;
        let elected = self.attempts.remove(at)?;
        self.attempts.clear();
        let (_, table) = self.base.take()?;
        // If somebody still reads the old version, the new one becomes a copy.
        let mut table = Arc::try_unwrap(table).unwrap_or_else(|shared| Table::clone(&shared));
        elected.writes.apply_to(&mut table);
        let table = Arc::new(table);
        self.base = Some((name.to_owned(), Arc::clone(&table)));
        self.account();
        Some(table)
    }

    /// Takes what is held now from the budget.
    fn account(&mut self) {
        let mut taken = std::mem::take(&mut self.taken);
        taken.set(|| self.held());
        self.taken = taken;
    }

    fn held(&self) -> usize {
        let writes: usize = self.attempts.iter().map(|attempt| attempt.writes.held()).sum();
        writes + self.base.as_ref().map_or(0, |(_, table)| table.held())
    }
}
