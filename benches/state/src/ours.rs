//! The state backends of Fluvial, over a folder that syncs.

use crate::Contestant;
use arrow::array::{Array, BinaryArray};
use fluvial_core::{
    KeyGroupCount, KeyRange, OperatorId, Prefetch, RunId, Snapshot, StateBackend, StateStore,
    StateVersion, StoreId, StoreName,
};
use fluvial_local_store::{Durability, DurableLocal};
use fluvial_state_lsm::Lsm;
use fluvial_state_memory::MemoryBackend;
use futures::executor::block_on;
use futures::future::BoxFuture;
use object_store::ObjectStore;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tempfile::TempDir;

/// Entries of one call to scan.
const PIECE: usize = 8192;
/// Versions that are retained, as the engine does it by default.
const RETAINED: usize = 2;

/// Makes a backend over a store, for a run.
type Open = Box<dyn Fn(Arc<dyn ObjectStore>, RunId) -> Arc<dyn StateBackend>>;

/// One store of a backend; a commit seals it, commits it, opens the next version, and deletes what
/// no retained version needs.
pub(crate) struct Ours {
    folder: TempDir,
    open: Open,
    backend: Arc<dyn StateBackend>,
    id: StoreId,
    version: u64,
    retained: Vec<Vec<Snapshot>>,
    /// Taken while a commit runs.
    store: Option<Box<dyn StateStore>>,
    runs: usize,
}

/// Tasks that a thread of its own plays.
struct Worker {
    tasks: Sender<BoxFuture<'static, ()>>,
    waiting: Arc<AtomicUsize>,
}

static WORKER: LazyLock<Worker> = LazyLock::new(|| {
    let (tasks, played) = channel::<BoxFuture<'static, ()>>();
    let waiting = Arc::new(AtomicUsize::new(0));
    let left = Arc::clone(&waiting);
    std::thread::spawn(move || {
        for task in played {
            block_on(task);
            left.fetch_sub(1, Ordering::SeqCst);
        }
    });
    Worker { tasks, waiting }
});

/// The log-structured backend, which merges runs beside the batches.
pub(crate) fn lsm(
    store: Arc<dyn ObjectStore>,
    run: RunId,
    memory_bytes: u64,
) -> Arc<dyn StateBackend> {
    let settings = fluvial_state_lsm::Settings { memory_bytes, ..Default::default() };
    let root = object_store::path::Path::from("state");
    Arc::new(Lsm::with_spawn(store, root, run, settings, |task| {
        WORKER.waiting.fetch_add(1, Ordering::SeqCst);
        WORKER.tasks.send(task).expect("the worker lives");
    }))
}

impl Ours {
    pub(crate) fn memory() -> Self {
        Self::new(Box::new(|store, run| {
            let root = object_store::path::Path::from("state");
            Arc::new(MemoryBackend::new(store, root, run, Default::default()))
        }))
    }

    pub(crate) fn lsm(memory: u64) -> Self {
        Self::new(Box::new(move |store, run| lsm(store, run, memory)))
    }

    fn new(open: Open) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let backend = open(local(folder.path()), run(0));
        let (version, retained, store) = (0, Vec::new(), None);
        let mut ours = Self { folder, open, backend, id: id(), version, retained, store, runs: 1 };
        ours.open();
        ours
    }

    fn open(&mut self) {
        let groups = KeyGroupCount::DEFAULT.all();
        let snapshots = self.newest();
        let opened = self.backend.open(&self.id, groups, StateVersion(self.version), snapshots);
        self.store = Some(block_on(opened).expect("the version opens"));
    }

    fn newest(&self) -> &[Snapshot] {
        self.retained.last().map_or(&[], Vec::as_slice)
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

/// The store that all of them use.
pub(crate) fn id() -> StoreId {
    StoreId {
        operator: OperatorId::new("operator").expect("a name"),
        store: StoreName::new("default").expect("a name"),
    }
}

/// The id of a run.
pub(crate) fn run(number: usize) -> RunId {
    RunId::new(format!("bench-{number}")).expect("an id")
}

/// A folder as an object store.
pub(crate) fn local(folder: &Path) -> Arc<dyn ObjectStore> {
    let store = DurableLocal::open(folder.join("objects"), Durability::Synced);
    Arc::new(store.expect("a store"))
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

    fn evict(&mut self, ranges: &[KeyRange]) -> u64 {
        self.bring(&Prefetch::Ranges(ranges.to_vec()));
        self.store().delete_ranges(ranges).expect("it is removed")
    }

    fn commit(&mut self) {
        let store = self.store.take().expect("a store is open between commits");
        let sealed = store.seal().expect("it seals");
        let snapshots = block_on(self.backend.commit(vec![sealed])).expect("it commits");
        self.version += 1;
        self.retained.push(snapshots);
        if self.retained.len() > RETAINED {
            self.retained.remove(0);
            let live = self.retained.concat();
            block_on(self.backend.retain(&live)).expect("it is deleted");
        }
        self.open();
    }

    fn settle(&mut self) {
        while WORKER.waiting.load(Ordering::SeqCst) > 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn reopen(&mut self) {
        self.store = None;
        self.backend = (self.open)(local(self.folder.path()), run(self.runs));
        self.runs += 1;
        self.open();
    }

    fn folder(&self) -> Option<&Path> {
        Some(self.folder.path())
    }
}
