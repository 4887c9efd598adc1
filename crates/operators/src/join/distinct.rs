//! `Distinct`: the keys of a batch, those of both sides numbered together.

use arrow::array::{Array, BinaryArray, BooleanArray, TimestampMicrosecondArray};
use fluvial_core::{Error, Result};
use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

/// Numbers keys `0, 1, 2, ...` in the order of their first appearance. Nothing depends on the
/// order of the hash table.
#[derive(Debug, Default)]
pub(super) struct Distinct {
    numbers: HashTable<(u64, u32)>,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// The time in each key, where keys have one.
    times: Vec<Option<i64>>,
    /// Which keys may match: those without a null that matches nothing.
    joinable: Vec<bool>,
}

impl Distinct {
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The key with this number, its group in front.
    pub(super) fn key(&self, number: usize) -> &[u8] {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.bytes[start..self.ends[number]]
    }

    /// The time in the key.
    pub(super) fn time(&self, number: usize) -> Option<i64> {
        self.times.get(number).copied().flatten()
    }

    /// Whether rows of this key may match.
    pub(super) fn joins(&self, number: usize) -> bool {
        self.joinable[number]
    }

    /// The number of each key. `times` are their times, `nulls` which of them match nothing.
    pub(super) fn intern(
        &mut self,
        keys: &BinaryArray,
        times: Option<&TimestampMicrosecondArray>,
        nulls: Option<&BooleanArray>,
    ) -> Result<Vec<u32>> {
        let mut found = Vec::with_capacity(keys.len());
        self.numbers.reserve(keys.len(), |&(hash, _)| hash);
        for row in 0..keys.len() {
            let key = keys.value(row);
            let hash = xxh3_64(key);
            let same =
                |&(other, number): &(u64, u32)| other == hash && self.key(number as usize) == key;
            if let Some(&(_, number)) = self.numbers.find(hash, same) {
                found.push(number);
                continue;
            }
            let number = u32::try_from(self.len()).map_err(|_| {
                Error::invalid("a batch has over four billion join keys: use smaller batches")
            })?;
            self.bytes.extend_from_slice(key);
            self.ends.push(self.bytes.len());
            if let Some(times) = times {
                self.times.push(times.is_valid(row).then(|| times.value(row)));
            }
            self.joinable.push(nulls.is_none_or(|nulls| !nulls.value(row)));
            self.numbers.insert_unique(hash, (hash, number), |&(hash, _)| hash);
            found.push(number);
        }
        Ok(found)
    }
}
