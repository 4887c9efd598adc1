//! Each law catches the source that breaks it.

use super::numbers::{Fault, World};
use fluvial_conformance::source::{self, Make};
use std::panic::{AssertUnwindSafe, catch_unwind};

fluvial_conformance::source!(honest, World::make(Fault::None));

fn catches(law: fn(Make<'_>), fault: Fault) {
    let make = World::make(fault);
    let outcome = catch_unwind(AssertUnwindSafe(|| law(&make)));
    assert!(outcome.is_err(), "{fault:?} was not noticed");
}

#[test]
fn replays_catches_a_source_that_reads_the_latest() {
    catches(source::replays, Fault::ReadsTheLatest);
}

#[test]
fn progress_catches_a_source_that_plans_nothing() {
    catches(source::makes_progress, Fault::PlansNothing);
}

#[test]
fn admission_catches_a_source_that_ignores_limits() {
    catches(source::admits_within_limits, Fault::IgnoresLimits);
}

#[test]
fn additivity_catches_a_source_that_skips_at_cuts() {
    catches(source::is_additive, Fault::SkipsAtCuts);
}

#[test]
fn frontier_catches_a_source_that_passes_it() {
    catches(source::frontier_is_not_passed, Fault::PassesTheFrontier);
}

#[test]
fn planning_catches_a_source_that_remembers_plans() {
    catches(source::planning_is_not_remembering, Fault::RemembersPlans);
}

#[test]
fn crashes_catch_a_source_that_records_plans() {
    catches(source::survives_crashes, Fault::RecordsPlans);
}

#[test]
fn release_catches_a_source_that_releases_too_much() {
    catches(source::releases_only_the_past, Fault::ReleasesTooMuch);
    catches(source::release_survives_crashes, Fault::ReleasesTooMuch);
}

#[test]
fn release_catches_a_source_that_releases_once() {
    catches(source::releases_only_the_past, Fault::ReleasesOnce);
}

#[test]
fn projection_catches_a_source_that_ignores_the_order() {
    catches(source::projects, Fault::IgnoresTheOrder);
}

#[test]
fn projection_catches_a_source_that_loses_rows() {
    catches(source::projects, Fault::LosesRowsWithoutColumns);
}
