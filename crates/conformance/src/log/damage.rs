//! Law 3: an entry is read as it was written, or not at all.

use super::entries::{commit, plan, write};
use super::{Make, open};
use fluvial_core::{BatchId, BatchLog, ErrorKind, Result};
use fluvial_sim::{Disk, block_on};
use std::fmt::Debug;

/// Whether the newest entry may pass for absent: only if it is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Damage {
    Cut,
    Flip,
}

/// Which entry is the newest: of the newest alone a cut may mean that it was never written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Newest {
    Plan,
    Commit,
}

/// Law 3: for any cut and any flipped bit of any object, every reading gives what was written or
/// `Corrupt`. The newest plan without a commit, and the newest commit without a later plan, may
/// also count as absent when they are cut.
pub fn damage_is_detected(make: Make<'_>) {
    let disk = Disk::new();
    let log = open(make, &disk.process());
    block_on(write(log.as_ref(), 0..2));
    let first = disk.paths();
    let mut found = 0;
    for path in &first {
        found += damage_each_byte(make, &disk, path, Newest::Commit);
    }
    block_on(log.put_plan(&plan(2, "r"))).expect("put");
    for path in disk.paths().iter().filter(|path| !first.contains(path)) {
        found += damage_each_byte(make, &disk, path, Newest::Plan);
    }
    assert!(found > 0, "no damage was ever noticed");
}

/// Cuts an object at every length and flips bits in it; how many readings said `Corrupt`.
fn damage_each_byte(make: Make<'_>, disk: &Disk, path: &str, newest: Newest) -> usize {
    let mut found = 0;
    for at in 0..disk.read(path).expect("it is listed").len() {
        let damaged = disk.fork();
        damaged.damage(path, |bytes| bytes.truncate(at));
        found += check(make, &damaged, newest, Damage::Cut, &format!("{path} cut at {at}"));
        // Headers and lengths are at the start, as a rule; further on a sample will do.
        let bits = match at {
            0..32 => 0..8,
            32..256 => at % 8..at % 8 + 1,
            _ if at % 3 == 0 => at / 3 % 8..at / 3 % 8 + 1,
            _ => 0..0,
        };
        for bit in bits {
            let damaged = disk.fork();
            damaged.damage(path, |bytes| bytes[at] ^= 1 << bit);
            let what = format!("{path} byte {at} bit {bit}");
            found += check(make, &damaged, newest, Damage::Flip, &what);
        }
    }
    found
}

/// Reads everything; how many readings said `Corrupt`.
fn check(make: Make<'_>, disk: &Disk, newest: Newest, damage: Damage, what: &str) -> usize {
    let log = open(make, &disk.process());
    let absent = damage == Damage::Cut;
    let (plan_absent, commit_absent) =
        (absent && newest == Newest::Plan, absent && newest == Newest::Commit);
    block_on(read_all(log.as_ref(), newest, plan_absent, commit_absent, what))
}

async fn read_all(
    log: &dyn BatchLog,
    newest: Newest,
    plan_absent: bool,
    commit_absent: bool,
    what: &str,
) -> usize {
    let mut corrupt = 0;
    for batch in 0..2 {
        let other = (batch == 1 && commit_absent).then_some(None);
        let read = log.commit(BatchId(batch)).await;
        corrupt += expect(read, Some(commit(batch, "r")), other, what);
        let read = log.plan(BatchId(batch)).await;
        corrupt += expect(read, Some(plan(batch, "r")), None, what);
    }
    let other = commit_absent.then(|| Some(commit(0, "r")));
    corrupt += expect(log.latest_commit().await, Some(commit(1, "r")), other, what);
    let other = commit_absent.then(|| vec![commit(0, "r")]);
    let all = vec![commit(0, "r"), commit(1, "r")];
    corrupt += expect(log.commits().await, all, other, what);
    if newest == Newest::Plan {
        let read = log.plan(BatchId(2)).await;
        corrupt += expect(read, Some(plan(2, "r")), plan_absent.then_some(None), what);
        let other = plan_absent.then(|| Some(plan(1, "r")));
        corrupt += expect(log.latest_plan().await, Some(plan(2, "r")), other, what);
    } else {
        corrupt += expect(log.latest_plan().await, Some(plan(1, "r")), None, what);
    }
    corrupt
}

/// 1 if it is `Corrupt`; panics if it is neither that nor one of the two values.
fn expect<T: PartialEq + Debug>(read: Result<T>, value: T, other: Option<T>, what: &str) -> usize {
    match read {
        Ok(read) => {
            assert!(read == value || Some(&read) == other.as_ref(), "{what}: read {read:?}");
            0
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
            1
        }
    }
}
