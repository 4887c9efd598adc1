//! An open version: a sorted map.

use crate::file;
use arrow::array::{Array, BinaryArray};
use async_trait::async_trait;
use fluvial_core::{
    Change, Entries, KeyGroup, KeyGroupRange, KeyRange, Prefetch, Result, SealedStore, StateStore,
    StateVersion, StoreId, StoreSize,
};
use std::collections::BTreeMap;

pub(crate) type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// One version, being turned into the next. Dropping it has no effect: nothing is shared.
pub(crate) struct IpcStore {
    id: StoreId,
    groups: KeyGroupRange,
    base: StateVersion,
    contents: Contents,
    /// The token of the one snapshot it was opened from, until something is written: a store that
    /// did not change costs nothing.
    unchanged: Option<String>,
}

fn is_in(groups: KeyGroupRange, key: &[u8]) -> bool {
    let group = key.first_chunk().map(|group| KeyGroup(u16::from_be_bytes(*group)));
    group.is_some_and(|group| groups.contains(group))
}

impl IpcStore {
    pub(crate) fn new(
        id: StoreId,
        groups: KeyGroupRange,
        base: StateVersion,
        mut contents: Contents,
        unchanged: Option<String>,
    ) -> Self {
        contents.retain(|key, _| is_in(groups, key));
        Self { id, groups, base, contents, unchanged }
    }

    fn write(&mut self, key: &[u8]) {
        assert!(is_in(self.groups, key), "a key of another partition was written to {}", self.id);
        self.unchanged = None;
    }
}

#[async_trait]
impl StateStore for IpcStore {
    fn base(&self) -> StateVersion {
        self.base
    }

    fn groups(&self) -> KeyGroupRange {
        self.groups
    }

    fn is_local(&self) -> bool {
        true
    }

    async fn prefetch(&mut self, _: &Prefetch) -> Result<()> {
        Ok(())
    }

    fn get_many(&self, keys: &BinaryArray) -> Result<BinaryArray> {
        Ok(keys.iter().map(|key| self.contents.get(key?).map(Vec::as_slice)).collect())
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Entries> {
        let from = self.contents.range(range.start.clone()..);
        let found = from.take_while(|(key, _)| range.contains(key)).take(limit);
        let found: Vec<_> = found.collect();
        Ok(Entries {
            keys: BinaryArray::from_iter_values(found.iter().map(|(key, _)| key)),
            values: BinaryArray::from_iter_values(found.iter().map(|(_, value)| value)),
        })
    }

    fn put_many(&mut self, keys: &BinaryArray, values: &BinaryArray) -> Result<()> {
        assert_eq!(keys.len(), values.len(), "every state key needs a value");
        for (key, value) in keys.iter().zip(values) {
            let (key, value) = (key.expect("a key is not null"), value.expect("nor is a value"));
            self.write(key);
            self.contents.insert(key.to_vec(), value.to_vec());
        }
        Ok(())
    }

    fn delete_many(&mut self, keys: &BinaryArray) -> Result<()> {
        for key in keys.iter().flatten() {
            self.write(key);
            self.contents.remove(key);
        }
        Ok(())
    }

    fn delete_range(&mut self, range: &KeyRange) -> Result<u64> {
        let before = self.contents.len();
        self.contents.retain(|key, _| !range.contains(key));
        let removed = before - self.contents.len();
        if removed > 0 {
            self.unchanged = None;
        }
        Ok(removed as u64)
    }

    fn size(&self) -> StoreSize {
        let bytes: usize = self.contents.iter().map(|(key, value)| key.len() + value.len()).sum();
        StoreSize { rows: self.contents.len() as u64, memory_bytes: bytes as u64 }
    }

    fn seal(self: Box<Self>) -> Result<SealedStore> {
        let rows = self.contents.len() as u64;
        let change = match self.unchanged {
            Some(token) => Change::None(token),
            None => {
                let bytes = file::write(&self.contents)?;
                Change::Bytes { bytes, parents: String::new() }
            }
        };
        Ok(SealedStore { id: self.id, groups: self.groups, base: self.base, rows, change })
    }
}
