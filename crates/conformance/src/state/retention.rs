//! Laws about what is deleted.

use super::Make;
use super::history::{events, hold};
use super::world::{ALL, Version, Write, for_all, put, show, step};
use fluvial_core::{ErrorKind, Snapshot, StateBackend};
use fluvial_sim::{CrashAt, Disk, When, block_on, run};
use proptest::collection::vec;

/// A chain of versions, an attempt at version 4 that lost, and one at version 12 that is under
/// way.
struct Chain {
    elected: Vec<Version>,
    loser: Version,
    in_flight: Version,
}

impl Chain {
    async fn write(backend: &dyn StateBackend) -> Self {
        let mut elected = vec![Version::genesis()];
        let next = async |base: &Version, value: u8| {
            let writes = [put(value % 5, value), put(100 + value, value)].concat();
            step(backend, base, &[4], &writes).await.expect("a version")
        };
        let mut loser = None;
        for i in 0..12u8 {
            if i == 3 {
                loser = Some(next(&elected[3], 99).await);
            }
            elected.push(next(&elected[usize::from(i)], i).await);
        }
        let in_flight = next(&elected[11], 98).await;
        Self { elected, loser: loser.expect("an attempt"), in_flight }
    }

    /// The last three versions before the newest.
    fn live(&self) -> Vec<Snapshot> {
        self.elected[9..12].iter().flat_map(|version| version.snapshots.clone()).collect()
    }

    async fn assert_kept(&self, backend: &dyn StateBackend, why: &str) {
        for version in self.elected[9..].iter().chain([&self.in_flight]) {
            let shown = show(backend, version).await.expect("a live version");
            assert_eq!(shown, version.contents, "version {}: {why}", version.number);
        }
    }
}

/// Law 5 of the backend: what a live snapshot needs stays, and what is newer than the oldest of
/// them, in any history and after a crash at any step.
///
/// # Panics
///
/// If the law does not hold.
pub fn retention_keeps(make: Make<'_>) {
    for_all(32, events(vec(ALL.start..=ALL.end, 0..3), 3), |events| hold(make, &events));
    for when in [When::Before, When::After] {
        for at in 0.. {
            let disk = Disk::new();
            let chain = block_on(Chain::write(make(disk.process().store()).as_ref()));
            let process = disk.mortal(CrashAt { step: at, when });
            let backend = make(process.store());
            let finished = run(&process, backend.retain(&chain.live())).is_some();
            let later = make(disk.process().store());
            let why = format!("after a crash {when:?} step {at} of retaining");
            block_on(chain.assert_kept(later.as_ref(), &why));
            if finished {
                break;
            }
        }
    }
    block_on(async {
        let disk = Disk::new();
        let backend = make(disk.process().store());
        let chain = Chain::write(backend.as_ref()).await;
        backend.retain(&[]).await.expect("retaining");
        chain
            .assert_kept(make(disk.process().store()).as_ref(), "nothing was said to be live")
            .await;
    });
}

/// Law 5 of the backend: what is older than every live snapshot and needed by none goes; so
/// storage does not grow with the age of a query.
///
/// # Panics
///
/// If the law does not hold.
pub fn retention_deletes(make: Make<'_>) {
    let disk = Disk::new();
    block_on(async {
        let backend = make(disk.process().store());
        let chain = Chain::write(backend.as_ref()).await;
        disk.write("elsewhere/3-0-x", "not state");
        for _ in 0..2 {
            backend.retain(&chain.live()).await.expect("retaining");
        }
        let later = make(disk.process().store());
        chain.assert_kept(later.as_ref(), "after retaining").await;
        let error = show(later.as_ref(), &chain.loser).await.expect_err("the loser must be gone");
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert!(disk.read("elsewhere/3-0-x").is_some(), "what is not state was deleted");
        // A long life: everything is replaced again and again.
        let mut last = chain.elected[12].clone();
        let mut most = 0;
        for i in 0..60u8 {
            let all = (0..8u8).map(|group| (vec![0, group, 1], vec![i])).collect();
            last = step(later.as_ref(), &last, &[4], &[Write::Put(all)]).await.expect("a version");
            later.retain(&last.snapshots).await.expect("retaining");
            if i == 29 {
                most = disk.paths().len();
            }
        }
        assert!(disk.paths().len() <= most + 12, "storage grows with age: {:?}", disk.paths());
        let shown = show(later.as_ref(), &last).await.expect("the newest version");
        assert_eq!(shown, last.contents);
    });
}
