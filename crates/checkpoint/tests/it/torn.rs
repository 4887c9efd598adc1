//! What a power cut leaves: entries of which only the beginning is there.

use crate::world::where_it_stands;
use crate::world::{assert_whole, commit, log, next, plan, reopened, run_batches, write};
use fluvial_core::{BatchId, BatchLog, ErrorKind, Put, QueryId};
use fluvial_sim::{CrashAt, Disk, Rng, Task, block_on, interleave, run};

/// Batches 0 to 3 done, and the plan of batch 4.
fn filled() -> Disk {
    let disk = Disk::new();
    let log = reopened(&disk);
    block_on(async {
        log.query_id(&QueryId::new("q").unwrap()).await.unwrap();
        write(&log, 0..4).await;
        log.put_plan(&plan(4, "old")).await.unwrap();
    });
    disk
}

fn cut(disk: &Disk, path: &str, length: usize) {
    disk.damage(path, |bytes| bytes.truncate(length));
}

/// Trap E2.
#[test]
fn temporary_files_are_ignored() {
    let disk = filled();
    disk.remove("q/offsets/4");
    disk.write("q/offsets/4.tmp", "half");
    disk.write("q/offsets/.4.crc", "half");
    assert_eq!(next(block_on(where_it_stands(&reopened(&disk))).unwrap()), (4, None));
}

/// Trap E2.
#[test]
fn a_torn_newest_plan_is_planned_again() {
    let length = filled().read("q/offsets/4").unwrap().len();
    for at in 0..length {
        let disk = filled();
        cut(&disk, "q/offsets/4", at);
        assert_eq!(next(block_on(where_it_stands(&reopened(&disk))).unwrap()), (4, None), "{at}");
        let log = reopened(&disk);
        block_on(async {
            assert_eq!(log.plan(BatchId(4)).await.unwrap(), None);
            assert_eq!(log.put_plan(&plan(4, "new")).await.unwrap(), Put::Created);
            let again = log.put_plan(&plan(4, "x")).await.unwrap();
            assert_eq!(again, Put::Exists(plan(4, "new")), "the second election counts");
        });
        let log = reopened(&disk);
        assert_eq!(block_on(log.latest_plan()).unwrap(), Some(plan(4, "new")));
        block_on(run_batches(&log, "new", 9)).unwrap();
        block_on(assert_whole(&reopened(&disk), 9, &format!("cut at {at}")));
    }
}

#[test]
fn a_torn_newest_commit_runs_its_batch_again() {
    let disk = filled();
    disk.remove("q/offsets/4");
    let length = disk.read("q/commits/3").unwrap().len();
    for at in 0..length {
        let disk = disk.fork();
        cut(&disk, "q/commits/3", at);
        let stands = block_on(where_it_stands(&reopened(&disk))).unwrap();
        assert_eq!(next(stands), (3, Some(plan(3, "r"))), "the very plan");
        assert_eq!(block_on(reopened(&disk).commits()).unwrap().len(), 3);
        block_on(run_batches(&reopened(&disk), "new", 6)).unwrap();
        block_on(assert_whole(&reopened(&disk), 6, &format!("cut at {at}")));
    }
}

#[test]
fn both_may_be_torn() {
    let disk = filled();
    cut(&disk, "q/offsets/4", 9);
    cut(&disk, "q/commits/3", 0);
    let stands = block_on(where_it_stands(&reopened(&disk))).unwrap();
    assert_eq!(next(stands), (3, Some(plan(3, "r"))));
    block_on(run_batches(&reopened(&disk), "new", 6)).unwrap();
    block_on(assert_whole(&reopened(&disk), 6, "both"));
}

#[test]
fn a_first_batch_of_which_nothing_is_whole_begins_anew() {
    let disk = Disk::new();
    let log = reopened(&disk);
    block_on(log.query_id(&QueryId::new("q").unwrap())).unwrap();
    block_on(log.put_plan(&plan(0, "r"))).unwrap();
    cut(&disk, "q/offsets/0", 30);
    cut(&disk, "q/metadata", 12);
    block_on(run_batches(&reopened(&disk), "new", 3)).unwrap();
    block_on(assert_whole(&reopened(&disk), 3, "anew"));
    let id = block_on(reopened(&disk).query_id(&QueryId::new("x").unwrap())).unwrap();
    assert_eq!(id, QueryId::new("new").unwrap());
}

#[test]
fn what_later_entries_prove_is_not_given_up() {
    for path in ["q/offsets/3", "q/commits/3", "q/commits/1", "q/offsets/0"] {
        let disk = filled();
        cut(&disk, path, 40);
        let log = reopened(&disk);
        let batch = BatchId(path.rsplit('/').next().unwrap().parse().unwrap());
        let error = if path.contains("offsets") {
            block_on(log.plan(batch)).unwrap_err()
        } else {
            block_on(log.commit(batch)).unwrap_err()
        };
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.message().contains(path), "{error}");
        let put = if path.contains("offsets") {
            block_on(log.put_plan(&plan(batch.0, "z"))).map(drop)
        } else {
            block_on(log.put_commit(&commit(batch.0, "z", "z"))).map(drop)
        };
        assert_eq!(put.unwrap_err().kind(), ErrorKind::Corrupt, "{path} is not elected again");
    }
}

#[test]
fn a_flipped_bit_is_never_planned_over() {
    let disk = filled();
    let length = disk.read("q/offsets/4").unwrap().len();
    for at in 0..length {
        let disk = disk.fork();
        disk.damage("q/offsets/4", |bytes| bytes[at] ^= 4);
        let log = reopened(&disk);
        let error = block_on(log.latest_plan()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "byte {at}");
        let put = block_on(log.put_plan(&plan(4, "new"))).unwrap_err();
        assert_eq!(put.kind(), ErrorKind::Corrupt, "byte {at}");
    }
}

/// The race that deleting and creating again would lose: two runs find the same torn plan.
#[test]
fn the_second_election_has_one_winner_too() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let disk = filled();
        cut(&disk, "q/offsets/4", 33);
        let tasks: Vec<Task<'_, Put<_>>> = ["a", "b", "c"]
            .into_iter()
            .map(|name| {
                let points: Vec<_> = CrashAt::each(8).collect();
                let crash = rng.chance(30).then(|| points[rng.index(points.len())]);
                let process = disk.mortal(crash);
                let own = log(&process);
                let future = async move {
                    let _ = own.latest_plan().await;
                    own.put_plan(&plan(4, name)).await.unwrap()
                };
                (process, Box::pin(future) as _)
            })
            .collect();
        let ended = interleave(&mut rng, tasks);
        let truth = block_on(reopened(&disk).plan(BatchId(4))).unwrap();
        for (name, put) in ["a", "b", "c"].into_iter().zip(ended) {
            match put {
                Some(Put::Created) => assert_eq!(truth, Some(plan(4, name)), "seed {seed}"),
                Some(Put::Exists(found)) => assert_eq!(truth, Some(found), "seed {seed}"),
                None => {}
            }
        }
    }
}

#[test]
fn crashes_during_the_second_election_are_recovered_from() {
    for crash in CrashAt::each(12) {
        let disk = filled();
        cut(&disk, "q/offsets/4", 33);
        let process = disk.mortal(crash);
        let _ = run(&process, run_batches(&log(&process), "a", 7));
        block_on(run_batches(&reopened(&disk), "b", 7)).unwrap();
        block_on(assert_whole(&reopened(&disk), 7, &format!("{crash:?}")));
    }
}

#[test]
fn torn_objects_are_cleaned_up_with_their_batch() {
    let disk = filled();
    cut(&disk, "q/offsets/4", 33);
    block_on(run_batches(&reopened(&disk), "b", 12)).unwrap();
    let left = disk.paths_under("q/offsets/4");
    assert_eq!(left, Vec::<String>::new());
}
