//! Honest parts survive everything.

use crate::explore::{every_crash_point, every_fault, many_crashes, zombies};
use crate::scenarios::{dedup, union, windowed};

#[test]
fn dedup_survives_every_crash_point() {
    let explored = every_crash_point(&dedup()).expect("exactly once");
    assert!(explored.runs > 2 * explored.steps && explored.steps > 60, "{explored:?}");
}

/// Trap E18.
#[test]
fn windows_survive_every_crash_point() {
    every_crash_point(&windowed()).expect("exactly once");
}

#[test]
fn a_union_survives_every_crash_point() {
    every_crash_point(&union()).expect("exactly once");
}

#[test]
fn windows_survive_many_crashes() {
    many_crashes(&windowed(), 0..80).expect("exactly once");
}

#[test]
fn a_union_survives_many_crashes() {
    many_crashes(&union(), 0..60).expect("exactly once");
}

#[test]
fn dedup_survives_zombies() {
    zombies(&dedup(), 0..80).expect("exactly once");
}

#[test]
fn windows_survive_zombies() {
    zombies(&windowed(), 0..80).expect("exactly once");
}

#[test]
fn every_fault_is_ridden_out() {
    every_fault(&windowed()).expect("retried, and nothing twice");
}
