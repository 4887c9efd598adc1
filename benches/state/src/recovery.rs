//! From the start of a process on a new machine to its first batch, over a store far away.

use crate::keys::{Keys, values};
use crate::measure::Figure;
use crate::ours::{id, local, lsm, run};
use crate::process::files;
use crate::throttled::{Line, Throttled};
use arrow::array::{Array, BinaryArray};
use fluvial_core::{KeyGroupCount, Prefetch, Snapshot, StateBackend, StateVersion};
use object_store::ObjectStore;
use std::sync::Arc;
use std::time::Instant;

/// Keys of a commit while the state is made.
const LOAD: usize = 100_000;
/// Downloads in flight when a snapshot is fetched whole.
const PARALLEL: u64 = 16;

/// Reads of the first batch.
fn batches(keys: Keys) -> [(&'static str, BinaryArray); 3] {
    [
        ("first batch of 10 k keys of the newest window", keys.recent(10_000, 1)),
        ("first batch of 1 k keys from anywhere", keys.random(1_000, 1)),
        ("first batch of 10 k keys from anywhere", keys.random(10_000, 1)),
    ]
}

/// Opens a state of so many keys through a throttled line, and compares with downloading all of it.
pub fn recovery(keys: Keys, memory: u64) -> Vec<Figure> {
    let folder = tempfile::tempdir().expect("a folder");
    let near = local(folder.path());
    let (version, snapshots) =
        futures::executor::block_on(load(lsm(Arc::clone(&near), run(0), memory), keys));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime");
    let mut figures = Vec::new();
    let mut add = |what: &str, start: Instant| {
        let value = start.elapsed().as_secs_f64();
        eprintln!("  {what}: {value:.3} s");
        figures.push(Figure { what: what.into(), unit: "s".into(), value });
    };
    for (number, (what, asked)) in batches(keys).into_iter().enumerate() {
        let far = Arc::new(Throttled { inner: Arc::clone(&near), line: Line::default() });
        let start = Instant::now();
        runtime.block_on(async {
            let far: Arc<dyn ObjectStore> = far;
            let backend = lsm(far, run(number + 1), memory);
            let groups = KeyGroupCount::DEFAULT.all();
            let opened = backend.open(&id(), groups, StateVersion(version), &snapshots).await;
            let mut store = opened.expect("it opens");
            store.prefetch(&Prefetch::Keys(asked.clone())).await.expect("it is fetched");
            let found = store.get_many(&asked).expect("it is read");
            assert_eq!(found.null_count(), 0);
        });
        add(what, start);
    }
    // A whole snapshot of the same bytes, as a store that cannot read a part of it must fetch it.
    let bytes = files(folder.path());
    let start = Instant::now();
    runtime.block_on(async {
        let line = Line::default();
        let parts = (0..PARALLEL).map(|_| line.carry(bytes / PARALLEL));
        futures::future::join_all(parts).await;
    });
    add("download of the whole snapshot", start);
    figures
}

async fn load(backend: Arc<dyn StateBackend>, keys: Keys) -> (u64, Vec<Snapshot>) {
    let groups = KeyGroupCount::DEFAULT.all();
    let (mut version, mut snapshots) = (0, Vec::new());
    for batch in keys.all(LOAD) {
        let opened = backend.open(&id(), groups, StateVersion(version), &snapshots).await;
        let mut store = opened.expect("it opens");
        store.put_many(&batch, &values(batch.len(), version)).expect("it is written");
        let sealed = store.seal().expect("it seals");
        snapshots = backend.commit(vec![sealed]).await.expect("it commits");
        backend.retain(&snapshots).await.expect("it is deleted");
        version += 1;
    }
    (version, snapshots)
}
