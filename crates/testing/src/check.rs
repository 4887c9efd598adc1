//! The check of one query: every crash point, or many, then seeds.

use crate::coverage::Coverage;
use crate::input::Input;
use crate::query::Query;
use crate::schedule::Schedule;
use crate::shrink::shrink;
use crate::simulation::{Simulation, Violation};
use std::fmt;
use std::ops::Range;

/// Runs with at most this many crash points are crashed at each of them.
const POINTS_MAX: usize = 400;

/// What a check did.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// How much was tried.
    pub coverage: Coverage,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.coverage.fmt(f)
    }
}

/// A broken promise, and how to see it again.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The query.
    pub query: String,
    /// Its seed, if it came from one.
    pub seed: Option<u64>,
    /// What breaks it, as small as it could be made.
    pub schedule: Schedule,
    /// The input, as small as it could be made.
    pub input: Input,
    /// What broke.
    pub violation: Violation,
}

impl fmt::Display for Failure {
    /// One line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seed = self.seed.map(|seed| format!(" seed {seed}")).unwrap_or_default();
        write!(f, "{}{seed} \"{}\": {}", self.query, self.schedule, self.violation)?;
        write!(f, " [input of {} pieces]", self.input.size())
    }
}

impl std::error::Error for Failure {}

/// Checks a query: one run without a fault, a crash at every step (a sample of the steps if there
/// are many), and the schedules of `seeds`.
///
/// # Errors
///
/// The first failure, made smaller.
pub fn check(query: &Query, input: &Input, seeds: Range<u64>) -> Result<Report, Box<Failure>> {
    let failed = |violation| {
        let (query, schedule) = (query.name().to_owned(), Schedule::clean(input.waves.len()));
        Box::new(Failure { query, seed: None, schedule, input: input.clone(), violation })
    };
    let simulation = Simulation::new(query, input).map_err(failed)?;
    let mut report = Report::default();
    let points = simulation.crash_points();
    let every = points.len().div_ceil(POINTS_MAX).max(1);
    let points = points.into_iter().step_by(every).map(|schedule| (None, schedule));
    let seeds = seeds.map(|seed| (Some(seed), simulation.schedule(seed)));
    for (seed, schedule) in points.chain(seeds) {
        if let Err(violation) = simulation.run(&schedule, &mut report.coverage) {
            return Err(Box::new(Failure::smallest(&simulation, seed, schedule, violation)));
        }
    }
    Ok(report)
}

impl Failure {
    /// The failure of one schedule, made smaller.
    pub fn smallest(
        simulation: &Simulation,
        seed: Option<u64>,
        schedule: Schedule,
        violation: Violation,
    ) -> Self {
        let (schedule, input, violation) = shrink(simulation, schedule, violation);
        Self { query: simulation.query.name().to_owned(), seed, schedule, input, violation }
    }
}
