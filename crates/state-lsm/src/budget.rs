//! The memory budget of a backend: who holds how much, and which blocks are dropped.

use crate::run::Run;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Queues of blocks; a block that is read anew takes a lock of one of them.
const SHARDS: usize = 16;

/// How many blocks a new one may look at to find room.
const LOOKS_MAX: usize = 48;

/// Locks; a panic of somebody else leaves nothing half done here.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Blocks in the order in which they came.
type Queue = VecDeque<(Weak<Run>, u32)>;

/// What all stores of a backend hold.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: i64,
    used: AtomicI64,
    next: AtomicUsize,
    blocks: [Mutex<Queue>; SHARDS],
}

impl Budget {
    /// A budget of so many bytes.
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        let blocks = std::array::from_fn(|_| Mutex::default());
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        Arc::new(Self { limit, used: AtomicI64::new(0), next: AtomicUsize::new(0), blocks })
    }

    /// Bytes held.
    pub(crate) fn used(&self) -> u64 {
        u64::try_from(self.used.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Takes note of bytes that are held for as long as the result lives.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> Charge {
        let mut charge = Charge { budget: Arc::clone(self), bytes: 0 };
        charge.resize(bytes);
        charge
    }

    /// Takes note of a block that may be dropped when memory is needed, and looks for room.
    pub(crate) fn enter(&self, run: &Arc<Run>, block: u32) {
        let shard = block as usize % SHARDS;
        lock(&self.blocks[shard]).push_back((Arc::downgrade(run), block));
        self.make_room();
    }

    /// Drops blocks that were not used lately, until the budget is kept or enough were looked at.
    pub(crate) fn make_room(&self) {
        for _ in 0..LOOKS_MAX {
            if self.used.load(Ordering::Relaxed) <= self.limit {
                return;
            }
            let shard = &self.blocks[self.next.fetch_add(1, Ordering::Relaxed) % SHARDS];
            let Some((run, block)) = lock(shard).pop_front() else { continue };
            if let Some(alive) = run.upgrade()
                && !alive.drop_block(block)
            {
                lock(shard).push_back((run, block));
            }
        }
    }
}

/// Bytes that somebody holds; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Charge {
    budget: Arc<Budget>,
    bytes: i64,
}

impl Charge {
    /// Now it is so many bytes.
    pub(crate) fn resize(&mut self, bytes: usize) {
        let bytes = bytes as i64;
        self.budget.used.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }

    /// The budget.
    pub(crate) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.resize(0);
    }
}
