//! State in a sorted map, for testers: nothing of it is durable.

use arrow::array::BinaryArray;
use async_trait::async_trait;
use fluvial_core::{
    Change, Entries, KeyGroupRange, KeyRange, OperatorId, Prefetch, Result, SealedStore,
    StateStore, StateVersion, StoreId, StoreName, StoreSize,
};
use std::collections::BTreeMap;

/// State in a sorted map.
#[derive(Debug, Clone)]
pub(crate) struct MemoryState {
    entries: BTreeMap<Vec<u8>, Vec<u8>>,
    groups: KeyGroupRange,
}

impl MemoryState {
    pub(crate) fn new(groups: KeyGroupRange) -> Self {
        Self { entries: BTreeMap::new(), groups }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    fn in_range<'a>(
        &'a self,
        range: &'a KeyRange,
    ) -> impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)> {
        self.entries.range(range.start.clone()..).take_while(|(key, _)| range.contains(key))
    }
}

#[async_trait]
impl StateStore for MemoryState {
    fn base(&self) -> StateVersion {
        StateVersion(0)
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
        let value = |key: Option<&[u8]>| self.entries.get(key?).map(Vec::as_slice);
        Ok(keys.iter().map(value).collect())
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Entries> {
        let found: Vec<_> = self.in_range(range).take(limit).collect();
        Ok(Entries {
            keys: BinaryArray::from_iter_values(found.iter().map(|(key, _)| key)),
            values: BinaryArray::from_iter_values(found.iter().map(|(_, value)| value)),
        })
    }

    fn put_many(&mut self, keys: &BinaryArray, values: &BinaryArray) -> Result<()> {
        for (key, value) in keys.iter().flatten().zip(values.iter().flatten()) {
            self.entries.insert(key.to_vec(), value.to_vec());
        }
        Ok(())
    }

    fn delete_many(&mut self, keys: &BinaryArray) -> Result<()> {
        for key in keys.iter().flatten() {
            self.entries.remove(key);
        }
        Ok(())
    }

    fn delete_range(&mut self, range: &KeyRange) -> Result<u64> {
        let keys: Vec<Vec<u8>> = self.in_range(range).map(|(key, _)| key.clone()).collect();
        for key in &keys {
            self.entries.remove(key);
        }
        Ok(keys.len() as u64)
    }

    fn size(&self) -> StoreSize {
        let bytes = self.entries.iter().map(|(key, value)| key.len() + value.len());
        StoreSize { rows: self.entries.len() as u64, memory_bytes: bytes.sum::<usize>() as u64 }
    }

    fn seal(self: Box<Self>) -> Result<SealedStore> {
        let id = StoreId { operator: OperatorId::new("test")?, store: StoreName::new("default")? };
        let (groups, base, rows) = (self.groups, self.base(), self.entries.len() as u64);
        Ok(SealedStore { id, groups, base, rows, change: Change::None(String::new()) })
    }
}
