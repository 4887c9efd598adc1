//! Whole queries in a world that breaks them: one crash at every step, chains of crashes, and
//! several runs at once. Each explorer returns the first broken promise with its recipe.

use crate::parts::query::Parts;
use crate::parts::sink::visible;
use fluvial_core::{ErrorKind, Result};
use fluvial_sim::{CrashAt, Disk, Fault, Process, Rng, Task, When, block_on, interleave, run};
use object_store::ObjectStore;
use std::ops::Range;
use std::sync::Arc;

/// What to simulate and what to expect.
pub(crate) struct Scenario<'a> {
    /// Builds incarnation `i` over an object store.
    pub(crate) build: &'a dyn Fn(Arc<dyn ObjectStore>, u64) -> Parts,
    /// What an uninterrupted run publishes, sorted; computed without the engine.
    pub(crate) expected: Vec<Vec<i64>>,
}

/// A broken promise, with the recipe to see it again.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Violation(pub(crate) String);

/// How much was explored: executions, and I/O steps of an uninterrupted one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Explored {
    pub(crate) runs: u64,
    pub(crate) steps: u64,
}

async fn live(scenario: &Scenario<'_>, process: Process, incarnation: u64) -> Result<()> {
    (scenario.build)(process.store(), incarnation).live().await.map(drop)
}

/// Runs to the end without faults, then compares with the expectation.
fn settle(
    scenario: &Scenario<'_>,
    disk: &Disk,
    incarnation: u64,
    recipe: &str,
) -> Result<(), Violation> {
    let ended = block_on(live(scenario, disk.process(), incarnation));
    ended.map_err(|e| Violation(format!("{recipe}: recovery failed: {e}")))?;
    let mut seen = visible(disk);
    seen.sort();
    if seen == scenario.expected {
        return Ok(());
    }
    Err(Violation(format!("{recipe}: published {seen:?}, expected {:?}", scenario.expected)))
}

/// At any moment what is visible must be part of what is expected, nothing twice.
fn check_part(scenario: &Scenario<'_>, disk: &Disk, recipe: &str) -> Result<(), Violation> {
    let mut left = scenario.expected.clone();
    for row in visible(disk) {
        match left.iter().position(|expected| *expected == row) {
            Some(at) => drop(left.swap_remove(at)),
            None => {
                return Err(Violation(format!("{recipe}: {row:?} is wrong or there twice")));
            }
        }
    }
    Ok(())
}

/// Crashes once, everywhere.
pub(crate) fn every_crash_point(scenario: &Scenario<'_>) -> Result<Explored, Violation> {
    let disk = Disk::new();
    let process = disk.process();
    block_on(live(scenario, process.clone(), 0))
        .map_err(|e| Violation(format!("no crash: {e}")))?;
    settle(scenario, &disk, 0, "no crash")?;
    let (steps, mut runs) = (process.steps(), 1);
    for crash in CrashAt::each(steps) {
        let recipe = format!("crash {crash:?}");
        let disk = Disk::new();
        let process = disk.mortal(crash);
        let _ = run(&process, live(scenario, process.clone(), 0));
        check_part(scenario, &disk, &recipe)?;
        settle(scenario, &disk, 1, &recipe)?;
        runs += 1;
    }
    Ok(Explored { runs, steps })
}

/// Fails once, everywhere, in every way that passes: the query goes on.
pub(crate) fn every_fault(scenario: &Scenario<'_>) -> Result<(), Violation> {
    let process = Disk::new().process();
    block_on(live(scenario, process.clone(), 0)).map_err(|e| Violation(e.to_string()))?;
    for step in 0..process.steps() {
        for fault in Fault::ALL {
            let recipe = format!("{fault:?} at step {step}");
            let disk = Disk::new();
            let process = disk.faulty(step, fault);
            block_on(live(scenario, process, 0))
                .map_err(|e| Violation(format!("{recipe}: {e}")))?;
            settle(scenario, &disk, 1, &recipe)?;
        }
    }
    Ok(())
}

/// Crashes again and again, also while recovering.
pub(crate) fn many_crashes(scenario: &Scenario<'_>, seeds: Range<u64>) -> Result<(), Violation> {
    for seed in seeds {
        let mut rng = Rng::new(seed);
        let disk = Disk::new();
        let recipe = format!("many crashes, seed {seed}");
        for incarnation in 0..2 + rng.below(6) {
            let when = if rng.chance(50) { When::Before } else { When::After };
            let process = disk.mortal(CrashAt { step: rng.below(60), when });
            if let Some(Err(e)) = run(&process, live(scenario, process.clone(), incarnation)) {
                return Err(Violation(format!("{recipe}: {e}")));
            }
            check_part(scenario, &disk, &recipe)?;
        }
        settle(scenario, &disk, 99, &recipe)?;
    }
    Ok(())
}

/// Several runs at once. They may stop with an error that tells them to, but whatever is
/// published must be right.
pub(crate) fn zombies(scenario: &Scenario<'_>, seeds: Range<u64>) -> Result<(), Violation> {
    for seed in seeds {
        let mut rng = Rng::new(seed);
        let disk = Disk::new();
        let recipe = format!("zombies, seed {seed}");
        let tasks: Vec<Task<'_, Result<()>>> = (0..2 + rng.below(2))
            .map(|incarnation| {
                let crash =
                    rng.chance(50).then(|| CrashAt { step: rng.below(120), when: When::After });
                let process = disk.mortal(crash);
                let own = process.clone();
                let future: std::pin::Pin<Box<dyn Future<Output = Result<()>> + '_>> =
                    Box::pin(live(scenario, own, incarnation));
                (process, future)
            })
            .collect();
        for ended in interleave(&mut rng, tasks).into_iter().flatten() {
            match ended.map_err(|e| (e.kind(), e)) {
                Ok(()) | Err((ErrorKind::Fenced | ErrorKind::NotFound, _)) => {}
                Err((_, e)) => return Err(Violation(format!("{recipe}: {e}"))),
            }
        }
        check_part(scenario, &disk, &recipe)?;
        settle(scenario, &disk, 99, &recipe)?;
    }
    Ok(())
}
