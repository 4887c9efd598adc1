//! What plain readers of the folder see, and what zombies of long ago can do.

use crate::files::{numbers, opened, options, publish, read_numbers};
use fluvial_core::{BatchId, CommitOutcome, Note, PartitionId, Sink};
use fluvial_sim::{CrashAt, Disk, Op, block_on, run};

/// Files that a plain listing shows, by batch.
fn listed(disk: &Disk) -> Vec<u64> {
    let visible = disk.paths().into_iter().filter(|path| !path.contains("/_"));
    let batch = |path: String| path.rsplit('-').nth(1).unwrap().parse().unwrap();
    visible.map(batch).collect()
}

#[test]
fn a_listing_never_shows_unpublished_files_and_is_whole_after_the_next_start() {
    let whole = Disk::new();
    let two_batches = |disk: &Disk, crash| {
        let process = disk.mortal(crash);
        let store = process.store();
        let work = async {
            let (sink, _) = opened(&store, options(), "first", &numbers(&[])).await.unwrap();
            for batch in 0..2 {
                publish(&sink, batch, &[numbers(&[1, 2]), numbers(&[3])]).await.unwrap();
            }
        };
        run(&process, work);
        process.steps()
    };
    let steps = two_batches(&whole, None);
    assert_eq!(listed(&whole), [0, 1, 0, 1]);
    for crash in CrashAt::each(steps) {
        let disk = Disk::new();
        two_batches(&disk, Some(crash));
        let manifests = disk.paths_under("out/_fluvial/commits/").len() as u64;
        let shown = listed(&disk);
        assert!(shown.iter().all(|batch| *batch < manifests), "{crash:?}: {shown:?}");
        let whole = shown.iter().filter(|batch| **batch + 1 < manifests).count() as u64;
        assert_eq!(whole, 2 * manifests.saturating_sub(1), "{crash:?}: {shown:?}");
        let store = disk.process().store();
        let (_, last) = block_on(opened(&store, options(), "second", &numbers(&[]))).unwrap();
        assert_eq!(last.map_or(0, |last| last.0 + 1), manifests, "{crash:?}");
        assert_eq!(listed(&disk).len() as u64, 2 * manifests, "{crash:?}");
    }
}

#[test]
fn a_start_removes_what_nobody_can_publish_and_nothing_else() {
    let disk = Disk::new();
    let store = disk.process().store();
    block_on(async {
        let rows = numbers(&[]);
        let (first, _) = opened(&store, options(), "first", &rows).await.unwrap();
        let (second, _) = opened(&store, options(), "second", &rows).await.unwrap();
        publish(&first, 0, &[numbers(&[1])]).await.unwrap();
        publish(&second, 0, &[numbers(&[2])]).await.unwrap();
        // Staged by a run that may still be alive.
        let mut writer = second.writer(BatchId(1), PartitionId(0)).await.unwrap();
        writer.write(numbers(&[3])).await.unwrap();
        let staged = vec![writer.stage().await.unwrap()];
        opened(&store, options(), "third", &rows).await.unwrap();
        let left = disk.paths_under("out/_fluvial/staged/");
        assert_eq!(left, ["out/_fluvial/staged/second/1-0-0.snappy.parquet"]);
        let outcome = second.commit(BatchId(1), staged, &Note("n".into())).await.unwrap();
        assert_eq!(outcome, CommitOutcome::Committed);
        assert_eq!(read_numbers(&store).await.unwrap(), [1, 3]);
    });
}

#[test]
fn manifests_are_few_and_a_zombie_cannot_publish_a_forgotten_batch() {
    let disk = Disk::new();
    let store = disk.process().store();
    block_on(async {
        let rows = numbers(&[]);
        let (zombie, _) = opened(&store, options(), "zombie", &rows).await.unwrap();
        let (sink, _) = opened(&store, options(), "sink", &rows).await.unwrap();
        for batch in 0..9 {
            publish(&sink, batch, &[numbers(&[batch as i64])]).await.unwrap();
        }
        assert_eq!(disk.paths_under("out/_fluvial/commits/"), ["out/_fluvial/commits/8"]);
        let before = read_numbers(&store).await.unwrap();
        for batch in 0..8 {
            let outcome = publish(&zombie, batch, &[numbers(&[100])]).await.unwrap();
            assert_eq!(outcome, CommitOutcome::AlreadyCommitted(None), "batch {batch}");
        }
        assert_eq!(read_numbers(&store).await.unwrap(), before);
        assert_eq!(disk.paths_under("out/_fluvial/commits/"), ["out/_fluvial/commits/8"]);
    });
}

#[test]
fn output_that_its_owner_removed_is_not_missed() {
    let disk = Disk::new();
    let store = disk.process().store();
    block_on(async {
        let (sink, _) = opened(&store, options(), "first", &numbers(&[])).await.unwrap();
        publish(&sink, 0, &[numbers(&[1])]).await.unwrap();
        for path in disk.paths_under("out/part-") {
            disk.remove(&path);
        }
        let (sink, last) = opened(&store, options(), "second", &numbers(&[])).await.unwrap();
        assert_eq!(last.map(|last| last.0), Some(0));
        publish(&sink, 1, &[numbers(&[2])]).await.unwrap();
        assert_eq!(read_numbers(&store).await.unwrap(), [2]);
    });
}

#[test]
fn a_batch_costs_one_put_and_one_move_per_file_and_one_manifest() {
    let process = Disk::new().process();
    let store = process.store();
    block_on(async {
        let (sink, _) = opened(&store, options(), "first", &numbers(&[])).await.unwrap();
        let before = process.calls().len();
        publish(&sink, 1, &[numbers(&[1])]).await.unwrap();
        let ops: Vec<_> = process.calls()[before..].iter().map(|call| call.op).collect();
        // A move is a copy and a delete, as on the stores of the clouds.
        assert_eq!(ops, [Op::Put, Op::Create, Op::Head, Op::Copy, Op::Delete]);
    });
}

#[test]
fn zombies_of_long_ago_do_nothing_wherever_a_run_before_died() {
    let publish_up_to = |disk: &Disk, run_name: &'static str, crash, end: u64| {
        let process = disk.mortal(crash);
        let store = process.store();
        let work = async {
            let (sink, last) = opened(&store, options(), run_name, &numbers(&[])).await.unwrap();
            for batch in last.map_or(0, |last| last.0 + 1)..end {
                publish(&sink, batch, &[numbers(&[batch as i64])]).await.unwrap();
            }
        };
        run(&process, work);
        process.steps()
    };
    let steps = publish_up_to(&Disk::new(), "first", None, 6);
    for crash in CrashAt::each(steps) {
        let disk = Disk::new();
        let store = disk.process().store();
        let (zombie, _) = block_on(opened(&store, options(), "zombie", &numbers(&[]))).unwrap();
        publish_up_to(&disk, "first", Some(crash), 6);
        publish_up_to(&disk, "second", None, 9);
        block_on(async {
            for batch in 0..9 {
                let outcome = publish(&zombie, batch, &[numbers(&[100])]).await.unwrap();
                assert_ne!(outcome, CommitOutcome::Committed, "{crash:?}: batch {batch}");
            }
            let expected: Vec<_> = (0..9).collect();
            assert_eq!(read_numbers(&store).await.unwrap(), expected, "{crash:?}");
        });
    }
}
