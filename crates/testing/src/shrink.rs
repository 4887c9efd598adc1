//! Makes a failure smaller: fewer lives, fewer faults, less input.

use crate::coverage::Coverage;
use crate::input::Input;
use crate::schedule::{OldFiles, RunPlan, Schedule};
use crate::simulation::{Simulation, Violation};

/// How many smaller ones are tried.
const ATTEMPTS_MAX: usize = 150;

/// The smallest schedule and input found that break a promise, and which.
pub(crate) fn shrink(
    simulation: &Simulation,
    schedule: Schedule,
    violation: Violation,
) -> (Schedule, Input, Violation) {
    let (mut schedule, mut input, mut violation) = (schedule, simulation.input.clone(), violation);
    let mut attempts = 0;
    // A schedule first: each step of the input needs another run without faults.
    let mut again = true;
    while again && attempts < ATTEMPTS_MAX {
        again = false;
        for smaller in smaller(&schedule) {
            attempts += 1;
            if let Err(found) = simulation.run(&smaller, &mut Coverage::default()) {
                (schedule, violation, again) = (smaller, found, true);
                break;
            }
            if attempts >= ATTEMPTS_MAX {
                break;
            }
        }
    }
    let mut again = true;
    while again && attempts < ATTEMPTS_MAX {
        again = false;
        for smaller in input.smaller() {
            attempts += 1;
            // Without faults it must run: what fails by itself is another failure.
            let Ok(other) = Simulation::new(&simulation.query, &smaller) else { continue };
            if let Err(found) = other.run(&schedule, &mut Coverage::default()) {
                (input, violation, again) = (smaller, found, true);
                break;
            }
            if attempts >= ATTEMPTS_MAX {
                break;
            }
        }
    }
    (schedule, input, violation)
}

/// Schedules with something less.
fn smaller(schedule: &Schedule) -> Vec<Schedule> {
    let mut all = Vec::new();
    for life in 0..schedule.lives.len() {
        let mut fewer = schedule.clone();
        fewer.lives.remove(life);
        all.push(fewer);
    }
    for (life, lived) in schedule.lives.iter().enumerate() {
        if lived.old != OldFiles::There {
            let mut other = schedule.clone();
            other.lives[life].old = OldFiles::There;
            all.push(other);
        }
        for (run, plan) in lived.runs.iter().enumerate() {
            let mut with = |plan: RunPlan| {
                let mut other = schedule.clone();
                other.lives[life].runs[run] = plan;
                all.push(other);
            };
            let clean = RunPlan::clean();
            for fault in 0..plan.faults.len() {
                let mut fewer = plan.clone();
                fewer.faults.remove(fault);
                with(fewer);
            }
            if plan.crash.is_some() {
                with(RunPlan { crash: None, ..plan.clone() });
            }
            let (faults, changed) = (plan.faults.clone(), plan.changed);
            let plain = RunPlan { crash: plan.crash, faults, changed, ..clean };
            if plain != *plan {
                with(plain);
            }
            if lived.runs.len() > 1 {
                let mut fewer = schedule.clone();
                fewer.lives[life].runs.remove(run);
                all.push(fewer);
            }
        }
    }
    all
}
