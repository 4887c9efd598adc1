//! One query in its worlds.

use crate::coverage::Coverage;
use crate::garbage;
use crate::input::Input;
use crate::life::{End, live};
use crate::oracle::{
    Expected, Seen, batch_rows, check_end, check_end_state, check_moment, compare, rows,
    state_objects, state_rows,
};
use crate::query::Query;
use crate::schedule::{Life, OldFiles, RunPlan, Schedule};
use crate::trace::Trace;
use crate::world::World;
use fluvial_sim::CrashAt;
use std::fmt;
use std::hash::Hasher;
use std::time::Duration;

/// A broken promise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation(String);

impl Violation {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self(what.into())
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Violation {}

/// How a schedule went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// A number that stands for all that happened: calls, their order, what was stored.
    pub trace: u64,
}

/// A query with its input, and what the run without faults gave.
pub struct Simulation {
    pub(crate) query: Query,
    pub(crate) input: Input,
    expected: Expected,
    steps: Vec<u64>,
    trace: u64,
}

impl Simulation {
    /// Runs the query once without a fault, and compares that with the batch query if there is one.
    ///
    /// # Errors
    ///
    /// What the query failed with, or how its output differs from the batch query's.
    pub fn new(query: &Query, input: &Input) -> Result<Self, Violation> {
        aside(|| Self::prepare(query, input))
    }

    fn prepare(query: &Query, input: &Input) -> Result<Self, Violation> {
        let world = World::new();
        let (mut steps, mut trace) = (Vec::new(), Trace::default());
        for (number, wave) in input.waves.iter().enumerate() {
            world.arrive(wave).map_err(|e| Violation::new(e.to_string()))?;
            let life = calm(input, number);
            if input.is_quiet(number) {
                world.clock().advance(PEACE);
            }
            for ended in live(&world, query, &life).map_err(|e| Violation::new(e.to_string()))? {
                check_end(&life, &life.runs[0], &ended)?;
                steps.push(ended.calls.len() as u64);
                trace.calls(&ended.calls, foreign(query));
            }
        }
        let failed = |e: fluvial::Error| Violation::new(format!("without faults: {e}"));
        let found = rows(&world, query).map_err(failed)?;
        if let Some(sql) = query.batch_text() {
            let batch = batch_rows(&world, query, sql).map_err(failed)?;
            compare("the batch query", &batch, &found)?;
        }
        trace.disk(world.disk(), foreign(query));
        let state_rows = state_rows(&world)?;
        let (state_objects, counts) = (state_objects(&world), garbage::counts(&world));
        if input.is_quiet(input.waves.len().saturating_sub(1)) {
            start_again(&world, query)?;
            garbage::check(&world, &counts)?;
        }
        let expected = Expected { rows: found, state_rows, state_objects, counts };
        let (query, input) = (query.clone(), input.clone());
        Ok(Self { query, input, expected, steps, trace: trace.finish() })
    }

    /// The query.
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// How many calls to the store the run of each wave makes.
    pub fn steps(&self) -> &[u64] {
        &self.steps
    }

    /// The rows of the run without faults, sorted.
    pub fn expected(&self) -> &[String] {
        &self.expected.rows
    }

    /// What the run without faults did, as a number.
    pub fn trace(&self) -> u64 {
        self.trace
    }

    /// The schedule of a seed.
    pub fn schedule(&self, seed: u64) -> Schedule {
        Schedule::of_seed(seed, self.busy(), self.query.is_free())
    }

    /// A schedule for every crash point of the run without faults.
    pub fn crash_points(&self) -> Vec<Schedule> {
        let each = self.busy().iter().enumerate().flat_map(|(wave, steps)| {
            CrashAt::each(*steps).map(move |crash| {
                Schedule::with(wave, RunPlan { crash: Some(crash), ..RunPlan::clean() })
            })
        });
        each.collect()
    }

    /// The steps of the waves that are not worked off in peace.
    fn busy(&self) -> &[u64] {
        let busy = (0..self.steps.len()).take_while(|wave| !self.input.is_quiet(*wave)).count();
        &self.steps[..busy]
    }

    /// Runs a schedule, then works off what is left without faults, and checks everything.
    ///
    /// # Errors
    ///
    /// The first broken promise.
    pub fn run(&self, schedule: &Schedule, coverage: &mut Coverage) -> Result<Outcome, Violation> {
        aside(|| self.run_here(schedule, coverage))
    }

    pub(crate) fn run_here(
        &self,
        schedule: &Schedule,
        coverage: &mut Coverage,
    ) -> Result<Outcome, Violation> {
        let world = World::new();
        let (mut seen, mut trace, mut arrived) = (Seen::default(), Trace::default(), 0);
        coverage.schedules += 1;
        let last = self.input.waves.len().saturating_sub(1);
        let tail = (0..=last).map(|wave| {
            let pause = if self.input.is_quiet(wave) { PEACE } else { LATE };
            (calm(&self.input, wave), pause)
        });
        let given = schedule.lives.iter().map(|life| (life.clone(), Duration::ZERO));
        let mut done = None;
        for (mut life, pause) in given.chain(tail) {
            // Of the tail only what is left: the present wave, and those to come.
            if !pause.is_zero() && (life.wave + 1 < arrived || done == Some(life.wave)) {
                continue;
            }
            let logs = logs(&world);
            if life.runs[0].changed && (self.query.changed().is_none() || logs.is_empty()) {
                continue;
            }
            match life.old {
                OldFiles::Cleaned if done.is_some() => world.forget_files(),
                OldFiles::Cleaned => life.old = OldFiles::There,
                OldFiles::There | OldFiles::Away => {}
            }
            world.clock().advance(pause);
            while arrived <= life.wave.min(last) {
                let wave = &self.input.waves[arrived];
                world.arrive(wave).map_err(|e| Violation::new(e.to_string()))?;
                arrived += 1;
            }
            if !pause.is_zero() {
                life.runs[0].retained = 2;
            }
            let away = life.old == OldFiles::Away;
            if away {
                world.take_away();
            }
            let changed = life.runs[0].changed;
            let ended = self.live(&world, &life, coverage, &mut trace)?;
            done = (ended && !away && !changed).then_some(life.wave);
            if away {
                world.bring_back();
            }
            if changed && logs != self::logs(&world) {
                return Err(Violation::new("a changed query was refused, but changed the logs"));
            }
            check_moment(&world, &self.query, &self.expected, &mut seen)?;
        }
        check_end_state(&world, &self.query, &self.expected)?;
        if self.input.is_quiet(last) {
            start_again(&world, &self.query)?;
            garbage::check(&world, &self.expected.counts)?;
        }
        trace.disk(world.disk(), foreign(&self.query));
        let trace = trace.finish();
        coverage.history(trace);
        Ok(Outcome { trace })
    }

    /// Whether a run did all there was to do.
    fn live(
        &self,
        world: &World,
        life: &Life,
        coverage: &mut Coverage,
        trace: &mut Trace,
    ) -> Result<bool, Violation> {
        let query = match life.runs[0].changed {
            true => self.query.changed().unwrap_or(&self.query),
            false => &self.query,
        };
        let ended = live(world, query, life).map_err(|e| Violation::new(e.to_string()))?;
        let mut done = false;
        for (run, ended) in life.runs.iter().zip(&ended) {
            coverage.runs += 1;
            coverage.steps += ended.calls.len() as u64;
            trace.calls(&ended.calls, foreign(&self.query));
            match (&ended.end, run.crash) {
                (End::Crashed, Some(crash)) => coverage.crashed(ended.calls.last(), crash.when),
                // After a stale listing there may be more.
                (End::Done, _) => done |= !run.once && run.faults.is_empty(),
                (End::Failed(error), _) => trace.text(&error.to_string()),
                _ => {}
            }
            check_end(life, run, ended)?;
        }
        Ok(done)
    }

    /// Replays a line that a failure printed: its schedule, between the quotes.
    ///
    /// # Errors
    ///
    /// As [`Self::run`], or that the text is no schedule.
    pub fn replay(&self, schedule: &str) -> Result<Outcome, Violation> {
        let schedule: Schedule =
            schedule.parse().map_err(|e: fluvial::Error| Violation::new(e.to_string()))?;
        self.run(&schedule, &mut Coverage::default())
    }
}

/// Cleaning takes what is older than an hour.
const LATE: Duration = Duration::from_secs(2 * 3600);

/// Long enough for any clock that jumped: what was committed in the future is old by then.
const PEACE: Duration = Duration::from_secs(30 * 24 * 3600);

/// A wave worked off without a fault; a quiet one file by file, with cleaning.
fn calm(input: &Input, wave: usize) -> Life {
    let mut life = Life::clean(wave);
    if input.is_quiet(wave) {
        (life.runs[0].limit, life.runs[0].retained) = (1, 2);
    }
    life
}

/// Plans and commits that are there.
fn logs(world: &World) -> Vec<String> {
    let log = |folder| world.disk().paths_under(folder);
    [log("checkpoint/offsets/"), log("checkpoint/commits/")].concat()
}

/// Starts the query once more, with nothing left to do.
fn start_again(world: &World, query: &Query) -> Result<(), Violation> {
    let life = Life::clean(0);
    for ended in live(world, query, &life).map_err(|e| Violation::new(e.to_string()))? {
        check_end(&life, &life.runs[0], &ended)?;
    }
    Ok(())
}

/// Where a format lies whose bytes differ from run to run.
fn foreign(query: &Query) -> &'static str {
    match query.out() {
        crate::Output::Delta | crate::Output::Merged => crate::output::FOLDER,
        _ => "\u{0}",
    }
}

/// On a thread whose stack is large enough for deep plans. Who does many schedules does them all
/// inside of one call: a thread for each takes longer than some schedules.
pub fn aside<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread_local!(static ASIDE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
    if ASIDE.get() {
        return work();
    }
    let work = || {
        ASIDE.set(true);
        work()
    };
    const STACK: usize = 64 << 20;
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        match thread.map(std::thread::ScopedJoinHandle::join) {
            Ok(Ok(value)) => value,
            Ok(Err(panic)) => std::panic::resume_unwind(panic),
            Err(error) => panic!("no thread can be had: {error}"),
        }
    })
}
