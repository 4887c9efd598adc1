//! The memory budget of the stores of a process: who holds how much, and which blocks are dropped.

use crate::run::Run;
use fluvial_core::{Error, Result, StoreId};
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

/// What a batch may always hold, whatever the budget is: less would be no help to anybody.
const BATCH_MIN: usize = 16 << 20;

/// A limit on the memory of state, shared by the backends that are given it.
///
/// What counts is what is allocated for the writes of batches until their commit, for blocks, and
/// for the indexes and filters of runs. Blocks that no batch needs are dropped to stay below it. A
/// batch that would pass it all the same fails, and what is committed stays as it is.
#[derive(Debug)]
pub struct Budget {
    limit: i64,
    setting: String,
    used: AtomicI64,
    next: AtomicUsize,
    blocks: [Mutex<Queue>; SHARDS],
}

impl Budget {
    /// A budget of `max` bytes. `setting` is what raises it, for the error.
    pub fn new(max: u64, setting: impl Into<String>) -> Self {
        let blocks = std::array::from_fn(|_| Mutex::default());
        let limit = i64::try_from(max).unwrap_or(i64::MAX);
        let (used, next) = (AtomicI64::new(0), AtomicUsize::new(0));
        Self { limit, setting: setting.into(), used, next, blocks }
    }

    /// Bytes that it allows.
    pub fn max(&self) -> u64 {
        self.limit.unsigned_abs()
    }

    /// Bytes that are held now.
    pub fn used(&self) -> u64 {
        u64::try_from(self.used.load(Ordering::Relaxed)).unwrap_or(0)
    }

    fn is_kept(&self) -> bool {
        self.used.load(Ordering::Relaxed) <= self.limit
    }

    /// Takes note of bytes that are held for as long as the result lives.
    pub(crate) fn charge(self: &Arc<Self>, bytes: usize) -> Charge {
        let mut charge = Charge { budget: Arc::clone(self), bytes: 0 };
        charge.resize(bytes);
        charge
    }

    /// Takes note of a block that may be dropped when memory is needed, and looks for room.
    pub(crate) fn enter(&self, run: &Arc<Run>, block: u32) {
        let mut queue = lock(&self.blocks[block as usize % SHARDS]);
        queue.push_back((Arc::downgrade(run), block));
        // Blocks of runs that are gone leave twice as fast as others come.
        for _ in 0..2 {
            match queue.pop_front() {
                Some((run, _)) if run.strong_count() == 0 => {}
                Some(place) => queue.push_back(place),
                None => break,
            }
        }
        drop(queue);
        self.make_room();
    }

    /// Drops blocks that were not used lately, until the budget is kept or enough were looked at.
    pub(crate) fn make_room(&self) {
        for _ in 0..LOOKS_MAX {
            if self.is_kept() {
                return;
            }
            self.look();
        }
    }

    /// Looks at the next block, and drops it if nobody used it lately.
    fn look(&self) {
        let shard = &self.blocks[self.next.fetch_add(1, Ordering::Relaxed) % SHARDS];
        let Some((run, block)) = lock(shard).pop_front() else { return };
        if let Some(alive) = run.upgrade()
            && !alive.drop_block(block)
        {
            lock(shard).push_back((run, block));
        }
    }

    /// Whether there is room for what a batch of `held` bytes asked for.
    ///
    /// # Errors
    ///
    /// `Invalid`, naming the owner, the store and the setting, if there is not.
    pub(crate) fn check(&self, held: usize, id: &StoreId, owner: &str) -> Result<()> {
        self.make_room();
        if self.is_kept() || held <= BATCH_MIN {
            return Ok(());
        }
        // Every block is looked at twice: the first look takes the mark of its last use away.
        let blocks: usize = self.blocks.iter().map(|shard| lock(shard).len()).sum();
        for _ in 0..2 * blocks + SHARDS {
            if self.is_kept() {
                return Ok(());
            }
            self.look();
        }
        let (used, setting) = (self.used(), &self.setting);
        let owner = if owner.is_empty() { String::new() } else { format!("{owner}: ") };
        Err(Error::invalid(format!(
            "{owner}one batch of state {id} does not fit in memory: it needs {held} bytes, all \
             state takes {used} with them, and {setting} allows {}; raise it, or take less input a \
             batch",
            self.max()
        ))
        .with_condition("STATE_MEMORY_EXCEEDED"))
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
    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.resize(0);
    }
}
