//! The same promises over the real state backend, which keeps versions in memory and writes
//! deltas: what it remembers must never outlive what was committed.

use crate::explore::{Scenario, every_crash_point, many_crashes, zombies};
use crate::parts::query::Parts;
use crate::scenarios::{build_dedup, build_windows, expect_dedup, expect_windows};
use crate::world::{go, newest};
use fluvial_core::RunId;
use fluvial_sim::Disk;
use fluvial_state_memory::{MemoryBackend, Settings};
use object_store::ObjectStore;
use object_store::path::Path;
use std::sync::Arc;

/// Few deltas, so that full snapshots and chains both occur; three commits are retained.
fn over_memory(store: Arc<dyn ObjectStore>, parts: Parts) -> Parts {
    let run = RunId::new(parts.run.as_str()).unwrap();
    let settings = Settings { deltas_max: 2, ..Settings::default() };
    let state = MemoryBackend::new(store, Path::from("checkpoint/state"), run, settings);
    Parts { state: Arc::new(state), ..parts }
}

fn windows(store: Arc<dyn ObjectStore>, incarnation: u64) -> Parts {
    over_memory(Arc::clone(&store), build_windows(store, incarnation))
}

fn dedup(store: Arc<dyn ObjectStore>, incarnation: u64) -> Parts {
    over_memory(Arc::clone(&store), build_dedup(store, incarnation))
}

/// Trap E18.
#[test]
fn windows_survive_every_crash_point() {
    let scenario = Scenario { build: &windows, expected: expect_windows() };
    every_crash_point(&scenario).expect("exactly once");
}

#[test]
fn windows_survive_many_crashes() {
    many_crashes(&Scenario { build: &windows, expected: expect_windows() }, 0..80)
        .expect("exactly once");
}

#[test]
fn dedup_survives_zombies() {
    zombies(&Scenario { build: &dedup, expected: expect_dedup() }, 0..80).expect("exactly once");
}

#[test]
fn windows_survive_zombies() {
    zombies(&Scenario { build: &windows, expected: expect_windows() }, 0..80)
        .expect("exactly once");
}

/// One state object per store and batch, however many partitions.
#[test]
fn the_state_of_all_partitions_is_one_object_per_batch() {
    let disk = Disk::new();
    let mut parts = windows(disk.process().store(), 0);
    parts.settings.partitions = 8;
    parts.retention.batches = 1000;
    parts.retention.age = std::time::Duration::from_secs(3600);
    go(&parts);
    let batches = newest(&disk).batch.0 + 1;
    let objects = disk.paths_under("checkpoint/state");
    assert!(objects.len() as u64 <= batches, "{objects:?}");
}
