//! The state backends of Fluvial, over a folder that syncs.

use crate::Contestant;
use arrow::array::{Array, BinaryArray};
use fluvial_core::{
    KeyGroupCount, KeyRange, OperatorId, Prefetch, RunId, Snapshot, StateBackend, StateStore,
    StateVersion, StoreId, StoreName,
};
use fluvial_local_store::{Durability, DurableLocal};
use fluvial_state_memory::{MemoryBackend, Settings};
use futures::executor::block_on;
use object_store::ObjectStore;
use object_store::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

type Open = fn(Arc<dyn ObjectStore>, &std::path::Path, RunId) -> Arc<dyn StateBackend>;

/// Entries of one call to scan.
const PIECE: usize = 8192;

/// One store of a backend; a commit seals it, commits it and opens the next version.
pub(crate) struct Ours {
    folder: TempDir,
    open: Open,
    backend: Arc<dyn StateBackend>,
    id: StoreId,
    version: u64,
    snapshots: Vec<Snapshot>,
    /// Taken while a commit runs.
    store: Option<Box<dyn StateStore>>,
    runs: usize,
}

impl Ours {
    pub(crate) fn memory() -> Self {
        Self::new(|store, _, run| {
            Arc::new(MemoryBackend::new(store, Path::from("state"), run, Settings::default()))
        })
    }

    fn new(open: Open) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let backend = start(&folder, open, 0);
        let id = StoreId {
            operator: OperatorId::new("operator").expect("a name"),
            store: StoreName::new("default").expect("a name"),
        };
        let mut ours = Self {
            folder,
            open,
            backend,
            id,
            version: 0,
            snapshots: Vec::new(),
            store: None,
            runs: 1,
        };
        ours.open();
        ours
    }

    fn open(&mut self) {
        let groups = KeyGroupCount::DEFAULT.all();
        let version = StateVersion(self.version);
        let opened = self.backend.open(&self.id, groups, version, &self.snapshots);
        self.store = Some(block_on(opened).expect("the version opens"));
    }

    fn store(&mut self) -> &mut dyn StateStore {
        self.store.as_deref_mut().expect("a store is open between commits")
    }

    fn bring(&mut self, what: &Prefetch) {
        let store = self.store();
        if !store.is_local() {
            block_on(store.prefetch(what)).expect("it is there");
        }
    }
}

fn start(folder: &TempDir, open: Open, run: usize) -> Arc<dyn StateBackend> {
    let objects = folder.path().join("objects");
    let store = DurableLocal::open(objects, Durability::Synced).expect("a store");
    let run = RunId::new(format!("bench-{run}")).expect("an id");
    open(Arc::new(store), folder.path(), run)
}

impl Contestant for Ours {
    fn put(&mut self, keys: &BinaryArray, values: &BinaryArray) {
        self.store().put_many(keys, values).expect("it is written");
    }

    fn get(&mut self, keys: &BinaryArray) -> usize {
        self.bring(&Prefetch::Keys(keys.clone()));
        let found = self.store().get_many(keys).expect("it is read");
        found.len() - found.null_count()
    }

    fn scan(&mut self, range: &KeyRange) -> usize {
        self.bring(&Prefetch::Ranges(vec![range.clone()]));
        let (mut range, mut count) = (range.clone(), 0);
        loop {
            let entries = self.store().scan(&range, PIECE).expect("it is read");
            let found = entries.keys.len();
            count += found;
            if found < PIECE {
                return count;
            }
            range = range.after(entries.keys.value(found - 1));
        }
    }

    fn evict(&mut self, ranges: &[KeyRange]) {
        for range in ranges {
            self.store().delete_range(range).expect("it is removed");
        }
    }

    fn commit(&mut self) {
        let store = self.store.take().expect("a store is open between commits");
        let sealed = store.seal().expect("it seals");
        self.snapshots = block_on(self.backend.commit(vec![sealed])).expect("it commits");
        self.version += 1;
        self.open();
    }

    fn reopen(&mut self) {
        self.store = None;
        self.backend = start(&self.folder, self.open, self.runs);
        self.runs += 1;
        self.open();
    }
}
