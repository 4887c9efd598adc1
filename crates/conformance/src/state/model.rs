//! The obviously correct state: a sorted map, and one object for each snapshot.

use arrow::array::{Array, BinaryArray};
use async_trait::async_trait;
use bytes::Bytes;
use fluvial_core::{
    Change, Entries, Error, KeyGroup, KeyGroupRange, KeyRange, Prefetch, Result, RunId,
    SealedStore, Snapshot, StateBackend, StateStore, StateVersion, StoreId, StoreSize, frame,
};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The contents of a store.
pub type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

const KIND: &str = "state";
const FORMAT: u32 = 1;

fn group_of(key: &[u8]) -> Option<KeyGroup> {
    key.first_chunk().map(|group| KeyGroup(u16::from_be_bytes(*group)))
}

/// A store over a sorted map.
#[derive(Debug, Clone)]
pub struct ModelStore {
    id: StoreId,
    groups: KeyGroupRange,
    base: StateVersion,
    contents: Contents,
    /// The token of the one snapshot it was opened from, until something is written.
    unchanged: Option<String>,
}

impl ModelStore {
    /// Opens the entries of these key groups.
    pub fn open(
        id: StoreId,
        groups: KeyGroupRange,
        base: StateVersion,
        contents: &Contents,
    ) -> Self {
        let own = |key: &[u8]| group_of(key).is_some_and(|group| groups.contains(group));
        let entries = contents.iter().filter(|(key, _)| own(key));
        let contents = entries.map(|(key, value)| (key.clone(), value.clone())).collect();
        Self { id, groups, base, contents, unchanged: None }
    }

    /// What it holds now.
    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    fn written(&mut self, key: &[u8]) {
        let own = group_of(key).is_some_and(|group| self.groups.contains(group));
        assert!(own, "a key outside of groups {} was written to {}", self.groups, self.id);
        self.unchanged = None;
    }
}

#[async_trait]
impl StateStore for ModelStore {
    fn base(&self) -> StateVersion {
        self.base
    }

    fn groups(&self) -> KeyGroupRange {
        self.groups
    }

    async fn prefetch(&mut self, _: &Prefetch) -> Result<()> {
        Ok(())
    }

    fn get_many(&self, keys: &BinaryArray) -> Result<BinaryArray> {
        let value = |key: Option<&[u8]>| self.contents.get(key?).map(Vec::as_slice);
        Ok(keys.iter().map(value).collect())
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Entries> {
        let inside = || self.contents.iter().filter(|(key, _)| range.contains(key)).take(limit);
        Ok(Entries {
            keys: inside().map(|(key, _)| Some(key.as_slice())).collect(),
            values: inside().map(|(_, value)| Some(value.as_slice())).collect(),
        })
    }

    fn put_many(&mut self, keys: &BinaryArray, values: &BinaryArray) -> Result<()> {
        assert_eq!(keys.len(), values.len(), "every key needs a value");
        assert_eq!(keys.null_count() + values.null_count(), 0, "neither may be null");
        for (key, value) in keys.iter().flatten().zip(values.iter().flatten()) {
            self.written(key);
            self.contents.insert(key.to_vec(), value.to_vec());
        }
        Ok(())
    }

    fn delete_many(&mut self, keys: &BinaryArray) -> Result<()> {
        for key in keys.iter().flatten() {
            self.written(key);
            self.contents.remove(key);
        }
        Ok(())
    }

    fn delete_range(&mut self, range: &KeyRange) -> Result<u64> {
        self.unchanged = None;
        let before = self.contents.len();
        self.contents.retain(|key, _| !range.contains(key));
        Ok((before - self.contents.len()) as u64)
    }

    fn size(&self) -> StoreSize {
        let bytes: usize = self.contents.iter().map(|(key, value)| key.len() + value.len()).sum();
        StoreSize { rows: self.contents.len() as u64, memory_bytes: bytes as u64 }
    }

    fn seal(self: Box<Self>) -> Result<SealedStore> {
        let rows = self.contents.len() as u64;
        let change = match self.unchanged {
            Some(token) => Change::None(token),
            None => Change::Bytes { bytes: encode(&self.contents), parents: String::new() },
        };
        Ok(SealedStore { id: self.id, groups: self.groups, base: self.base, rows, change })
    }
}

fn encode(contents: &Contents) -> Bytes {
    let mut body = Vec::new();
    for part in contents.iter().flat_map(|(key, value)| [key, value]) {
        body.extend_from_slice(&(part.len() as u64).to_le_bytes());
        body.extend_from_slice(part);
    }
    frame::seal(KIND, FORMAT, &body)
}

fn decode(bytes: &[u8]) -> Result<Contents> {
    let mut body = frame::open(KIND, FORMAT, bytes)?;
    let mut part = || -> Result<Option<Vec<u8>>> {
        let Some((length, rest)) = body.split_first_chunk() else { return Ok(None) };
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
        let split = rest.split_at_checked(length);
        let (part, rest) = split.ok_or_else(|| Error::corrupt("a length is wrong"))?;
        body = rest;
        Ok(Some(part.to_vec()))
    };
    let mut contents = Contents::new();
    while let Some(key) = part()? {
        let value = part()?.ok_or_else(|| Error::corrupt("a key has no value"))?;
        contents.insert(key, value);
    }
    Ok(contents)
}

/// A backend that keeps every law in the plainest way: a snapshot is one object that holds
/// everything, under a name that no other attempt has.
#[derive(Debug)]
pub struct ModelBackend {
    store: Arc<dyn ObjectStore>,
    root: Path,
    run: RunId,
    attempts: AtomicU64,
}

impl ModelBackend {
    /// A backend that keeps its objects under `root`. No two may have the same `run`.
    pub fn new(store: Arc<dyn ObjectStore>, root: Path, run: RunId) -> Self {
        Self { store, root, run, attempts: AtomicU64::new(0) }
    }

    fn path(&self, id: &StoreId, name: &str) -> Path {
        self.root.clone().join(id.operator.as_str()).join(id.store.as_str()).join(name)
    }

    async fn read(&self, snapshot: &Snapshot) -> Result<Contents> {
        let path = self.path(&snapshot.id, &snapshot.token);
        let bytes = self.store.get(&path).await?.bytes().await?;
        decode(&bytes).map_err(|error| error.at(path))
    }
}

#[async_trait]
impl StateBackend for ModelBackend {
    fn format(&self) -> &str {
        "model"
    }

    async fn open(
        &self,
        id: &StoreId,
        groups: KeyGroupRange,
        version: StateVersion,
        snapshots: &[Snapshot],
    ) -> Result<Box<dyn StateStore>> {
        let mut contents = Contents::new();
        for snapshot in snapshots.iter().filter(|s| !s.groups.intersect(groups).is_empty()) {
            contents.append(&mut self.read(snapshot).await?);
        }
        let mut store = ModelStore::open(id.clone(), groups, version, &contents);
        let exact = snapshots.iter().find(|snapshot| snapshot.groups == groups);
        store.unchanged = exact.map(|snapshot| snapshot.token.clone());
        Ok(Box::new(store))
    }

    async fn commit(&self, sealed: Vec<SealedStore>) -> Result<Vec<Snapshot>> {
        let mut snapshots = Vec::new();
        for store in sealed {
            let version = StateVersion(store.base.0 + 1);
            let token = match store.change {
                Change::None(token) => token,
                Change::Bytes { bytes, .. } => loop {
                    let attempt = self.attempts.fetch_add(1, Ordering::Relaxed);
                    let token = format!("{version}-{attempt}-{}", self.run);
                    let path = self.path(&store.id, &token);
                    let put =
                        self.store.put_opts(&path, bytes.clone().into(), PutMode::Create.into());
                    match put.await {
                        Ok(_) => break token,
                        Err(object_store::Error::AlreadyExists { .. }) => {}
                        Err(error) => return Err(error.into()),
                    }
                },
            };
            let (id, groups, rows) = (store.id, store.groups, store.rows);
            snapshots.push(Snapshot { id, groups, version, rows, token });
        }
        Ok(snapshots)
    }

    async fn retain(&self, live: &[Snapshot]) -> Result<()> {
        let Some(oldest) = live.iter().map(|snapshot| snapshot.version.0).min() else {
            return Ok(());
        };
        let kept: BTreeSet<Path> = live.iter().map(|s| self.path(&s.id, &s.token)).collect();
        let objects: Vec<_> = self.store.list(Some(&self.root)).try_collect().await?;
        for path in objects.into_iter().map(|object| object.location) {
            let version = path.filename().and_then(|name| name.split('-').next()?.parse().ok());
            if version.is_some_and(|version: u64| version < oldest) && !kept.contains(&path) {
                self.store.delete(&path).await?;
            }
        }
        Ok(())
    }
}
