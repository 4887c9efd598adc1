//! The scheduler reaches every order, and the same one for the same seed.

use fluvial_sim::{CrashAt, Disk, Rng, Task, When, interleave};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake};

/// Three processes race for one object; the winner's number.
fn race(seed: u64) -> (usize, Rng, Vec<(String, bytes::Bytes)>) {
    let disk = Disk::new();
    let mut rng = Rng::new(seed);
    let tasks: Vec<Task<'_, bool>> = (0..3)
        .map(|number: usize| {
            let process = disk.process();
            let own = process.clone();
            let future = async move {
                own.put(&Path::from(format!("by/{number}")), "x".into()).await.unwrap();
                let create = PutOptions::from(PutMode::Create);
                own.put_opts(&Path::from("prize"), number.to_string().into(), create).await.is_ok()
            };
            (process, Box::pin(future) as _)
        })
        .collect();
    let ended = interleave(&mut rng, tasks);
    let winners: Vec<usize> = (0..3).filter(|i| ended[*i] == Some(true)).collect();
    assert_eq!(winners.len(), 1);
    (winners[0], rng, disk.contents())
}

#[test]
fn every_racer_wins_under_some_seed() {
    let winners: BTreeSet<usize> = (0..50).map(|seed| race(seed).0).collect();
    assert_eq!(winners.len(), 3);
}

#[test]
fn one_seed_is_one_history() {
    for seed in 0..50 {
        assert_eq!(race(seed), race(seed));
    }
}

/// Under an executor with several tasks the crash may happen in another one.
#[test]
fn a_death_wakes_whoever_waits_elsewhere() {
    struct Flag(AtomicBool);
    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let process = Disk::new().process();
    let flag = Arc::new(Flag(AtomicBool::new(false)));
    let waker = Arc::clone(&flag).into();
    let mut waiting = pin!(process.live(std::future::pending::<()>()));
    let mut cx = Context::from_waker(&waker);
    assert!(waiting.as_mut().poll(&mut cx).is_pending());
    assert!(!flag.0.load(Ordering::SeqCst));
    process.kill();
    assert!(flag.0.load(Ordering::SeqCst));
    assert_eq!(waiting.as_mut().poll(&mut cx), Poll::Ready(None));
}

#[test]
fn the_dead_do_not_hold_up_the_living() {
    let disk = Disk::new();
    let dead = disk.mortal(CrashAt { step: 0, when: When::Before });
    let alive = disk.process();
    let put = |process: &fluvial_sim::Process, path: &'static str| {
        let own = process.clone();
        let future = async move { own.put(&Path::from(path), "x".into()).await.is_ok() };
        (process.clone(), Box::pin(future) as _)
    };
    let tasks: Vec<Task<'_, bool>> = vec![put(&dead, "a"), put(&alive, "b")];
    assert_eq!(interleave(&mut Rng::new(7), tasks), [None, Some(true)]);
    assert_eq!(disk.paths(), ["b"]);
}
