//! An example: counters with versions, on nothing of Fluvial but its log-structured state store.
//!
//! `fluvial-state-lsm` keeps sorted keys on an object store, commits what changed as one object, and
//! reads only the blocks that its keys need. What it leaves to its user is *which* commit counts:
//! [`StateBackend::commit`] gives snapshots, a few lines of text, and whoever has them can open that
//! version. Here they are kept as `heads/<version>`, which the store creates only if it is absent: of
//! two programs that count at the same time one wins, and the other counts again on top of it.
//!
//! ```
//! # use futures::executor::block_on;
//! # fn main() -> fluvial_core::Result<()> { block_on(async {
//! let store = std::sync::Arc::new(object_store::memory::InMemory::new());
//! let counters = own_store::Counters::new(store, fluvial_core::RunId::new("run-1")?)?;
//! let first = counters.add(&["/home", "/about", "/home"]).await?;
//! counters.add(&["/home"]).await?;
//! assert_eq!(counters.all(None).await?, [("/about".into(), 1), ("/home".into(), 3)]);
//! assert_eq!(counters.all(Some(first)).await?, [("/about".into(), 1), ("/home".into(), 2)]);
//! # Ok(()) }) }
//! ```

mod heads;

use arrow::array::{Array, BinaryArray};
use fluvial_core::{
    Error, KeyGroup, KeyGroupRange, KeyRange, OperatorId, Prefetch, Result, RunId, Snapshot,
    StateBackend, StateStore, StateVersion, StoreId, StoreName,
};
use fluvial_state_lsm::{Lsm, Settings};
use heads::Heads;
use object_store::ObjectStore;
use object_store::path::Path;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A stream has many key groups, so that its state can be cut into partitions. Here is one.
const GROUP: KeyGroup = KeyGroup(0);
const GROUPS: KeyGroupRange = KeyGroupRange { start: 0, end: 1 };
/// Counters that are read at once.
const PIECE: usize = 1000;

/// Named counters on an object store.
#[derive(Debug)]
pub struct Counters {
    backend: Lsm,
    heads: Heads,
    id: StoreId,
}

impl Counters {
    /// The counters in a store. No two programs may have the same `run`, ever.
    ///
    /// # Errors
    ///
    /// None but of names.
    pub fn new(objects: Arc<dyn ObjectStore>, run: RunId) -> Result<Self> {
        let settings = Settings { memory_bytes: 64 << 20, ..Settings::default() };
        let backend = Lsm::new(Arc::clone(&objects), Path::from("state"), run, settings);
        let id = StoreId { operator: OperatorId::new("counters")?, store: StoreName::new("all")? };
        Ok(Self { backend, heads: Heads::new(objects), id })
    }

    /// Counts each name once more, all or none of them; returns the version that has them.
    ///
    /// # Errors
    ///
    /// As of the object store.
    pub async fn add(&self, names: &[&str]) -> Result<StateVersion> {
        let mut times: BTreeMap<&str, u64> = BTreeMap::new();
        names.iter().for_each(|name| *times.entry(name).or_default() += 1);
        let keys = BinaryArray::from_iter_values(times.keys().map(|name| key(name)));
        loop {
            let (version, snapshots) = self.heads.newest().await?;
            let mut store = self.open(version, &snapshots).await?;
            store.prefetch(&Prefetch::Keys(keys.clone())).await?;
            let found = store.get_many(&keys)?;
            let sums = times.values().enumerate().map(|(row, more)| {
                let before = if found.is_null(row) { 0 } else { number(found.value(row))? };
                Ok((before + more).to_be_bytes())
            });
            let sums = sums.collect::<Result<Vec<_>>>()?;
            store.put_many(&keys, &BinaryArray::from_iter_values(sums))?;
            let snapshots = self.backend.commit(vec![store.seal()?]).await?;
            let next = StateVersion(version.0 + 1);
            // What a loser has committed is garbage that `keep` deletes.
            if self.heads.elect(next, &snapshots).await? {
                return Ok(next);
            }
        }
    }

    /// All counters in the order of their names, as they are or as they were.
    ///
    /// # Errors
    ///
    /// `NotFound` for a version that was never there or that is not kept any more.
    pub async fn all(&self, version: Option<StateVersion>) -> Result<Vec<(String, u64)>> {
        let (version, snapshots) = match version {
            None => self.heads.newest().await?,
            Some(version) => (version, self.heads.of(version).await?),
        };
        let mut store = self.open(version, &snapshots).await?;
        let mut range = KeyRange::all();
        store.prefetch(&Prefetch::Ranges(vec![range.clone()])).await?;
        let mut all = Vec::new();
        loop {
            let found = store.scan(&range, PIECE)?;
            for (key, value) in found.keys.iter().flatten().zip(found.values.iter().flatten()) {
                let name = String::from_utf8_lossy(&key[GROUP.prefix().len()..]);
                all.push((name.into_owned(), number(value)?));
            }
            if found.keys.len() < PIECE {
                return Ok(all);
            }
            range = range.after(found.keys.value(PIECE - 1));
        }
    }

    /// Deletes all versions but the newest ones, and what only they needed.
    ///
    /// # Errors
    ///
    /// As of the object store.
    pub async fn keep(&self, newest: usize) -> Result<()> {
        // First the names: what is named must be whole at any moment.
        let kept = self.heads.keep(newest).await?;
        self.backend.retain(&kept).await
    }

    async fn open(
        &self,
        version: StateVersion,
        snapshots: &[Snapshot],
    ) -> Result<Box<dyn StateStore>> {
        self.backend.open(&self.id, GROUPS, version, snapshots).await
    }
}

/// A key begins with its group.
fn key(name: &str) -> Vec<u8> {
    [&GROUP.prefix()[..], name.as_bytes()].concat()
}

fn number(value: &[u8]) -> Result<u64> {
    let bytes = value.try_into().map_err(|_| Error::corrupt("a counter has eight bytes"))?;
    Ok(u64::from_be_bytes(bytes))
}
