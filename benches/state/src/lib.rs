//! Benchmarks of state backends beside other stores; builds without the engine.
//!
//! A [`Contestant`] is one store with one table of keys; what a commit means is said by each.
//! [`measure`] takes the figures of one of them, in a process of its own: so the CPU time of its
//! background threads is its own, and so is the peak of memory.

#[cfg(feature = "fjall")]
mod fjall;
mod hash_map;
mod keys;
mod measure;
mod ours;
mod process;
mod recovery;
#[cfg(feature = "rocksdb")]
mod rocks;
mod throttled;
mod tiny;

use arrow::array::{Array, BinaryArray};
use fluvial_core::KeyRange;
use std::path::Path;

pub use keys::Keys;
pub use measure::{Figure, Rounds, measure};
pub use recovery::recovery;
pub use tiny::tiny;

/// A store under measurement. Batches are columns of keys and values.
pub trait Contestant {
    /// Writes, as part of the batch that the next commit makes durable.
    fn put(&mut self, keys: &BinaryArray, values: &BinaryArray);

    /// How many of the keys have a value. Values are read.
    fn get(&mut self, keys: &BinaryArray) -> usize;

    /// As [`Self::get`], one call for each key.
    fn get_each(&mut self, keys: &BinaryArray) -> usize {
        (0..keys.len()).map(|i| self.get(&keys.slice(i, 1))).sum()
    }

    /// How many entries lie in the range. They are read.
    fn scan(&mut self, range: &KeyRange) -> usize;

    /// Removes what lies in the ranges, and says how much that was: state is counted exactly.
    fn evict(&mut self, ranges: &[KeyRange]) -> u64;

    /// Removes what lies in the ranges, without a word on what that was, if the store can do so
    /// for less.
    fn evict_uncounted(&mut self, ranges: &[KeyRange]) {
        self.evict(ranges);
    }

    /// Makes the batch durable: synced, and to be opened as it is now by another process.
    fn commit(&mut self);

    /// Waits for what it does in the background.
    fn settle(&mut self) {}

    /// Forgets everything in memory and opens what was committed last, as a new process would.
    fn reopen(&mut self);

    /// Where its files are.
    fn folder(&self) -> Option<&Path> {
        None
    }

    /// Whether it keeps an order, so that ranges can be asked for.
    fn is_ordered(&self) -> bool {
        true
    }
}

/// Makes a contestant within so many bytes of memory for caches and buffers.
pub type Make = fn(u64) -> Box<dyn Contestant>;

/// Every contestant of this build, by name.
pub fn contestants() -> Vec<(&'static str, Make)> {
    let mut all: Vec<(&'static str, Make)> = vec![
        ("hash map", |_| Box::new(hash_map::HashMapContestant::default())),
        ("memory", |_| Box::new(ours::Ours::memory())),
        ("lsm", |memory| Box::new(ours::Ours::lsm(memory))),
    ];
    #[cfg(feature = "fjall")]
    all.push(("fjall", |memory| Box::new(fjall::FjallContestant::new(memory))));
    #[cfg(feature = "rocksdb")]
    all.push(("rocksdb", |memory| Box::new(rocks::RocksContestant::new(memory))));
    all
}
