//! A mixture of all queries, for so many minutes.

use crate::{Arguments, find, report};
use fluvial_testing::{Coverage, Input, Query, Simulation, gallery, kinds, random_query};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What all threads share.
struct Shared {
    until: Instant,
    stop: AtomicBool,
    next: AtomicUsize,
    seen: Mutex<BTreeMap<String, Coverage>>,
    failure: Mutex<Option<String>>,
}

impl Shared {
    fn over(&self) -> bool {
        self.stop.load(Ordering::SeqCst) || Instant::now() >= self.until
    }

    fn fail(&self, text: String) {
        self.stop.store(true, Ordering::SeqCst);
        if let Ok(mut failure) = self.failure.lock() {
            failure.get_or_insert(text);
        }
    }
}

/// So many schedules of a query in one go: those of the gallery first, then as many random ones as
/// there is time for, then all again with other seeds.
const TURN: u64 = 12;
/// Of a query of parts, whose schedules take a fraction of the time, so many times as many.
const PARTS: u64 = 2;

pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    let began = Instant::now();
    let minutes = arguments.minutes.unwrap_or(1.0);
    let shared = Shared {
        until: began + Duration::from_secs_f64(minutes * 60.0),
        stop: AtomicBool::new(false),
        next: AtomicUsize::new(0),
        seen: Mutex::default(),
        failure: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads.max(1) {
            scope.spawn(|| fluvial_testing::aside(|| work(arguments, &shared)));
        }
    });
    report::print(&shared.seen.into_inner().unwrap_or_default(), began.elapsed());
    match shared.failure.into_inner().unwrap_or_default() {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

/// The queries that are not random, and how many schedules each has in one go: those of parts
/// among the others, so that a short run has some of both.
fn ours() -> Result<Vec<(Query, Input, u64)>, String> {
    let mut parts = Vec::new();
    for kind in &kinds::ALL {
        for backend in kind.backends() {
            let (query, input) = kind.query(*backend).map_err(|e| e.to_string())?;
            parts.push((query, input, TURN * PARTS));
        }
    }
    let (mut all, mut parts) = (Vec::new(), parts.into_iter());
    for (query, input) in gallery::all() {
        all.push((query, input, TURN));
        all.extend(parts.next());
    }
    all.extend(parts);
    Ok(all)
}

fn work(arguments: &Arguments, shared: &Shared) {
    let ours = match ours() {
        Ok(ours) => ours,
        Err(error) => return shared.fail(error),
    };
    while !shared.over() {
        let turn = shared.next.fetch_add(1, Ordering::SeqCst);
        let given = arguments.query.as_deref().map(find);
        let (query, input, schedules) = match given {
            Some(Ok((query, input))) => (query, input, TURN),
            Some(Err(error)) => return shared.fail(error),
            // Every other turn is a random query, once each of ours has had its first.
            None if turn < ours.len() => ours[turn].clone(),
            None if turn.is_multiple_of(2) => {
                let (query, input) = random_query(arguments.seed + turn as u64);
                (query, input, TURN)
            }
            None => ours[(turn / 2) % ours.len()].clone(),
        };
        if let Err(failure) = one(arguments.seed, turn, (&query, &input, schedules), shared) {
            shared.fail(failure);
        }
    }
}

/// One turn of a query: some crash points, some seeds.
fn one(
    seed: u64,
    turn: usize,
    (query, input, schedules): (&Query, &Input, u64),
    shared: &Shared,
) -> Result<(), String> {
    let name = query.name();
    let simulation = Simulation::new(query, input).map_err(|e| format!("{name}: {e}"))?;
    let points = simulation.crash_points();
    let mut coverage = Coverage::default();
    for number in 0..schedules {
        if shared.over() {
            break;
        }
        let at = seed.wrapping_add(turn as u64 * TURN * PARTS + number);
        let (seed, schedule) = match number % 2 {
            0 => (None, points[(at.wrapping_mul(7919) % points.len() as u64) as usize].clone()),
            _ => (Some(at), simulation.schedule(at)),
        };
        if let Err(violation) = simulation.run(&schedule, &mut coverage) {
            return Err(report::failure(&simulation, seed, schedule, violation));
        }
    }
    if let Ok(mut seen) = shared.seen.lock() {
        // Random queries of one kind are one line.
        let kind = name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-');
        seen.entry(kind.to_owned()).or_default().add(&coverage);
    }
    Ok(())
}
