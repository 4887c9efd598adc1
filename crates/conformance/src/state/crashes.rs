//! Laws about commits that do not go well, and about commits that go twice.

use super::Make;
use super::world::{Version, Write, for_all, open, play, put, show, step, store_id, writes};
use fluvial_core::{Error, ErrorKind, KeyGroupRange, Result, Snapshot, StateBackend, StateVersion};
use fluvial_sim::{CrashAt, Disk, Fault, Rng, Task, When, block_on, interleave, run};

fn first_writes() -> Vec<Write> {
    vec![Write::Put((0..8u8).map(|group| (vec![0, group, 1], vec![group])).collect())]
}

fn next_writes() -> Vec<Write> {
    let put = Write::Put(vec![(vec![0, 1, 1], vec![9]), (vec![0, 6, 2], vec![9])]);
    vec![Write::Delete(vec![vec![0, 2, 1], vec![0, 5, 1]]), put]
}

/// A disk with one version in two partitions.
async fn begin(make: Make<'_>, disk: &Disk) -> Version {
    let backend = make(disk.process().store());
    let one = step(backend.as_ref(), &Version::genesis(), &[4], &first_writes()).await;
    one.expect("a first version")
}

/// After whatever happened a new process finds `base` whole, and the same batch gives the same
/// again, with another number of partitions.
async fn assert_recovers(make: Make<'_>, disk: &Disk, base: &Version, why: &str) {
    let backend = make(disk.process().store());
    let shown = show(backend.as_ref(), base).await.expect("the base");
    assert_eq!(shown, base.contents, "the base is harmed: {why}");
    let next = step(backend.as_ref(), base, &[2, 6], &next_writes()).await.expect("the retry");
    for backend in [backend, make(disk.process().store())] {
        let shown = show(backend.as_ref(), &next).await.expect("the retry");
        assert_eq!(shown, next.contents, "the retry is wrong: {why}");
        let shown = show(backend.as_ref(), base).await.expect("the base");
        assert_eq!(shown, base.contents, "the retry harmed the base: {why}");
    }
}

/// Two stores, two partitions each, in one commit.
async fn commit_two_stores(backend: &dyn StateBackend, base: &Version) -> Result<Vec<Snapshot>> {
    let mut sealed = Vec::new();
    for groups in [KeyGroupRange { start: 0, end: 4 }, KeyGroupRange { start: 4, end: 8 }] {
        let mut store = open(backend, groups, base).await?;
        play(store.as_mut(), &mut base.contents.clone(), &next_writes())?;
        sealed.push(store.seal()?);
        let timers = store_id("timers");
        let mut store = backend.open(&timers, groups, StateVersion(0), &[]).await?;
        play(store.as_mut(), &mut Default::default(), &first_writes())?;
        sealed.push(store.seal()?);
    }
    backend.commit(sealed).await
}

/// Law 3 of the backend: a crash at any step of a batch, before or after the step's effect,
/// leaves every earlier snapshot whole; the batch can run again.
///
/// # Panics
///
/// If the law does not hold.
pub fn commit_is_atomic_under_crashes(make: Make<'_>) {
    let mut crashes = 0;
    for when in [When::Before, When::After] {
        for step in 0.. {
            let disk = Disk::new();
            let base = block_on(begin(make, &disk));
            let process = disk.mortal(CrashAt { step, when });
            let backend = make(process.store());
            let finished = run(&process, commit_two_stores(backend.as_ref(), &base)).is_some();
            drop(backend);
            block_on(assert_recovers(make, &disk, &base, &format!("crash {when:?} step {step}")));
            if finished {
                break;
            }
            crashes += 1;
        }
    }
    assert!(crashes > 0, "a commit took no step");
}

fn assert_transient(error: &Error, why: &str) {
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{why}: {error}");
}

/// A reported commit is there, for its process, whose reads may fail once, and for another.
async fn assert_shown(
    make: Make<'_>,
    disk: &Disk,
    backend: &dyn StateBackend,
    version: &Version,
    why: &str,
) {
    let shown = match show(backend, version).await {
        Err(error) => {
            assert_transient(&error, why);
            show(backend, version).await
        }
        shown => shown,
    };
    assert_eq!(shown.expect("a commit"), version.contents, "{why}");
    let shown = show(make(disk.process().store()).as_ref(), version).await;
    assert_eq!(shown.expect("a commit"), version.contents, "later, {why}");
}

/// Laws 1 and 3 of the backend on a store with faults: a call may fail, but what is reported as
/// committed is, and nothing else is harmed. The same backend goes on afterwards.
///
/// # Panics
///
/// If the law does not hold.
pub fn faults_do_no_damage(make: Make<'_>) {
    for fault in [Fault::Unavailable, Fault::LostAck, Fault::Conflict] {
        for at in 0.. {
            let disk = Disk::new();
            let base = block_on(begin(make, &disk));
            let process = disk.faulty(at, fault);
            let backend = make(process.store());
            let why = format!("{fault:?} at step {at}");
            block_on(async {
                for _ in 0..2 {
                    match step(backend.as_ref(), &base, &[4], &next_writes()).await {
                        Ok(next) => assert_shown(make, &disk, backend.as_ref(), &next, &why).await,
                        Err(error) => assert_transient(&error, &why),
                    }
                }
                assert_recovers(make, &disk, &base, &why).await;
            });
            if process.steps() <= at {
                break;
            }
        }
    }
}

/// Law 4 of the backend: the same writes over the same base, committed twice by one process or
/// by two at once, give two snapshots with equal contents, both usable.
///
/// # Panics
///
/// If the law does not hold.
pub fn is_replayable(make: Make<'_>) {
    for_all(24, (writes(), writes()), |(first, second)| {
        let disk = Disk::new();
        block_on(async {
            let backend = make(disk.process().store());
            let base = step(backend.as_ref(), &Version::genesis(), &[4], &first).await;
            let base = base.expect("a first version");
            let once = step(backend.as_ref(), &base, &[4], &second).await.expect("once");
            let again = step(backend.as_ref(), &base, &[4], &second).await.expect("again");
            let other = make(disk.process().store());
            let other = step(other.as_ref(), &base, &[3], &second).await.expect("elsewhere");
            for backend in [backend, make(disk.process().store())] {
                for version in [&once, &again, &other] {
                    let shown = show(backend.as_ref(), version).await.expect("an attempt");
                    assert_eq!(shown, once.contents);
                }
            }
        });
    });
    for seed in 0..20 {
        let disk = Disk::new();
        let base = block_on(begin(make, &disk));
        let attempts: Vec<_> = (0..2).map(|_| disk.process()).collect();
        let tasks = attempts.iter().map(|process| -> Task<'_, Version> {
            let (backend, base) = (make(process.store()), &base);
            let attempt = async move {
                step(backend.as_ref(), base, &[4], &next_writes()).await.expect("an attempt")
            };
            (process.clone(), Box::pin(attempt))
        });
        let attempts = interleave(&mut Rng::new(seed), tasks.collect());
        let backend = make(disk.process().store());
        for version in attempts.into_iter().flatten() {
            let shown = block_on(show(backend.as_ref(), &version)).expect("an attempt");
            assert_eq!(shown, version.contents, "two attempts at once, seed {seed}");
        }
    }
    // Attempts with *different* writes are as far apart.
    let disk = Disk::new();
    block_on(async {
        let (a, b) = (make(disk.process().store()), make(disk.process().store()));
        let base = begin(make, &disk).await;
        let one = step(a.as_ref(), &base, &[4], &put(1, 1)).await.expect("one attempt");
        let two = step(b.as_ref(), &base, &[4], &put(1, 2)).await.expect("another");
        for backend in [a, b, make(disk.process().store())] {
            for version in [&one, &two] {
                let shown = show(backend.as_ref(), version).await.expect("an attempt");
                assert_eq!(shown, version.contents, "attempts were mixed up");
            }
        }
    });
}
