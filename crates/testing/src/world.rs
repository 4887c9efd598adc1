//! A world: what outlives the processes of a query.

use crate::input::Wave;
use crate::schedule::RunPlan;
use bytes::Bytes;
use fluvial::MemorySource;
use fluvial_core::{Error, Result};
use fluvial_sim::{Disk, Process, Rng, VirtualClock};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where every location of a simulated query begins.
pub(crate) const ROOT: &str = "sim://world";

/// 2026-06-10T10:00:00Z.
const BEGIN_MS: i64 = 1_781_085_600_000;

/// A run that takes more steps than this makes no progress.
const STEPS_MAX: u64 = 20_000;

/// The disk, the clock and the names of one simulation. Clones are the same world.
#[derive(Clone)]
pub struct World(Arc<Inner>);

struct Inner {
    disk: Disk,
    clock: VirtualClock,
    names: AtomicU64,
    /// Files that have arrived.
    arrived: AtomicI64,
    /// Those that are not gone for good, with their times.
    files: Mutex<Vec<(String, Bytes, i64)>>,
    /// What was pushed into sources in memory, which stand for a log that outlives processes.
    rows: Mutex<BTreeMap<String, Arc<MemorySource>>>,
    batches: Mutex<Delivered>,
    table: Mutex<Option<Vec<String>>>,
}

/// The rows of each attempt at each batch that was handed to a function.
pub(crate) type Delivered = BTreeMap<u64, Vec<Vec<String>>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// An empty world.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Inner {
            disk: Disk::new(),
            clock: VirtualClock::at(BEGIN_MS),
            names: AtomicU64::new(0),
            arrived: AtomicI64::new(0),
            files: Mutex::default(),
            rows: Mutex::default(),
            batches: Mutex::default(),
            table: Mutex::default(),
        }))
    }

    /// What is stored.
    pub fn disk(&self) -> &Disk {
        &self.0.disk
    }

    /// The time.
    pub fn clock(&self) -> &VirtualClock {
        &self.0.clock
    }

    /// A name that was never used in this world.
    pub(crate) fn next_name(&self) -> String {
        format!("name-{}", self.0.names.fetch_add(1, Ordering::SeqCst))
    }

    /// A process as `plan` says.
    pub(crate) fn process(&self, plan: &RunPlan) -> Process {
        self.0
            .disk
            .mortal(plan.crash)
            .with_faults(plan.faults.iter().copied())
            // Input files have no checksums, nor has all that other formats write.
            .with_damage_below("checkpoint")
            .with_stale_below("in")
            .with_clock(self.0.clock.clone())
            .with_turns(Rng::new(plan.turns))
            .refusing_when_dead()
            .with_steps_max(STEPS_MAX)
    }

    /// Lets a wave of input arrive.
    pub(crate) fn arrive(&self, wave: &Wave) -> Result<()> {
        for (path, bytes) in &wave.files {
            self.0.disk.write(path, bytes.clone());
            // Each is newer than those before it, whatever happens to the clock: the order of files
            // is that of their arrival.
            let number = self.0.arrived.fetch_add(1, Ordering::SeqCst);
            let modified_ms = BEGIN_MS + number * 1000;
            self.0.disk.set_modified(path, modified_ms);
            lock(&self.0.files).push((path.clone(), bytes.clone(), modified_ms));
        }
        for (name, rows) in &wave.rows {
            let mut sources = lock(&self.0.rows);
            let source = sources
                .entry(name.clone())
                .or_insert_with(|| Arc::new(MemorySource::new(name.as_str(), rows.schema())));
            source.add_data(rows.clone())?;
        }
        Ok(())
    }

    /// The source of the rows that arrive under `name`.
    pub(crate) fn needed_rows(&self, name: &str) -> Result<Arc<MemorySource>> {
        let found = lock(&self.0.rows).get(name).cloned();
        found.ok_or_else(|| Error::not_found(format!("the input has no rows {name:?}")))
    }

    /// Takes every file away that has arrived, until [`Self::bring_back`].
    pub(crate) fn take_away(&self) {
        for (path, _, _) in lock(&self.0.files).iter() {
            self.0.disk.remove(path);
        }
    }

    /// Puts the files back as they were.
    pub(crate) fn bring_back(&self) {
        for (path, bytes, modified_ms) in lock(&self.0.files).iter() {
            self.0.disk.write(path, bytes.clone());
            self.0.disk.set_modified(path, *modified_ms);
        }
    }

    /// Removes for good what has arrived so far.
    pub(crate) fn forget_files(&self) {
        self.take_away();
        lock(&self.0.files).clear();
    }

    /// Notes what was handed to a function.
    pub(crate) fn deliver(&self, batch: u64, rows: Vec<String>) {
        lock(&self.0.batches).entry(batch).or_default().push(rows);
    }

    pub(crate) fn delivered(&self) -> Delivered {
        lock(&self.0.batches).clone()
    }

    /// What the table in memory held when the run that made it ended.
    pub(crate) fn set_table(&self, rows: Vec<String>) {
        *lock(&self.0.table) = Some(rows);
    }

    pub(crate) fn table(&self) -> Option<Vec<String>> {
        lock(&self.0.table).clone()
    }
}
