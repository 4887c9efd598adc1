//! What is dropped, and when.

use crate::parts::around::state_around;
use crate::parts::query::Parts;
use crate::parts::sink::visible;
use crate::parts::source::Script;
use crate::scenarios::{build_windows, expect_windows};
use crate::world::{commit, go, newest, parts, plan};
use fluvial_checkpoint::Retention;
use fluvial_core::{
    BatchId, Error, KeyGroupRange, Result, Snapshot, StateBackend, StateStore, StateVersion,
    StoreId,
};
use fluvial_engine::{Engine, Unobserved};
use fluvial_sim::{Disk, block_on};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

fn keep(parts: Parts, batches: usize, age: Duration) -> Parts {
    Parts { retention: Retention { batches, age }, ..parts }
}

/// Trap E5.
#[test]
fn what_no_retained_commit_names_is_dropped() {
    let rows: Vec<_> = (0..12).map(|i| (i, i)).collect();
    let (disk, source) = (Disk::new(), Script::new(&rows));
    go(&keep(parts(&disk, "first", &source.limited(1)), 3, Duration::ZERO));
    let last = newest(&disk).batch.0;
    let kept: Vec<_> = (0..=last).filter(|n| commit(&disk, *n).is_some()).collect();
    assert_eq!(kept, [last - 2, last - 1, last]);
    assert!(plan(&disk, last - 3).is_none() && plan(&disk, last - 2).is_some());
    let named: BTreeSet<_> = kept
        .iter()
        .flat_map(|n| commit(&disk, *n).unwrap().snapshots)
        .map(|snapshot| snapshot.token)
        .collect();
    assert_eq!(disk.paths_under("state").into_iter().collect::<BTreeSet<_>>(), named);
}

#[test]
fn sources_are_released_only_up_to_the_oldest_retained_commit() {
    let rows: Vec<_> = (0..8).map(|i| (i, i)).collect();
    let (disk, source) = (Disk::new(), Script::new(&rows));
    let mut parts = keep(parts(&disk, "first", &source.limited(1)), 3, Duration::ZERO);
    parts.what = crate::parts::query::What::Copy;
    go(&parts);
    // Batch n ends at row n + 1; of 0..=7 the commits 5, 6 and 7 stay.
    assert_eq!(source.with(|shared| shared.released.clone()), [1, 2, 3, 4, 5]);
}

#[test]
fn young_commits_stay_however_many() {
    let rows: Vec<_> = (0..8).map(|i| (i, i)).collect();
    let (disk, source) = (Disk::new(), Script::new(&rows));
    let parts = keep(parts(&disk, "first", &source.limited(1)), 2, Duration::from_secs(60));
    go(&parts);
    assert!(commit(&disk, 0).is_some());
    parts.clock.advance(Duration::from_secs(100));
    source.push(&[(9, 9)]);
    go(&Parts { run: "second".into(), ..parts });
    assert!(commit(&disk, 0).is_none(), "those of an earlier run are known, too");
    assert!(commit(&disk, newest(&disk).batch.0 - 1).is_some());
}

/// Trap E9.
#[test]
fn the_newest_two_commits_stay_whatever_the_rules_say() {
    let rows: Vec<_> = (0..6).map(|i| (i, i)).collect();
    let (disk, source) = (Disk::new(), Script::new(&rows));
    let mut spec = parts(&disk, "first", &source.limited(1)).spec();
    spec.environment.rules.retain_from = Arc::new(|_, _| BatchId(u64::MAX));
    let engine = block_on(Engine::open(spec, Arc::new(Unobserved))).unwrap();
    let query = engine.query();
    block_on(engine.run());
    assert!(query.exception().is_none() && query.warnings().is_empty());
    let last = newest(&disk);
    let before = commit(&disk, last.batch.0 - 1).unwrap();
    for snapshot in last.snapshots.iter().chain(&before.snapshots) {
        assert!(disk.read(&snapshot.token).is_some(), "{}", snapshot.token);
    }
    assert_eq!(disk.paths_under("state").len(), 4, "and nothing else");
}

/// Cannot delete.
struct Protected(Arc<dyn StateBackend>);

state_around!(Protected, 0, {
    async fn open(
        &self,
        id: &StoreId,
        groups: KeyGroupRange,
        version: StateVersion,
        snapshots: &[Snapshot],
    ) -> Result<Box<dyn StateStore>> {
        self.0.open(id, groups, version, snapshots).await
    }
    async fn retain(&self, _: &[Snapshot]) -> Result<()> {
        Err(Error::invalid("not allowed to delete"))
    }
});

#[test]
fn a_failure_to_clean_up_is_a_warning() {
    let disk = Disk::new();
    let mut parts = build_windows(disk.process().store(), 0);
    parts.state = Arc::new(Protected(Arc::clone(&parts.state)));
    let query = go(&parts);
    assert!(query.warnings().iter().all(|w| w == "retention: not allowed to delete"));
    assert!(!query.warnings().is_empty());
    let mut seen = visible(&disk);
    seen.sort();
    assert_eq!(seen, expect_windows());
}

/// The fixed cost of a batch: nothing is listed while batches run.
#[test]
fn a_batch_lists_nothing_and_writes_one_plan_and_one_commit() {
    use fluvial_sim::Op;
    let rows: Vec<_> = (0..6).map(|i| (i, i)).collect();
    let (disk, source) = (Disk::new(), Script::new(&rows));
    let process = disk.process();
    let mut parts = Parts::on(process.store(), "first", &source.limited(1));
    parts.what = crate::parts::query::What::Copy;
    parts.retention = Retention { batches: 1000, age: Duration::from_secs(3600) };
    go(&parts);
    let calls = process.calls();
    let began = |batch: u64| {
        let path = format!("checkpoint/offsets/{batch}");
        calls.iter().position(|call| call.op == Op::Create && call.path == path).unwrap()
    };
    // The first batches are past: what earlier runs left has been listed once.
    let one = &calls[began(4)..began(5)];
    let paths: Vec<_> = one.iter().map(|call| (call.op, call.path.as_str())).collect();
    assert!(one.iter().all(|call| call.op != Op::List), "{paths:?}");
    let created: Vec<_> =
        paths.iter().filter(|(op, _)| *op == Op::Create).map(|(_, path)| *path).collect();
    assert_eq!(created, ["checkpoint/offsets/4", "out/4", "checkpoint/commits/4"]);
    assert!(one.len() <= 8, "{paths:?}");
}
