//! Laws 5 and 6: cleaning removes what it should, and nothing comes back.

use super::entries::{commit, plan, write};
use super::{Make, open};
use fluvial_core::{BatchId, BatchLog, ErrorKind};
use fluvial_sim::{CrashAt, Disk, block_on, run};

/// Law 5: whatever is asked for, the newest plan and the newest two commits stay, also when the
/// cleaning is cut short at any step; what is older goes.
pub fn truncation_keeps_what_recovery_needs(make: Make<'_>) {
    let filled = Disk::new();
    block_on(async {
        let log = open(make, &filled.process());
        log.truncate_before(BatchId(9)).await.expect("nothing to clean");
        write(log.as_ref(), 0..5).await;
        log.put_plan(&plan(5, "r")).await.expect("put");
    });
    // By a process that wrote nothing itself, and by one that has cleaned before.
    for before in [3, 99] {
        let disk = filled.fork();
        let process = disk.process();
        let log = open(make, &process);
        block_on(log.truncate_before(BatchId(before))).expect("truncate");
        block_on(intact(log.as_ref(), Some(3)));
        block_on(intact(open(make, &disk.process()).as_ref(), Some(3)));
        block_on(write(log.as_ref(), 6..8));
        block_on(log.truncate_before(BatchId(5))).expect("truncate");
        assert_eq!(block_on(log.commit(BatchId(4))).expect("read"), None);
        assert_eq!(block_on(log.commit(BatchId(7))).expect("read"), Some(commit(7, "r")));
        for crash in CrashAt::each(process.steps()) {
            let disk = filled.fork();
            let mortal = disk.mortal(crash);
            let log = open(make, &mortal);
            let ended = run(&mortal, log.truncate_before(BatchId(before)));
            block_on(intact(open(make, &disk.process()).as_ref(), None));
            if ended.is_none() {
                let log = open(make, &disk.process());
                block_on(log.truncate_before(BatchId(before))).expect("truncate again");
                block_on(intact(log.as_ref(), Some(3)));
            }
        }
    }
}

/// Recovery finds what it needs; below `removed`, if given, nothing is left.
async fn intact(log: &dyn BatchLog, removed: Option<u64>) {
    assert_eq!(log.latest_plan().await.expect("latest"), Some(plan(5, "r")));
    assert_eq!(log.latest_commit().await.expect("latest"), Some(commit(4, "r")));
    assert_eq!(log.plan(BatchId(5)).await.expect("plan"), Some(plan(5, "r")));
    for batch in [3, 4] {
        assert_eq!(log.commit(BatchId(batch)).await.expect("read"), Some(commit(batch, "r")));
    }
    let commits = log.commits().await.expect("commits");
    assert!(commits.ends_with(&[commit(3, "r"), commit(4, "r")]), "{commits:?}");
    assert!(commits.is_sorted_by_key(|commit| commit.batch), "{commits:?}");
    if let Some(removed) = removed {
        assert_eq!(commits.len(), 2, "{commits:?}");
        for batch in (0..removed).map(BatchId) {
            assert_eq!(log.commit(batch).await.expect("read"), None, "{batch}");
            assert_eq!(log.plan(batch).await.expect("read"), None, "{batch}");
        }
    }
}

/// Law 6: a batch that was removed is not free: whoever puts it is told that others went on,
/// and what they wrote stays the newest.
pub fn removed_is_not_free(make: Make<'_>) {
    let disk = Disk::new();
    let (log, zombie) = (open(make, &disk.process()), open(make, &disk.process()));
    block_on(async {
        write(log.as_ref(), 0..2).await;
        // The zombie knows the log and falls asleep.
        assert_eq!(zombie.latest_commit().await.expect("latest"), Some(commit(1, "r")));
        assert_eq!(zombie.commits().await.expect("commits").len(), 2);
        write(log.as_ref(), 2..6).await;
        log.truncate_before(BatchId(4)).await.expect("truncate");
        for batch in 0..4 {
            let error = zombie.put_plan(&plan(batch, "z")).await.expect_err("it was removed");
            assert_eq!(error.kind(), ErrorKind::Fenced, "plan {batch}: {error}");
            let error = zombie.put_commit(&commit(batch, "z")).await.expect_err("it was removed");
            assert_eq!(error.kind(), ErrorKind::Fenced, "commit {batch}: {error}");
        }
        for log in [log, open(make, &disk.process())] {
            assert_eq!(log.latest_plan().await.expect("latest"), Some(plan(5, "r")));
            assert_eq!(log.latest_commit().await.expect("latest"), Some(commit(5, "r")));
            assert_eq!(log.commits().await.expect("commits"), [commit(4, "r"), commit(5, "r")]);
        }
    });
}
