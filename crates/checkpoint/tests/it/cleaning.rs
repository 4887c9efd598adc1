//! Cleaning up, and what the log costs.

use crate::world::{commit, log, plan, reopened, run_batches, write};
use fluvial_core::{BatchId, BatchLog, ErrorKind};
use fluvial_sim::{Disk, Op, block_on};

#[test]
fn nothing_is_listed_while_batches_run() {
    let disk = Disk::new();
    let process = disk.process();
    let log = log(&process);
    block_on(async {
        log.latest_plan().await.unwrap();
        log.latest_commit().await.unwrap();
        log.truncate_before(BatchId(0)).await.unwrap();
        let opened = process.steps() as usize;
        for batch in 0..20 {
            let before = process.steps() as usize;
            log.put_plan(&plan(batch, "r")).await.unwrap();
            log.put_commit(&commit(batch, "r", "r")).await.unwrap();
            let ops: Vec<Op> = process.calls()[before..].iter().map(|call| call.op).collect();
            assert_eq!(ops, [Op::Create, Op::Get, Op::Create, Op::Get], "one object each");
            log.truncate_before(BatchId(batch.saturating_sub(5))).await.unwrap();
        }
        let listed = process.calls()[opened..].iter().filter(|call| call.op == Op::List).count();
        assert_eq!(listed, 0);
    });
    assert_eq!(disk.paths_under("q/offsets/").len(), 6);
    assert_eq!(disk.paths_under("q/commits/").len(), 6);
}

/// Trap E4.
#[test]
fn the_mark_is_durable_before_anything_is_deleted() {
    let disk = Disk::new();
    block_on(write(&reopened(&disk), 0..9));
    let process = disk.process();
    block_on(log(&process).truncate_before(BatchId(5))).unwrap();
    let calls = process.calls();
    let marked = calls.iter().position(|call| call.path == "q/low-water" && call.op == Op::Create);
    let deleted = calls.iter().position(|call| call.op == Op::Delete);
    assert!(marked.unwrap() < deleted.unwrap());
}

#[test]
fn cleaning_again_costs_nothing() {
    let disk = Disk::new();
    block_on(write(&reopened(&disk), 0..9));
    let process = disk.process();
    let log = log(&process);
    block_on(log.truncate_before(BatchId(5))).unwrap();
    let steps = process.steps();
    block_on(log.truncate_before(BatchId(5))).unwrap();
    block_on(log.truncate_before(BatchId(2))).unwrap();
    assert_eq!(process.steps(), steps);
}

/// A run sleeps, others clean up behind it, it wakes up and finds its batch free.
/// Trap E4.
#[test]
fn a_sleeper_does_not_win_what_was_cleaned_up() {
    let disk = Disk::new();
    let sleeper = reopened(&disk);
    block_on(run_batches(&sleeper, "r", 3)).unwrap();
    block_on(run_batches(&reopened(&disk), "other", 12)).unwrap();
    assert!(!disk.paths().contains(&"q/offsets/3".to_owned()), "its batch is free");
    let error = block_on(sleeper.put_plan(&plan(3, "r"))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    assert_eq!(error.condition(), Some("CONCURRENT_RUN"));
    assert!(error.message().contains("checkpoint q"), "{error}");
    // What it left is nobody's newest, nobody's oldest, and goes away.
    let log = reopened(&disk);
    let commits = block_on(log.commits()).unwrap();
    assert_eq!(commits.first().unwrap().batch, BatchId(8));
    assert_eq!(block_on(log.latest_plan()).unwrap().unwrap().batch, BatchId(11));
    block_on(log.truncate_before(BatchId(9))).unwrap();
    assert!(!disk.paths().contains(&"q/offsets/3".to_owned()));
}

#[test]
fn commits_are_read_once() {
    let disk = Disk::new();
    block_on(write(&reopened(&disk), 0..9));
    let process = disk.process();
    let log = log(&process);
    assert_eq!(block_on(log.commits()).unwrap().len(), 9);
    let steps = process.steps();
    assert_eq!(block_on(log.commits()).unwrap().len(), 9);
    assert_eq!(process.steps(), steps + 1, "one listing");
    block_on(write(&reopened(&disk), 9..11));
    assert_eq!(block_on(log.commits()).unwrap().len(), 11, "other runs' commits are seen");
}
