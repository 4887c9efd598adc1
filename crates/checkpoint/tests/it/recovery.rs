//! Wherever a run dies, the next one goes on from there.

use crate::world::{assert_whole, log, plan, reopened, run_batches, where_it_stands, write};
use crate::world::{commit, next};
use fluvial_core::protocol::Resume;
use fluvial_core::{BatchId, BatchLog, ErrorKind};
use fluvial_sim::{CrashAt, Disk, Flaky, Rng, Task, block_on, interleave, run};
use std::collections::BTreeSet;

const BATCHES: u64 = 6;

/// Every crash point of a run, and then every crash point of the run after it, in part: all
/// pairs of logs that can be left behind are resumed, and the end is that of a run without
/// crashes.
#[test]
fn every_crash_point_is_recovered_from() {
    let clean = Disk::new().process();
    block_on(run_batches(&log(&clean), "clean", BATCHES)).unwrap();
    let mut pairs = BTreeSet::new();
    for first in CrashAt::each(clean.steps()) {
        let disk = Disk::new();
        let process = disk.mortal(first);
        assert!(run(&process, run_batches(&log(&process), "a", BATCHES)).is_none());
        pairs.insert(newest(&disk));
        for second in CrashAt::each(9) {
            let disk = disk.fork();
            let process = disk.mortal(second);
            if let Some(ended) = run(&process, run_batches(&log(&process), "b", BATCHES)) {
                ended.unwrap();
            }
            pairs.insert(newest(&disk));
            block_on(run_batches(&reopened(&disk), "c", BATCHES)).unwrap();
            let what = format!("{first:?} {second:?}");
            block_on(assert_whole(&reopened(&disk), BATCHES, &what));
        }
    }
    let reachable: BTreeSet<_> = (0..=BATCHES)
        .flat_map(|commits| [(commits, commits), (commits + 1, commits)])
        .filter(|(plans, _)| *plans <= BATCHES)
        .collect();
    assert_eq!(pairs, reachable, "every reachable pair was met, and no other");
}

/// How many batches were planned and committed.
fn newest(disk: &Disk) -> (u64, u64) {
    let log = reopened(disk);
    let plans = block_on(log.latest_plan()).unwrap().map_or(0, |plan| plan.batch.0 + 1);
    let commits = block_on(log.latest_commit()).unwrap().map_or(0, |commit| commit.batch.0 + 1);
    (plans, commits)
}

#[test]
fn a_flaky_store_changes_nothing() {
    for seed in 0..60 {
        let disk = Disk::new();
        let process = disk.flaky(Flaky::new(seed, 20), None);
        let what = format!("seed {seed}");
        block_on(run_batches(&log(&process), "a", BATCHES)).expect(&what);
        block_on(assert_whole(&reopened(&disk), BATCHES, &what));
    }
}

/// Several runs at once: each ends, is fenced, or dies; the log is whole in any case.
#[test]
fn several_runs_at_once_leave_a_whole_log() {
    for seed in 0..150 {
        let mut rng = Rng::new(seed);
        let disk = Disk::new();
        let tasks: Vec<Task<'_, fluvial_core::Result<()>>> = ["a", "b", "c"]
            .into_iter()
            .map(|name| {
                let points: Vec<_> = CrashAt::each(60).collect();
                let crash = rng.chance(50).then(|| points[rng.index(points.len())]);
                let process = disk.mortal(crash);
                let own = log(&process);
                let future = async move { run_batches(&own, name, BATCHES).await };
                (process, Box::pin(future) as _)
            })
            .collect();
        for ended in interleave(&mut rng, tasks).into_iter().flatten() {
            if let Err(error) = ended {
                assert_eq!(error.kind(), ErrorKind::Fenced, "seed {seed}: {error}");
            }
        }
        let what = format!("seed {seed}");
        block_on(run_batches(&reopened(&disk), "last", BATCHES)).expect(&what);
        block_on(assert_whole(&reopened(&disk), BATCHES, &what));
    }
}

/// The table of what a start finds: offsets, commits, and what becomes of it.
/// Trap E1.
#[test]
fn gaps_are_named_and_never_guessed() {
    let build = |plans: &[u64], commits: &[u64]| {
        let disk = Disk::new();
        let log = reopened(&disk);
        block_on(async {
            for batch in plans {
                log.put_plan(&plan(*batch, "r")).await.unwrap();
            }
            for batch in commits {
                log.put_commit(&commit(*batch, "r", "r")).await.unwrap();
            }
        });
        block_on(where_it_stands(&reopened(&disk)))
    };
    assert_eq!(next(build(&[0, 1, 2, 3], &[0, 1, 2, 3]).unwrap()), (4, None));
    assert_eq!(next(build(&[0, 1, 2, 3], &[0, 1, 2]).unwrap()), (3, Some(plan(3, "r"))));
    for (plans, commits) in
        [(&[0, 1, 2, 3][..], &[0, 1][..]), (&[1, 3], &[1]), (&[0, 1, 2], &[0, 1, 2, 3])]
    {
        let error = build(plans, commits).unwrap_err();
        assert_eq!(error.condition(), Some("CHECKPOINT_LOGS_INCONSISTENT"), "{error}");
    }
}

/// Trap E12.
#[test]
fn a_checkpoint_is_found_again_wherever_it_was_opened_from() {
    let disk = Disk::new();
    block_on(run_batches(&reopened(&disk), "monday", 2)).unwrap();
    let stands = block_on(where_it_stands(&reopened(&disk))).unwrap();
    assert!(matches!(stands, Resume::Next { commit, .. } if commit.batch == BatchId(1)));
    assert!(disk.paths().iter().all(|path| !path.contains("monday")), "{:?}", disk.paths());
}

#[test]
fn a_lost_query_id_is_not_replaced() {
    let disk = Disk::new();
    block_on(run_batches(&reopened(&disk), "a", 1)).unwrap();
    disk.remove("q/metadata");
    let error = block_on(run_batches(&reopened(&disk), "b", 2)).unwrap_err();
    assert_eq!(error.condition(), Some("CHECKPOINT_METADATA_MISSING"), "{error}");
    assert!(!disk.paths().contains(&"q/metadata".to_owned()));
}

#[test]
fn a_cut_query_id_is_said_to_be_cut() {
    let disk = Disk::new();
    block_on(run_batches(&reopened(&disk), "a", 1)).unwrap();
    let whole = disk.read("q/metadata").unwrap();
    disk.write("q/metadata", whole.slice(..whole.len() / 2));
    let error = block_on(run_batches(&reopened(&disk), "b", 2)).unwrap_err();
    assert_eq!(error.condition(), Some("CHECKPOINT_ENTRY_CORRUPT"), "{error}");
    assert!(error.message().contains("cut off"), "{error}");
}

#[test]
fn an_entry_in_the_place_of_another_is_refused() {
    let disk = Disk::new();
    block_on(write(&reopened(&disk), 0..2));
    disk.write("q/commits/1", disk.read("q/commits/0").unwrap());
    let error = block_on(reopened(&disk).latest_commit()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.message().contains("q/commits/1"), "{error}");
}
