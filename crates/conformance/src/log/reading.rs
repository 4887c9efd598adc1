//! Laws 2 and 4: what was put is there for everybody, and the newest is the newest.

use super::entries::{commit, plan, write};
use super::{Make, open};
use fluvial_core::BatchId;
use fluvial_sim::{CrashAt, Disk, block_on, run};

/// Laws 2 and 4: every entry is the same in another process, and the order is that of numbers,
/// not of texts.
pub fn survives_reopening(make: Make<'_>) {
    let disk = Disk::new();
    block_on(async {
        let log = open(make, &disk.process());
        assert_eq!(log.latest_plan().await.expect("latest"), None);
        assert_eq!(log.latest_commit().await.expect("latest"), None);
        assert_eq!(log.commits().await.expect("commits"), []);
        assert_eq!(log.plan(BatchId(0)).await.expect("plan"), None);
        // Looks at everything early, so that what it remembers could be stale.
        let early = open(make, &disk.process());
        assert_eq!(early.latest_plan().await.expect("latest"), None);
        assert_eq!(early.commits().await.expect("commits"), []);
        write(log.as_ref(), 0..=10).await;
        log.put_plan(&plan(11, "r")).await.expect("put");
        for log in [early, open(make, &disk.process()), log] {
            assert_eq!(log.latest_plan().await.expect("latest"), Some(plan(11, "r")));
            assert_eq!(log.latest_commit().await.expect("latest"), Some(commit(10, "r")));
            let all: Vec<_> = (0..=10).map(|batch| commit(batch, "r")).collect();
            assert_eq!(log.commits().await.expect("commits"), all);
            for batch in 0..=10 {
                assert_eq!(log.plan(BatchId(batch)).await.expect("plan"), Some(plan(batch, "r")));
                let read = log.commit(BatchId(batch)).await.expect("commit");
                assert_eq!(read, Some(commit(batch, "r")));
            }
            assert_eq!(log.commit(BatchId(11)).await.expect("commit"), None);
        }
    });
}

/// Laws 2 and 3 under crashes: at every step, on both sides, what was acknowledged is there and
/// the rest is there or not, whole.
pub fn survives_crashes(make: Make<'_>) {
    let whole = Disk::new().process();
    block_on(write(open(make, &whole).as_ref(), 0..3));
    for crash in CrashAt::each(whole.steps()) {
        let disk = Disk::new();
        let process = disk.mortal(crash);
        let log = open(make, &process);
        let acknowledged = std::cell::Cell::new(0);
        let ended = run(&process, async {
            for batch in 0..3 {
                log.put_plan(&plan(batch, "r")).await.expect("put");
                acknowledged.set(acknowledged.get() + 1);
                log.put_commit(&commit(batch, "r")).await.expect("put");
                acknowledged.set(acknowledged.get() + 1);
            }
        });
        assert!(ended.is_none(), "the run reaches {crash:?}");
        let log = open(make, &disk.process());
        let plans = block_on(log.latest_plan()).expect("latest").map_or(0, |p| p.batch.0 + 1);
        let commits = block_on(log.latest_commit()).expect("latest").map_or(0, |c| c.batch.0 + 1);
        let there = plans + commits;
        assert!(there == acknowledged.get() || there == acknowledged.get() + 1, "{crash:?}");
        assert!(plans == commits || plans == commits + 1, "{crash:?}: {plans} {commits}");
    }
}

/// Law 4: what other programs leave beside the entries changes nothing.
pub fn foreign_names_are_ignored(make: Make<'_>) {
    let disk = Disk::new();
    block_on(async {
        let log = open(make, &disk.process());
        write(log.as_ref(), 0..3).await;
        log.put_plan(&plan(3, "r")).await.expect("put");
    });
    for path in disk.paths() {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", &path));
        let number = name.trim_matches(|c: char| !c.is_ascii_digit()).parse::<u64>();
        let above = number.map_or_else(|_| format!("{name}9"), |number| (number + 90).to_string());
        for foreign in [
            format!("{above}.tmp"),
            format!(".{above}.crc"),
            format!("{above}~"),
            format!("0x{above}"),
            format!("{above}/part"),
            "_SUCCESS".into(),
        ] {
            disk.write(&format!("{folder}/{foreign}"), "not an entry");
        }
    }
    let log = open(make, &disk.process());
    block_on(async {
        assert_eq!(log.latest_plan().await.expect("latest"), Some(plan(3, "r")));
        assert_eq!(log.latest_commit().await.expect("latest"), Some(commit(2, "r")));
        assert_eq!(log.commits().await.expect("commits").len(), 3);
    });
}
