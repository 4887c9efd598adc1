//! The laws of state hold for an honest backend, and each catches the broken ones.

mod saboteur;

use fluvial_conformance::state::{self as laws, Make};
use saboteur::{Fault, Saboteur};
use std::panic::{AssertUnwindSafe, catch_unwind};

fluvial_conformance::state_backend!(model, |store| Box::new(Saboteur::new(store, Fault::Nothing)));

fn assert_caught(law: fn(Make<'_>), fault: Fault) {
    let law = AssertUnwindSafe(|| law(&|store| Box::new(Saboteur::new(store, fault))));
    assert!(catch_unwind(law).is_err(), "the law does not see {fault:?}");
}

#[test]
fn reads_its_writes_catches() {
    for fault in [Fault::ReadsTheBase, Fault::FirstWins] {
        assert_caught(laws::reads_its_writes, fault);
    }
}

#[test]
fn scans_in_order_catches() {
    for fault in
        [Fault::ScansBackwards, Fault::IgnoresLimits, Fault::StopsShort, Fault::LimitsEachRange]
    {
        assert_caught(laws::scans_in_order, fault);
    }
}

#[test]
fn drop_aborts_catches() {
    assert_caught(laws::drop_aborts, Fault::DropKeeps);
}

#[test]
fn handles_are_isolated_catches() {
    assert_caught(laws::handles_are_isolated, Fault::SharesHandles);
}

#[test]
fn has_its_groups_only_catches() {
    for fault in [Fault::ShowsAllGroups, Fault::SwallowsForeignKeys] {
        assert_caught(laws::has_its_groups_only, fault);
    }
}

#[test]
fn unchanged_is_free_catches() {
    assert_caught(laws::unchanged_is_free, Fault::AlwaysWrites);
}

#[test]
fn the_first_stays_catches() {
    assert_caught(laws::the_first_stays, Fault::LastStays);
}

#[test]
fn what_is_taken_is_gone_catches() {
    assert_caught(laws::what_is_taken_is_gone, Fault::TakesNothing);
}

#[test]
fn new_is_new_catches() {
    assert_caught(laws::new_is_new, Fault::TakesAllForNew);
}

#[test]
fn is_exact_catches() {
    for fault in [Fault::OpensNewest, Fault::Resurrects] {
        assert_caught(laws::is_exact, fault);
    }
}

#[test]
fn is_exact_under_rescaling_catches() {
    for fault in [Fault::OpensOnePart, Fault::OpensOtherParts] {
        assert_caught(laws::is_exact_under_rescaling, fault);
    }
}

#[test]
fn genesis_is_empty_catches() {
    assert_caught(laws::genesis_is_empty, Fault::BeginsWithNewest);
}

#[test]
fn commit_is_atomic_under_crashes_catches() {
    assert_caught(laws::commit_is_atomic_under_crashes, Fault::MovesTheBase);
}

#[test]
fn faults_do_no_damage_catches() {
    assert_caught(laws::faults_do_no_damage, Fault::AlwaysAcknowledges);
}

#[test]
fn is_replayable_catches() {
    assert_caught(laws::is_replayable, Fault::NamesOneAttempt);
}

#[test]
fn retention_keeps_catches() {
    for fault in [Fault::DeletesAttempts, Fault::DeletesAllButNewest] {
        assert_caught(laws::retention_keeps, fault);
    }
}

#[test]
fn retention_deletes_catches() {
    for fault in [Fault::DeletesNothing, Fault::DeletesElsewhere] {
        assert_caught(laws::retention_deletes, fault);
    }
}

#[test]
fn damage_is_found_catches() {
    assert_caught(laws::damage_is_found, Fault::DamageIsEmpty);
}

#[test]
fn verified_is_readable_catches() {
    assert_caught(laws::verified_is_readable, Fault::VerifiesNothing);
}

#[test]
fn gone_is_said_catches() {
    for fault in [Fault::GoneIsEmpty, Fault::GoneIsDamage] {
        assert_caught(laws::gone_is_said, fault);
    }
}
