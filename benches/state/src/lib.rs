//! Benchmarks of state backends beside other stores; builds without the engine.
//!
//! A [`Contestant`] is one store with one table of keys. What is measured is in
//! `state_backends.rs`; what a commit means is said by each contestant.

#[cfg(feature = "fjall")]
mod fjall;
mod hash_map;
mod keys;
mod ours;
#[cfg(feature = "rocksdb")]
mod rocks;

use arrow::array::BinaryArray;
use fluvial_core::KeyRange;

pub use keys::{BATCH, KEYS, TIMES, absent, all, group, keys, random, values, window};

/// A store under measurement. Batches are columns of keys and values.
pub trait Contestant {
    /// Writes, as part of the batch that the next commit makes durable.
    fn put(&mut self, keys: &BinaryArray, values: &BinaryArray);

    /// How many of the keys have a value. Values are read.
    fn get(&mut self, keys: &BinaryArray) -> usize;

    /// As [`Self::get`], one call for each key.
    fn get_each(&mut self, keys: &BinaryArray) -> usize {
        (0..arrow::array::Array::len(keys)).map(|i| self.get(&keys.slice(i, 1))).sum()
    }

    /// How many entries lie in the range. They are read.
    fn scan(&mut self, range: &KeyRange) -> usize;

    /// Removes what lies in the ranges.
    fn evict(&mut self, ranges: &[KeyRange]);

    /// Makes the batch durable: synced, and to be opened as it is now by another process.
    fn commit(&mut self);

    /// Forgets everything in memory and opens what was committed last, as a new process would.
    fn reopen(&mut self);
}

/// Every contestant of this build, by name; each is made when it is asked for.
pub fn contestants() -> Vec<(&'static str, fn() -> Box<dyn Contestant>)> {
    let mut all: Vec<(&'static str, fn() -> Box<dyn Contestant>)> = vec![
        ("hash map", || Box::new(hash_map::HashMapContestant::default())),
        ("memory", || Box::new(ours::Ours::memory())),
    ];
    #[cfg(feature = "fjall")]
    all.push(("fjall", || Box::new(fjall::FjallContestant::new())));
    #[cfg(feature = "rocksdb")]
    all.push(("rocksdb", || Box::new(rocks::RocksContestant::new())));
    all
}
