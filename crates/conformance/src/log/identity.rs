//! The query's id belongs to the log: made once, never made up.

use super::entries::write;
use super::{Make, open};
use fluvial_core::{ErrorKind, QueryId};
use fluvial_sim::{CrashAt, Disk, Rng, Task, block_on, interleave, run};
use std::collections::BTreeSet;

fn id(name: &str) -> QueryId {
    QueryId::new(name).expect("a valid name")
}

/// Whoever asks first decides; everybody gets the same answer, also after crashes.
pub fn query_id_is_made_once(make: Make<'_>) {
    for seed in 0..50 {
        let disk = Disk::new();
        let tasks: Vec<Task<'_, QueryId>> = ["a", "b", "c"]
            .into_iter()
            .map(|name| {
                let process = disk.process();
                let log = open(make, &process);
                let future = async move { log.query_id(&id(name)).await.expect("id") };
                (process, Box::pin(future) as _)
            })
            .collect();
        let ended = interleave(&mut Rng::new(seed), tasks);
        let seen: BTreeSet<_> = ended.into_iter().flatten().collect();
        assert_eq!(seen.len(), 1, "seed {seed}: {seen:?}");
        let later = block_on(open(make, &disk.process()).query_id(&id("d"))).expect("id");
        assert!(seen.contains(&later), "seed {seed}");
    }
    for crash in CrashAt::each(8) {
        let disk = Disk::new();
        let process = disk.mortal(crash);
        let log = open(make, &process);
        let _ = run(&process, log.query_id(&id("a")));
        let first = block_on(open(make, &disk.process()).query_id(&id("b"))).expect("id");
        let second = block_on(open(make, &disk.process()).query_id(&id("c"))).expect("id");
        assert_eq!(first, second, "{crash:?}");
    }
}

/// A log that has entries but lost its id is refused: with a new id the sink would take the old
/// output for another query's. A damaged id is `Corrupt`.
pub fn query_id_is_not_made_up(make: Make<'_>) {
    let disk = Disk::new();
    let log = open(make, &disk.process());
    block_on(log.query_id(&id("a"))).expect("id");
    let paths = disk.paths();
    block_on(write(log.as_ref(), 0..1));
    for path in &paths {
        let lost = disk.fork();
        lost.remove(path);
        let error = block_on(open(make, &lost.process()).query_id(&id("b"))).expect_err("lost");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{path}: {error}");
        let length = disk.read(path).expect("it is listed").len();
        for at in 0..length {
            let damaged = disk.fork();
            damaged.damage(path, |bytes| bytes[at] ^= 1);
            let read = block_on(open(make, &damaged.process()).query_id(&id("b")));
            let error = read.expect_err("damaged");
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{path} byte {at}: {error}");
        }
    }
}
