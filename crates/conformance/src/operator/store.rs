//! `TestStore`: the obviously correct state store, and a strict one.

use arrow::array::{Array, BinaryArray};
use async_trait::async_trait;
use fluvial_core::{
    Change, Entries, Error, KeyGroup, KeyGroupRange, KeyRange, OperatorId, Prefetch, Result,
    SealedStore, StateStore, StateVersion, StoreId, StoreName, StoreSize,
};
use std::collections::{BTreeMap, BTreeSet};

/// The contents of a store.
pub type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// A store over a sorted map. It refuses reads of what was neither written through it nor
/// prefetched, so that an operator which passes here works on a store that opens lazily.
#[derive(Debug, Clone)]
pub struct TestStore {
    contents: Contents,
    groups: KeyGroupRange,
    written: BTreeSet<Vec<u8>>,
    keys: BTreeSet<Vec<u8>>,
    ranges: Vec<KeyRange>,
    /// The keys that were there when it was opened, of a local store.
    local: Option<BTreeSet<Vec<u8>>>,
}

impl TestStore {
    /// Opens the entries of these key groups.
    pub fn open(contents: &Contents, groups: KeyGroupRange) -> Self {
        let contents = contents.iter().filter(|(key, _)| groups.contains(group_of(key)));
        Self {
            contents: contents.map(|(key, value)| (key.clone(), value.clone())).collect(),
            groups,
            written: BTreeSet::new(),
            keys: BTreeSet::new(),
            ranges: Vec::new(),
            local: None,
        }
    }

    /// The same as a store that is local: everything may be read at once.
    pub fn open_local(contents: &Contents, groups: KeyGroupRange) -> Self {
        let store = Self::open(contents, groups);
        Self { local: Some(store.contents.keys().cloned().collect()), ..store }
    }

    /// What it holds now.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    /// What it holds in the end.
    pub fn into_contents(self) -> Contents {
        self.contents
    }

    /// Makes readable what was named, as [`StateStore::prefetch`].
    pub fn bring(&mut self, what: &Prefetch) {
        match what {
            Prefetch::Nothing => {}
            Prefetch::Keys(keys) => self.keys.extend(keys.iter().flatten().map(<[u8]>::to_vec)),
            Prefetch::Ranges(ranges) => self.ranges.extend(ranges.iter().cloned()),
            Prefetch::Each(all) => all.iter().for_each(|one| self.bring(one)),
        }
    }

    fn may_read(&self, key: &[u8]) -> bool {
        self.local.is_some()
            || self.written.contains(key)
            || self.keys.contains(key)
            || self.ranges.iter().any(|range| range.contains(key))
    }

    fn own(&self, key: &[u8]) {
        let group = group_of(key);
        assert!(self.groups.contains(group), "a key of group {} in {}", group.0, self.groups);
    }

    fn in_range<'a>(
        &'a self,
        range: &'a KeyRange,
    ) -> impl Iterator<Item = (&'a Vec<u8>, &'a Vec<u8>)> {
        self.contents.range(range.start.clone()..).take_while(|(key, _)| range.contains(key))
    }
}

/// The key group in front of a key.
fn group_of(key: &[u8]) -> KeyGroup {
    let bytes = key.first_chunk().expect("a state key begins with its key group");
    KeyGroup(u16::from_be_bytes(*bytes))
}

#[async_trait]
impl StateStore for TestStore {
    fn base(&self) -> StateVersion {
        StateVersion(0)
    }

    fn groups(&self) -> KeyGroupRange {
        self.groups
    }

    fn is_local(&self) -> bool {
        self.local.is_some()
    }

    async fn prefetch(&mut self, what: &Prefetch) -> Result<()> {
        self.bring(what);
        Ok(())
    }

    fn get_many(&self, keys: &BinaryArray) -> Result<BinaryArray> {
        let unknown = keys.iter().flatten().find(|key| !self.may_read(key));
        if let Some(key) = unknown {
            return Err(Error::invalid(format!("key {key:?} was not prefetched")));
        }
        Ok(keys
            .iter()
            .map(|key| key.and_then(|key| self.contents.get(key)).map(Vec::as_slice))
            .collect())
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Entries> {
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for (key, value) in self.in_range(range).take(limit) {
            if !self.may_read(key) {
                return Err(Error::invalid(format!("key {key:?} of a scan was not prefetched")));
            }
            keys.push(Some(key.as_slice()));
            values.push(Some(value.as_slice()));
        }
        Ok(Entries { keys: BinaryArray::from(keys), values: BinaryArray::from(values) })
    }

    fn put_many(&mut self, keys: &BinaryArray, values: &BinaryArray) -> Result<()> {
        assert_eq!(keys.len(), values.len(), "every key has its value");
        for (key, value) in keys.iter().zip(values) {
            let (key, value) = (key.expect("a key"), value.expect("a value"));
            self.own(key);
            self.written.insert(key.to_vec());
            self.contents.insert(key.to_vec(), value.to_vec());
        }
        Ok(())
    }

    fn get_new_many(&self, keys: &BinaryArray) -> Result<Option<BinaryArray>> {
        let Some(had) = &self.local else { return Ok(None) };
        let new = |key: Option<&[u8]>| self.contents.get(key.filter(|key| !had.contains(*key))?);
        Ok(Some(keys.iter().map(|key| new(key).map(Vec::as_slice)).collect()))
    }

    fn delete_many(&mut self, keys: &BinaryArray) -> Result<()> {
        for key in keys.iter() {
            let key = key.expect("a key");
            self.own(key);
            self.written.insert(key.to_vec());
            self.contents.remove(key);
        }
        Ok(())
    }

    fn delete_range(&mut self, range: &KeyRange) -> Result<u64> {
        let keys: Vec<Vec<u8>> = self.in_range(range).map(|(key, _)| key.clone()).collect();
        for key in &keys {
            self.contents.remove(key);
        }
        Ok(keys.len() as u64)
    }

    fn size(&self) -> StoreSize {
        let bytes = self.contents.iter().map(|(key, value)| key.len() + value.len());
        StoreSize { rows: self.contents.len() as u64, memory_bytes: bytes.sum::<usize>() as u64 }
    }

    fn seal(self: Box<Self>) -> Result<SealedStore> {
        Ok(SealedStore {
            id: StoreId { operator: OperatorId::new("test")?, store: StoreName::new("default")? },
            groups: self.groups,
            base: self.base(),
            rows: self.contents.len() as u64,
            change: Change::None(String::new()),
        })
    }
}
