//! A hash map: what a store without order or durability costs.

use crate::Contestant;
use arrow::array::BinaryArray;
use fluvial_core::KeyRange;
use std::collections::HashMap;

/// Commits are nothing; scans and evictions look at every key, so they are not measured.
#[derive(Default)]
pub(crate) struct HashMapContestant(HashMap<Vec<u8>, Vec<u8>>);

impl Contestant for HashMapContestant {
    fn put(&mut self, keys: &BinaryArray, values: &BinaryArray) {
        for (key, value) in keys.iter().flatten().zip(values.iter().flatten()) {
            match self.0.get_mut(key) {
                Some(old) => {
                    old.clear();
                    old.extend_from_slice(value);
                }
                None => drop(self.0.insert(key.to_vec(), value.to_vec())),
            }
        }
    }

    fn get(&mut self, keys: &BinaryArray) -> usize {
        let found = keys.iter().flatten().filter_map(|key| self.0.get(key));
        found.map(|value| usize::from(std::hint::black_box(value).len() < usize::MAX)).sum()
    }

    fn scan(&mut self, range: &KeyRange) -> usize {
        self.0.keys().filter(|key| range.contains(key)).count()
    }

    fn evict(&mut self, ranges: &[KeyRange]) -> u64 {
        let before = self.0.len();
        self.0.retain(|key, _| !ranges.iter().any(|range| range.contains(key)));
        (before - self.0.len()) as u64
    }

    fn commit(&mut self) {}

    fn reopen(&mut self) {}

    fn is_ordered(&self) -> bool {
        false
    }
}
