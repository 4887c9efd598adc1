//! The simplest state backend that keeps the laws: whole snapshots, one object each.

use arrow::array::{Array, BinaryArray};
use async_trait::async_trait;
use fluvial_core::{
    Change, Entries, Error, KeyGroup, KeyGroupRange, KeyRange, Prefetch, Result, RunId,
    SealedStore, Snapshot, StateBackend, StateStore, StateVersion, StoreId, StoreSize,
};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Whole snapshots under `state/`, named after their version, run and number of attempt.
pub(crate) struct Snapshots {
    store: Arc<dyn ObjectStore>,
    run: RunId,
    attempts: AtomicU64,
}

impl Snapshots {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, run: RunId) -> Self {
        Self { store, run, attempts: AtomicU64::new(0) }
    }
}

/// The version in a token.
pub(crate) fn version_of(path: &str) -> Option<u64> {
    path.rsplit('/').next()?.split('-').next()?.parse().ok()
}

#[async_trait]
impl StateBackend for Snapshots {
    fn format(&self) -> &str {
        "snapshots"
    }

    async fn open(
        &self,
        id: &StoreId,
        groups: KeyGroupRange,
        version: StateVersion,
        snapshots: &[Snapshot],
    ) -> Result<Box<dyn StateStore>> {
        let mut map = Map::new();
        for snapshot in snapshots {
            assert_eq!(snapshot.version, version, "a snapshot of another version");
            if snapshot.groups.intersect(groups).is_empty() {
                continue;
            }
            let bytes = self.store.get(&Path::from(snapshot.token.as_str())).await?.bytes().await?;
            let part: Vec<(Vec<u8>, Vec<u8>)> = serde_json::from_slice(&bytes)
                .map_err(|e| Error::corrupt(&snapshot.token).with_source(e))?;
            map.extend(part.into_iter().filter(|(key, _)| groups.contains(group_of(key))));
        }
        Ok(Box::new(Store { id: id.clone(), groups, base: version, map }))
    }

    async fn commit(&self, sealed: Vec<SealedStore>) -> Result<Vec<Snapshot>> {
        let mut snapshots = Vec::new();
        for store in sealed {
            let version = StateVersion(store.base.0 + 1);
            let attempt = self.attempts.fetch_add(1, SeqCst);
            let token = format!("state/{version}-{}-{attempt}", self.run);
            let Change::Bytes { bytes, .. } = store.change else { panic!("always bytes") };
            self.store.put(&Path::from(token.as_str()), bytes.into()).await?;
            let (id, groups, rows) = (store.id, store.groups, store.rows);
            snapshots.push(Snapshot { id, groups, version, rows, token });
        }
        Ok(snapshots)
    }

    async fn retain(&self, live: &[Snapshot]) -> Result<()> {
        let Some(oldest) = live.iter().map(|s| s.version.0).min() else { return Ok(()) };
        let found: Vec<_> = self.store.list(Some(&Path::from("state"))).try_collect().await?;
        for meta in found {
            let path = meta.location.to_string();
            let old = version_of(&path).is_some_and(|version| version < oldest);
            if old && !live.iter().any(|s| s.token == path) {
                self.store.delete(&meta.location).await?;
            }
        }
        Ok(())
    }
}

fn group_of(key: &[u8]) -> KeyGroup {
    KeyGroup(u16::from_be_bytes([key[0], key[1]]))
}

struct Store {
    id: StoreId,
    groups: KeyGroupRange,
    base: StateVersion,
    map: Map,
}

#[async_trait]
impl StateStore for Store {
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
        Ok(keys.iter().map(|key| self.map.get(key.unwrap()).map(Vec::as_slice)).collect())
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Entries> {
        let (keys, values): (Vec<_>, Vec<_>) = self
            .map
            .range(range.start.clone()..)
            .take_while(|(key, _)| range.contains(key))
            .take(limit)
            .map(|(key, value)| (key.as_slice(), value.as_slice()))
            .unzip();
        Ok(Entries {
            keys: BinaryArray::from_iter_values(keys),
            values: BinaryArray::from_iter_values(values),
        })
    }

    fn put_many(&mut self, keys: &BinaryArray, values: &BinaryArray) -> Result<()> {
        for row in 0..keys.len() {
            let key = keys.value(row).to_vec();
            assert!(self.groups.contains(group_of(&key)), "a key of another partition");
            self.map.insert(key, values.value(row).to_vec());
        }
        Ok(())
    }

    fn delete_many(&mut self, keys: &BinaryArray) -> Result<()> {
        keys.iter().for_each(|key| drop(self.map.remove(key.unwrap())));
        Ok(())
    }

    fn delete_range(&mut self, range: &KeyRange) -> Result<u64> {
        let before = self.map.len();
        self.map.retain(|key, _| !range.contains(key));
        Ok((before - self.map.len()) as u64)
    }

    fn size(&self) -> StoreSize {
        StoreSize { rows: self.map.len() as u64, memory_bytes: 0 }
    }

    fn seal(self: Box<Self>) -> Result<SealedStore> {
        let entries: Vec<_> = self.map.into_iter().collect();
        let rows = entries.len() as u64;
        let bytes = serde_json::to_vec(&entries).unwrap().into();
        let change = Change::Bytes { bytes, parents: String::new() };
        Ok(SealedStore { id: self.id, groups: self.groups, base: self.base, rows, change })
    }
}

/// A backend that says that it writes another format.
pub(crate) struct Reformatted(pub(crate) Arc<dyn StateBackend>);

#[async_trait]
impl StateBackend for Reformatted {
    fn format(&self) -> &str {
        "other"
    }

    async fn open(
        &self,
        id: &StoreId,
        groups: KeyGroupRange,
        version: StateVersion,
        snapshots: &[Snapshot],
    ) -> Result<Box<dyn StateStore>> {
        self.0.open(id, groups, version, snapshots).await
    }

    async fn commit(&self, sealed: Vec<SealedStore>) -> Result<Vec<Snapshot>> {
        self.0.commit(sealed).await
    }

    async fn retain(&self, live: &[Snapshot]) -> Result<()> {
        self.0.retain(live).await
    }
}
