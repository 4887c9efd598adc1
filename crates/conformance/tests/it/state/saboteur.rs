//! An honest backend with one thing broken.

use arrow::array::{Array, BinaryArray};
use arrow::buffer::BooleanBuffer;
use async_trait::async_trait;
use fluvial_conformance::state::{Contents, ModelBackend, ModelStore};
use fluvial_core::{
    Entries, Error, ErrorKind, KeyGroupRange, KeyRange, Prefetch, Result, RunId, SealedStore,
    Snapshot, StateBackend, StateStore, StateVersion, StoreId, StoreSize, Verification,
};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What is broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Nothing,
    ReadsTheBase,
    FirstWins,
    ScansBackwards,
    IgnoresLimits,
    StopsShort,
    LimitsEachRange,
    DropKeeps,
    SharesHandles,
    ShowsAllGroups,
    SwallowsForeignKeys,
    AlwaysWrites,
    LastStays,
    TakesNothing,
    TakesAllForNew,
    OpensNewest,
    Resurrects,
    OpensOnePart,
    OpensOtherParts,
    BeginsWithNewest,
    MovesTheBase,
    AlwaysAcknowledges,
    NamesOneAttempt,
    DeletesAttempts,
    DeletesAllButNewest,
    DeletesNothing,
    DeletesElsewhere,
    DamageIsEmpty,
    GoneIsEmpty,
    GoneIsDamage,
    VerifiesNothing,
}

type Shared = Arc<Mutex<Box<dyn StateStore>>>;

/// The backend.
pub(crate) struct Saboteur {
    honest: ModelBackend,
    store: Arc<dyn ObjectStore>,
    fault: Fault,
    /// Writes of dropped stores.
    leaked: Arc<Mutex<Contents>>,
    /// The last commit.
    newest: Mutex<Vec<Snapshot>>,
    /// Stores that are open, by version.
    opened: Mutex<BTreeMap<(StoreId, StateVersion), Shared>>,
}

fn root() -> Path {
    Path::from("state")
}

fn group_of(key: &[u8]) -> fluvial_core::KeyGroup {
    fluvial_core::KeyGroup(u16::from_be_bytes(*key.first_chunk().unwrap()))
}

fn put(store: &mut dyn StateStore, entries: &Contents) {
    let groups = store.groups();
    let own = || entries.iter().filter(|(key, _)| groups.contains(group_of(key)));
    let keys: BinaryArray = own().map(|(key, _)| Some(key.as_slice())).collect();
    let values: BinaryArray = own().map(|(_, value)| Some(value.as_slice())).collect();
    store.put_many(&keys, &values).unwrap();
}

fn contents(store: &dyn StateStore) -> Contents {
    let Entries { keys, values } = store.scan(&KeyRange::all(), usize::MAX).unwrap();
    let entries = keys.iter().flatten().zip(values.iter().flatten());
    entries.map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

impl Saboteur {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, fault: Fault) -> Self {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let run = RunId::new(format!("run{}", RUNS.fetch_add(1, Ordering::Relaxed))).unwrap();
        Self {
            honest: ModelBackend::new(Arc::clone(&store), root(), run),
            store,
            fault,
            leaked: Arc::default(),
            newest: Mutex::default(),
            opened: Mutex::default(),
        }
    }

    fn path(&self, id: &StoreId, token: &str) -> Path {
        root().join(id.operator.as_str()).join(id.store.as_str()).join(token)
    }

    /// The snapshots that it opens instead of those it was given.
    fn chosen(&self, given: &[Snapshot], groups: KeyGroupRange) -> Vec<Snapshot> {
        let newest = self.newest.lock().unwrap().clone();
        let overlaps = |s: &&Snapshot| !s.groups.intersect(groups).is_empty();
        match self.fault {
            Fault::OpensNewest if !given.is_empty() && !newest.is_empty() => newest,
            Fault::BeginsWithNewest if given.is_empty() => newest,
            Fault::OpensOnePart => given.iter().filter(overlaps).take(1).cloned().collect(),
            // Partition by number instead of by groups: right until their number changes.
            Fault::OpensOtherParts => {
                given.iter().filter(|s| s.groups.start <= groups.start).cloned().collect()
            }
            _ => given.to_vec(),
        }
    }

    async fn names(&self) -> Result<Vec<(Path, u64)>> {
        let prefix = if self.fault == Fault::DeletesElsewhere { None } else { Some(root()) };
        let found: Vec<_> = self.store.list(prefix.as_ref()).try_collect().await?;
        let version = |path: &Path| path.filename()?.split('-').next()?.parse().ok();
        Ok(found
            .into_iter()
            .filter_map(|m| Some((m.location.clone(), version(&m.location)?)))
            .collect())
    }

    async fn delete(&self, doomed: impl Fn(&Path, u64) -> bool) -> Result<()> {
        for (path, version) in self.names().await? {
            if doomed(&path, version) {
                self.store.delete(&path).await?;
            }
        }
        Ok(())
    }

    /// Takes the objects of older versions away while it writes.
    async fn commit_moving(&self, sealed: Vec<SealedStore>) -> Result<Vec<Snapshot>> {
        let mut moved = Vec::new();
        for (path, _) in self.names().await? {
            moved.push((path.clone(), self.store.get(&path).await?.bytes().await?));
            self.store.delete(&path).await?;
        }
        let snapshots = self.honest.commit(sealed).await?;
        for (path, bytes) in moved {
            self.store.put(&path, bytes.into()).await?;
        }
        Ok(snapshots)
    }

    /// Acknowledges what may not be there.
    async fn commit_hoping(&self, sealed: Vec<SealedStore>) -> Result<Vec<Snapshot>> {
        let hoped = sealed.iter().map(|store| Snapshot {
            id: store.id.clone(),
            groups: store.groups,
            version: StateVersion(store.base.0 + 1),
            rows: store.rows,
            token: format!("{}-0-lost", store.base.0 + 1),
        });
        let hoped = hoped.collect();
        Ok(self.honest.commit(sealed).await.unwrap_or(hoped))
    }
}

#[async_trait]
impl StateBackend for Saboteur {
    fn format(&self) -> &str {
        "broken"
    }

    async fn open(
        &self,
        id: &StoreId,
        groups: KeyGroupRange,
        version: StateVersion,
        snapshots: &[Snapshot],
    ) -> Result<Box<dyn StateStore>> {
        let whole = KeyGroupRange { start: 0, end: 8 };
        let range = if self.fault == Fault::ShowsAllGroups { whole } else { groups };
        let chosen = self.chosen(snapshots, groups);
        let opened = match (self.honest.open(id, range, version, &chosen).await, self.fault) {
            (Err(error), Fault::DamageIsEmpty) if error.kind() == ErrorKind::Corrupt => {
                self.honest.open(id, range, version, &[]).await
            }
            (Err(error), Fault::GoneIsEmpty) if error.kind() == ErrorKind::NotFound => {
                self.honest.open(id, range, version, &[]).await
            }
            (Err(error), Fault::GoneIsDamage) if error.kind() == ErrorKind::NotFound => {
                Err(Error::corrupt("something is wrong"))
            }
            (opened, _) => opened,
        };
        let mut inner = opened?;
        if self.fault == Fault::DropKeeps {
            put(inner.as_mut(), &self.leaked.lock().unwrap());
        }
        let before = contents(inner.as_ref());
        let mut inner: Shared = Arc::new(Mutex::new(inner));
        if self.fault == Fault::SharesHandles {
            let mut opened = self.opened.lock().unwrap();
            inner = Arc::clone(opened.entry((id.clone(), version)).or_insert(inner));
        }
        Ok(Box::new(Broken {
            id: id.clone(),
            groups,
            version,
            inner,
            before,
            puts: Contents::new(),
            fault: self.fault,
            leaked: Arc::clone(&self.leaked),
        }))
    }

    async fn commit(&self, sealed: Vec<SealedStore>) -> Result<Vec<Snapshot>> {
        let mut snapshots = match self.fault {
            Fault::MovesTheBase => self.commit_moving(sealed).await?,
            Fault::AlwaysAcknowledges => self.commit_hoping(sealed).await?,
            _ => self.honest.commit(sealed).await?,
        };
        if self.fault == Fault::NamesOneAttempt {
            for snapshot in &mut snapshots {
                let token = format!("{}-0-{}", snapshot.version, snapshot.groups);
                let from = self.path(&snapshot.id, &snapshot.token);
                self.store.copy(&from, &self.path(&snapshot.id, &token)).await?;
                snapshot.token = token;
            }
        }
        self.newest.lock().unwrap().clone_from(&snapshots);
        Ok(snapshots)
    }

    async fn verify(&self, snapshots: &[Snapshot], report: &dyn Verification) -> Result<()> {
        match self.fault {
            Fault::VerifiesNothing => Ok(()),
            _ => fluvial_core::verify::verify_by_reading(self, snapshots, report).await,
        }
    }

    async fn retain(&self, live: &[Snapshot]) -> Result<()> {
        let kept: Vec<Path> = live.iter().map(|s| self.path(&s.id, &s.token)).collect();
        let oldest = live.iter().map(|s| s.version.0).min().unwrap_or(0);
        let newest = live.iter().map(|s| s.version.0).max().unwrap_or(0);
        match self.fault {
            Fault::DeletesNothing => Ok(()),
            Fault::DeletesAttempts => self.delete(|path, _| !kept.contains(path)).await,
            Fault::DeletesAllButNewest => self.delete(|_, version| version < newest).await,
            Fault::DeletesElsewhere => {
                self.delete(|path, version| version < oldest && !kept.contains(path)).await
            }
            _ => self.honest.retain(live).await,
        }
    }
}

/// A store of it.
struct Broken {
    id: StoreId,
    groups: KeyGroupRange,
    version: StateVersion,
    inner: Shared,
    before: Contents,
    puts: Contents,
    fault: Fault,
    leaked: Arc<Mutex<Contents>>,
}

impl Drop for Broken {
    fn drop(&mut self) {
        if self.fault == Fault::DropKeeps {
            self.leaked.lock().unwrap().append(&mut self.puts);
        }
    }
}

fn reversed(column: &BinaryArray) -> BinaryArray {
    let values: Vec<_> = column.iter().collect();
    values.into_iter().rev().collect()
}

#[async_trait]
impl StateStore for Broken {
    fn base(&self) -> StateVersion {
        self.version
    }

    fn groups(&self) -> KeyGroupRange {
        self.groups
    }

    async fn prefetch(&mut self, _: &Prefetch) -> Result<()> {
        Ok(())
    }

    fn get_many(&self, keys: &BinaryArray) -> Result<BinaryArray> {
        if self.fault == Fault::ReadsTheBase {
            let value = |key: Option<&[u8]>| self.before.get(key?).map(Vec::as_slice);
            return Ok(keys.iter().map(value).collect());
        }
        self.inner.lock().unwrap().get_many(keys)
    }

    fn scan(&self, range: &KeyRange, limit: usize) -> Result<Entries> {
        let limit = match self.fault {
            Fault::IgnoresLimits => usize::MAX,
            Fault::StopsShort if limit > 1 => limit - 1,
            _ => limit,
        };
        let Entries { keys, values } = self.inner.lock().unwrap().scan(range, limit)?;
        if self.fault == Fault::ScansBackwards {
            return Ok(Entries { keys: reversed(&keys), values: reversed(&values) });
        }
        Ok(Entries { keys, values })
    }

    fn scan_ranges(&self, ranges: &[KeyRange], limit: usize) -> Result<Entries> {
        if self.fault != Fault::LimitsEachRange {
            return self.inner.lock().unwrap().scan_ranges(ranges, limit);
        }
        let found: Vec<Entries> =
            ranges.iter().map(|range| self.scan(range, limit)).collect::<Result<_>>()?;
        Ok(Entries {
            keys: found.iter().flat_map(|entries| &entries.keys).collect(),
            values: found.iter().flat_map(|entries| &entries.values).collect(),
        })
    }

    fn put_many(&mut self, keys: &BinaryArray, values: &BinaryArray) -> Result<()> {
        let entries = || keys.iter().flatten().zip(values.iter().flatten());
        self.puts.extend(entries().map(|(key, value)| (key.to_vec(), value.to_vec())));
        let mut inner = self.inner.lock().unwrap();
        match self.fault {
            Fault::FirstWins => inner.put_many(&reversed(keys), &reversed(values)),
            Fault::SwallowsForeignKeys => {
                let own = |key: &[u8]| self.groups.contains(group_of(key));
                let entries = entries().filter(|(key, _)| own(key));
                put(inner.as_mut(), &entries.map(|(k, v)| (k.to_vec(), v.to_vec())).collect());
                Ok(())
            }
            _ => inner.put_many(keys, values),
        }
    }

    fn put_absent(&mut self, keys: &BinaryArray, values: &BinaryArray) -> Result<BooleanBuffer> {
        let mut inner = self.inner.lock().unwrap();
        match self.fault {
            Fault::LastStays => {
                inner.put_many(keys, values)?;
                Ok(BooleanBuffer::new_set(keys.len()))
            }
            _ => inner.put_absent(keys, values),
        }
    }

    fn get_new_many(&self, keys: &BinaryArray) -> Result<Option<BinaryArray>> {
        let found = self.inner.lock().unwrap().get_many(keys)?;
        let is_new =
            |key: &[u8]| self.fault == Fault::TakesAllForNew || !self.before.contains_key(key);
        let new =
            keys.iter().zip(&found).map(|(key, value)| value.filter(|_| is_new(key.unwrap())));
        Ok(Some(new.collect()))
    }

    fn take_many(&mut self, keys: &BinaryArray) -> Result<BinaryArray> {
        let mut inner = self.inner.lock().unwrap();
        match self.fault {
            Fault::TakesNothing => inner.get_many(keys),
            _ => inner.take_many(keys),
        }
    }

    fn delete_many(&mut self, keys: &BinaryArray) -> Result<()> {
        self.inner.lock().unwrap().delete_many(keys)
    }

    fn delete_range(&mut self, range: &KeyRange) -> Result<u64> {
        self.inner.lock().unwrap().delete_range(range)
    }

    fn size(&self) -> StoreSize {
        self.inner.lock().unwrap().size()
    }

    fn seal(mut self: Box<Self>) -> Result<SealedStore> {
        self.puts.clear();
        let mut inner = self.inner.lock().unwrap();
        let shown = contents(inner.as_ref());
        let rows = shown.len() as u64;
        let fresh = |contents: &Contents| -> Box<dyn StateStore> {
            Box::new(ModelStore::open(self.id.clone(), self.groups, self.version, contents))
        };
        match self.fault {
            // It may be open elsewhere.
            Fault::SharesHandles => return fresh(&shown).seal(),
            Fault::AlwaysWrites => drop(inner.delete_range(&KeyRange::all())?),
            Fault::Resurrects => put(inner.as_mut(), &self.before),
            _ => {}
        }
        if matches!(self.fault, Fault::AlwaysWrites | Fault::Resurrects) {
            put(inner.as_mut(), &shown);
        }
        let replacement = fresh(&Contents::new());
        let inner = std::mem::replace(&mut *inner, replacement);
        let mut sealed = inner.seal()?;
        sealed.groups = self.groups;
        sealed.rows = rows;
        Ok(sealed)
    }
}
