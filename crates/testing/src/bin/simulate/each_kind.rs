//! So many distinct histories of each kind of operator on each state backend.

use crate::{Arguments, find, report};
use fluvial_testing::{Coverage, Input, Query, Simulation, kinds};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Seeds may give a history that another one gave: so many times as many are tried at most.
const TRIES: u64 = 4;

pub(crate) fn run(arguments: &Arguments, schedules: usize) -> Result<(), String> {
    let began = Instant::now();
    let minutes = arguments.minutes.unwrap_or(f64::from(u32::MAX));
    let until = began + Duration::from_secs_f64(minutes * 60.0);
    let queries = queries(arguments)?;
    let (next, seen, failures) =
        (AtomicUsize::new(0), Mutex::new(BTreeMap::new()), Mutex::new(Vec::new()));
    let work = || {
        while let Some((query, input)) = queries.get(next.fetch_add(1, Ordering::SeqCst)) {
            let mut coverage = Coverage::default();
            let seed = arguments.seed;
            if let Err(failure) = one(query, input, (seed, schedules), until, &mut coverage) {
                eprintln!("{failure}");
                if let Ok(mut failures) = failures.lock() {
                    failures.push(query.name().to_owned());
                }
            }
            eprintln!("{}", report::line(query.name(), &coverage));
            if let Ok(mut seen) = seen.lock() {
                seen.insert(query.name().to_owned(), coverage);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads.max(1) {
            scope.spawn(|| fluvial_testing::aside(work));
        }
    });
    report::print(&seen.into_inner().unwrap_or_default(), began.elapsed());
    match failures.into_inner().unwrap_or_default() {
        failed if failed.is_empty() => Ok(()),
        failed => Err(format!("failed: {}", failed.join(", "))),
    }
}

fn queries(arguments: &Arguments) -> Result<Vec<(Query, Input)>, String> {
    if let Some(name) = &arguments.query {
        return Ok(vec![find(name)?]);
    }
    let mut all = Vec::new();
    for kind in &kinds::ALL {
        for backend in kind.backends() {
            all.push(kind.query(*backend).map_err(|e| e.to_string())?);
        }
    }
    Ok(all)
}

/// Every crash point, then seeds, until there are so many distinct histories.
fn one(
    query: &Query,
    input: &Input,
    (first, schedules): (u64, usize),
    until: Instant,
    coverage: &mut Coverage,
) -> Result<(), String> {
    let name = query.name();
    let simulation = Simulation::new(query, input).map_err(|e| format!("{name}: {e}"))?;
    let points = simulation.crash_points().into_iter().map(|schedule| (None, schedule));
    let seeds = (first..first + TRIES * schedules as u64)
        .map(|seed| (Some(seed), simulation.schedule(seed)));
    for (seed, schedule) in points.chain(seeds) {
        if coverage.distinct() >= schedules || Instant::now() >= until {
            break;
        }
        if let Err(violation) = simulation.run(&schedule, coverage) {
            return Err(report::failure(&simulation, seed, schedule, violation));
        }
    }
    Ok(())
}
