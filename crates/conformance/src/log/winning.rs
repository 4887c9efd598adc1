//! Law 1: of several creations one wins, and everybody learns which.

use super::entries::{commit, plan};
use super::{Make, open};
use fluvial_core::{BatchId, Commit, ErrorKind, Plan, Put, Result};
use fluvial_sim::{CrashAt, Disk, Fault, Rng, Task, block_on, interleave, run};

/// How often a call is repeated that says `Unavailable`.
const RETRIES: usize = 8;

/// Law 1: the first entry stays, and later writers are told what it is.
pub fn one_winner(make: Make<'_>) {
    let disk = Disk::new();
    let (ours, theirs) = (open(make, &disk.process()), open(make, &disk.process()));
    block_on(async {
        let (first, other) = (plan(0, "us"), plan(0, "them"));
        assert_eq!(ours.put_plan(&first).await.expect("put"), Put::Created);
        assert_eq!(ours.put_plan(&first).await.expect("put"), Put::Exists(first.clone()));
        assert_eq!(theirs.put_plan(&other).await.expect("put"), Put::Exists(first.clone()));
        assert_eq!(theirs.latest_plan().await.expect("latest"), Some(first));
        let (first, other) = (commit(0, "them"), commit(0, "us"));
        assert_eq!(theirs.put_commit(&first).await.expect("put"), Put::Created);
        assert_eq!(ours.put_commit(&other).await.expect("put"), Put::Exists(first.clone()));
        assert_eq!(ours.commit(BatchId(0)).await.expect("read"), Some(first));
    });
}

/// What a racer saw.
type Seen = (Put<Plan>, Put<Commit>);

/// Law 1 under every seed: three processes race, some of them mortal.
pub fn races_have_one_winner(make: Make<'_>) {
    const NAMES: [&str; 3] = ["a", "bb", "ccc"];
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let disk = Disk::new();
        let tasks: Vec<Task<'_, Seen>> = NAMES
            .iter()
            .map(|name| {
                let crash = rng.chance(40).then(|| {
                    let points: Vec<_> = CrashAt::each(6).collect();
                    points[rng.index(points.len())]
                });
                let process = disk.mortal(crash);
                let log = open(make, &process);
                let future = async move {
                    let plan = log.put_plan(&plan(0, name)).await.expect("put");
                    (plan, log.put_commit(&commit(0, name)).await.expect("put"))
                };
                (process, Box::pin(future) as _)
            })
            .collect();
        let ended = interleave(&mut rng, tasks);
        let log = open(make, &disk.process());
        let planned = block_on(log.plan(BatchId(0))).expect("read");
        let committed = block_on(log.commit(BatchId(0))).expect("read");
        let (mut plans, mut commits) = (0, 0);
        for (name, seen) in NAMES.iter().zip(ended) {
            let Some((ours, done)) = seen else { continue };
            let (ours, won) = truth(ours, plan(0, name));
            assert_eq!(Some(ours), planned, "seed {seed}: plan of {name}");
            plans += won;
            let (done, won) = truth(done, commit(0, name));
            assert_eq!(Some(done), committed, "seed {seed}: commit of {name}");
            commits += won;
        }
        assert!(plans <= 1 && commits <= 1, "seed {seed}: two winners");
    }
}

/// The entry that counts, and how often it was won here.
fn truth<T>(put: Put<T>, own: T) -> (T, usize) {
    match put {
        Put::Created => (own, 1),
        Put::Exists(found) => (found, 0),
    }
}

/// Law 1 when answers are lost: whatever fails at whatever step, repeating the call ends with
/// our own entry in the log, never with an error that cannot be repeated and never with two.
pub fn lost_answers_are_found_again(make: Make<'_>) {
    for fault in Fault::ALL {
        for step in 0..12 {
            let disk = Disk::new();
            let process = disk.faulty(step, fault);
            let log = open(make, &process);
            let (own, done) = (plan(0, "us"), commit(0, "us"));
            block_on(async {
                let put = repeated(async || log.put_plan(&own).await).await;
                assert_eq!(truth(put, own.clone()).0, own, "{fault:?} at step {step}");
                let put = repeated(async || log.put_commit(&done).await).await;
                assert_eq!(truth(put, done.clone()).0, done, "{fault:?} at step {step}");
            });
            let log = open(make, &disk.process());
            assert_eq!(block_on(log.latest_plan()).expect("latest"), Some(own));
            assert_eq!(block_on(log.commits()).expect("commits"), [done]);
        }
    }
    for crash in CrashAt::each(8) {
        let disk = Disk::new();
        let process = disk.mortal(crash);
        let log = open(make, &process);
        let _: Option<Result<_>> = run(&process, log.put_plan(&plan(0, "us")));
        let log = open(make, &disk.process());
        let own = plan(0, "them");
        let (found, won) = truth(block_on(log.put_plan(&own)).expect("put"), own.clone());
        let expected = if won == 1 { own } else { plan(0, "us") };
        assert_eq!(found, expected, "{crash:?}");
    }
}

async fn repeated<T>(call: impl AsyncFn() -> Result<T>) -> T {
    for _ in 0..RETRIES {
        match call().await {
            Ok(value) => return value,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
        }
    }
    panic!("still unavailable after {RETRIES} calls, of which one met a fault");
}
