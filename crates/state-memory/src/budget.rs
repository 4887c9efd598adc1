//! How much memory state may take: counted as it is held, and refused where it is asked for.

use fluvial_core::{Error, Result, StoreId};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A limit on the memory of state, shared by the backends that are given it.
///
/// What counts is what is allocated for keys, values and their indexes, of versions that are kept
/// and of writes that are not committed yet. A store that would pass it gives an error, and the
/// batch fails; what is kept already stays.
#[derive(Debug)]
pub struct Budget {
    max: u64,
    setting: String,
    used: AtomicU64,
}

impl Budget {
    /// A budget of `max` bytes. `setting` is what raises it, for the error.
    pub fn new(max: u64, setting: impl Into<String>) -> Self {
        Self { max, setting: setting.into(), used: AtomicU64::new(0) }
    }

    /// Bytes that it allows.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// Bytes that are held now.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

/// A budget, and for whom memory is taken from it.
#[derive(Debug, Clone)]
pub(crate) struct Account {
    pub(crate) budget: Arc<Budget>,
    /// `query clicks`.
    pub(crate) owner: String,
}

/// Bytes taken from a budget, given back when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    account: Option<Account>,
    bytes: u64,
}

impl Taken {
    /// Nothing yet.
    pub(crate) fn from(account: Option<&Account>) -> Self {
        Self { account: account.cloned(), bytes: 0 }
    }

    /// Notes how much is held now; `held` is asked only if there is a budget.
    pub(crate) fn set(&mut self, held: impl FnOnce() -> usize) {
        let Some(Account { budget, .. }) = &self.account else { return };
        let held = held() as u64;
        if held >= self.bytes {
            budget.used.fetch_add(held - self.bytes, Ordering::Relaxed);
        } else {
            budget.used.fetch_sub(self.bytes - held, Ordering::Relaxed);
        }
        self.bytes = held;
    }

    /// Whether the budget holds what is taken from it.
    ///
    /// # Errors
    ///
    /// `Invalid`, naming the owner, the store and the setting, if it does not.
    pub(crate) fn check(&self, id: &StoreId) -> Result<()> {
        let Some(Account { budget, owner }) = &self.account else { return Ok(()) };
        let used = budget.used();
        if used <= budget.max {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "{owner}: state {id} does not fit in memory: all state takes {used} bytes with it, and \
             {} allows {}; raise it, or use a state backend that keeps state on disk",
            budget.setting, budget.max
        ))
        .with_condition("STATE_MEMORY_EXCEEDED"))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.set(|| 0);
    }
}
