//! Random histories: batches, restarts, other numbers of partitions, old versions, retention; of both
//! backends, against a map and against each other.

use crate::world::{Version, batch, below, show};
use crate::{backend, tiny};
use fluvial_core::{RunId, StateBackend};
use fluvial_sim::{Disk, Rng, block_on};
use fluvial_state_lsm::{Lsm, Settings};
use fluvial_state_memory::MemoryBackend;
use futures::future::BoxFuture;
use object_store::ObjectStore;
use object_store::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// `FLUVIAL_HISTORIES` plays more of them.
fn histories() -> u64 {
    std::env::var("FLUVIAL_HISTORIES").ok().and_then(|n| n.parse().ok()).unwrap_or(10_000)
}

fn new_run() -> RunId {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    RunId::new(format!("history-{}", RUNS.fetch_add(1, Ordering::Relaxed))).unwrap()
}

/// Settings as different as can be, so that each history takes another way.
fn settings(rng: &mut Rng) -> Settings {
    match below(rng, 3) {
        0 => tiny(),
        1 => Settings { fanout: 3, block_bytes: 64, ..tiny() },
        _ => Settings { fanout: 2, ..Settings::default() },
    }
}

fn memory(store: Arc<dyn ObjectStore>, deltas_max: usize) -> MemoryBackend {
    let settings = fluvial_state_memory::Settings { deltas_max, ..Default::default() };
    MemoryBackend::new(store, Path::from("m"), new_run(), settings)
}

/// Makes the backend of a process.
type Make<'a> = &'a dyn Fn(Arc<dyn ObjectStore>) -> Box<dyn StateBackend>;

/// Plays one history.
async fn play(rng: &mut Rng, make: Make<'_>) {
    let disk = Disk::new();
    let mut backend = make(disk.process().store());
    let mut versions = vec![Version::genesis()];
    for _ in 0..1 + below(rng, 4) {
        if rng.chance(20) {
            backend = make(disk.process().store());
        }
        // Mostly the newest; at times the same batch again, or an old version.
        let back = if rng.chance(15) { below(rng, versions.len()) } else { 0 };
        let base = versions[versions.len() - 1 - back].clone();
        versions.push(batch(rng, backend.as_ref(), &base, 3).await);
        if rng.chance(10) {
            retain(rng, backend.as_ref(), &mut versions).await;
        }
    }
    let at = below(rng, versions.len());
    assert_eq!(show(backend.as_ref(), &versions[at]).await, versions[at].contents);
    let later = make(disk.process().store());
    let at = below(rng, versions.len());
    for version in [&versions[at], &versions[versions.len() - 1]] {
        assert_eq!(show(later.as_ref(), version).await, version.contents);
    }
}

/// Says at which seed it went wrong.
fn with_seed(seed: u64, history: impl FnOnce()) {
    let played = std::panic::catch_unwind(std::panic::AssertUnwindSafe(history));
    assert!(played.is_ok(), "seed {seed}");
}

#[test]
fn ten_thousand_histories_are_as_a_map_says() {
    for seed in 0..histories() {
        let mut rng = Rng::new(seed);
        let settings = settings(&mut rng);
        let make: Make<'_> = &|store| Box::new(backend(store, settings.clone()));
        with_seed(seed, || block_on(play(&mut rng, make)));
    }
}

#[test]
fn ten_thousand_histories_in_memory_are_as_a_map_says() {
    for seed in 0..histories() {
        let mut rng = Rng::new(seed);
        let deltas_max = [0, 1, 24][below(&mut rng, 3)];
        let make: Make<'_> = &|store| Box::new(memory(store, deltas_max));
        with_seed(seed, || block_on(play(&mut rng, make)));
    }
}

/// The newest version and another one stay.
async fn retain(rng: &mut Rng, backend: &dyn StateBackend, versions: &mut Vec<Version>) {
    let kept = [versions.len() - 1, below(rng, versions.len())];
    let live: Vec<_> = kept.iter().flat_map(|at| versions[*at].snapshots.clone()).collect();
    let Some(oldest) = live.iter().map(|snapshot| snapshot.version.0).min() else { return };
    backend.retain(&live).await.unwrap();
    // Attempts newer than the oldest live one may be in flight, over what is still there.
    let mut there = vec![0];
    let mut at = 0;
    versions.retain(|version| {
        at += 1;
        let in_flight = version.number >= oldest && there.contains(&version.parent);
        let stays = kept.contains(&(at - 1)) || in_flight || version.number == 0;
        if stays {
            there.push(version.attempt);
        }
        stays
    });
}

type Tasks = Arc<Mutex<Vec<BoxFuture<'static, ()>>>>;

/// A backend whose merging waits in `tasks`.
fn beside(store: Arc<dyn ObjectStore>, settings: Settings, tasks: &Tasks) -> Lsm {
    let queue = Arc::clone(tasks);
    Lsm::with_spawn(store, Path::from("l"), new_run(), settings, move |task| {
        queue.lock().unwrap().push(task);
    })
}

/// Long lives of both backends side by side: reopened, merged by commits or beside them, cleaned up,
/// read at old versions.
#[test]
fn it_and_the_memory_backend_agree_over_long_lives() {
    for seed in 0..16 {
        with_seed(seed, || block_on(live(seed)));
    }
}

async fn live(seed: u64) {
    let mut rng = Rng::new(1_000_000 + seed);
    let settings = settings(&mut rng);
    let (disk, other, tasks) = (Disk::new(), Disk::new(), Tasks::default());
    let make = || -> Box<dyn StateBackend> {
        match seed % 2 {
            0 => Box::new(backend(disk.process().store(), settings.clone())),
            _ => Box::new(beside(disk.process().store(), settings.clone(), &tasks)),
        }
    };
    let (mut lsm, mut memory_backend) = (make(), memory(other.process().store(), 5));
    let (mut ours, mut theirs) = (vec![Version::genesis()], vec![Version::genesis()]);
    for round in 0..60 {
        // One sequence of calls for both.
        let calls = Rng::new(seed * 1000 + round);
        let (last, theirs_last) = (ours[ours.len() - 1].clone(), theirs[theirs.len() - 1].clone());
        ours.push(batch(&mut calls.clone(), lsm.as_ref(), &last, 12).await);
        theirs.push(batch(&mut calls.clone(), &memory_backend, &theirs_last, 12).await);
        if rng.chance(50) {
            let due = std::mem::take(&mut *tasks.lock().unwrap());
            for task in due {
                task.await;
            }
        }
        if rng.chance(20) {
            lsm = make();
        }
        if rng.chance(20) {
            memory_backend = memory(other.process().store(), 5);
        }
        if rng.chance(15) {
            // The newest ten stay.
            let memory: &dyn StateBackend = &memory_backend;
            for (backend, versions) in [(lsm.as_ref(), &mut ours), (memory, &mut theirs)] {
                versions.drain(..versions.len().saturating_sub(10));
                let live: Vec<_> = versions.iter().flat_map(|v| v.snapshots.clone()).collect();
                backend.retain(&live).await.unwrap();
            }
        }
        let at = below(&mut rng, ours.len());
        let (shown, expected) = (&ours[at], &theirs[at]);
        assert_eq!(shown.contents, expected.contents);
        assert_eq!(show(lsm.as_ref(), shown).await, shown.contents);
        assert_eq!(show(&memory_backend, expected).await, expected.contents);
    }
}
