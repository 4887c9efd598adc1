//! The laws of batch logs hold for an honest log, and each catches the broken ones.

mod plain_log;

use fluvial_conformance::log::{self as laws, Make};
use plain_log::{Fault, PlainLog};
use std::panic::{AssertUnwindSafe, catch_unwind};

fluvial_conformance::batch_log!(plain_log_of_tests, |store| {
    Box::new(PlainLog::new(store, Fault::Nothing)) as _
});

fn assert_caught(law: fn(Make<'_>), faults: &[Fault]) {
    for fault in faults.iter().copied() {
        let caught = catch_unwind(AssertUnwindSafe(|| {
            law(&|store| Box::new(PlainLog::new(store, fault)));
        }));
        assert!(caught.is_err(), "the law does not see {fault:?}");
    }
}

#[test]
fn one_winner_catches() {
    assert_caught(laws::one_winner, &[Fault::Overwrites, Fault::BothWin, Fault::OwnIsForeign]);
}

#[test]
fn races_have_one_winner_catches() {
    assert_caught(laws::races_have_one_winner, &[Fault::ChecksThenWrites, Fault::BothWin]);
}

#[test]
fn lost_answers_are_found_again_catches() {
    assert_caught(
        laws::lost_answers_are_found_again,
        &[Fault::OwnIsForeign, Fault::BelievesConflicts],
    );
}

#[test]
fn survives_reopening_catches() {
    assert_caught(laws::survives_reopening, &[Fault::TextOrder, Fault::Remembers]);
}

#[test]
fn survives_crashes_catches() {
    assert_caught(laws::survives_crashes, &[Fault::CommitsLate]);
}

#[test]
fn foreign_names_are_ignored_catches() {
    assert_caught(laws::foreign_names_are_ignored, &[Fault::AnyName]);
}

#[test]
fn damage_is_detected_catches() {
    assert_caught(laws::damage_is_detected, &[Fault::Unchecked, Fault::SkipsDamage]);
}

#[test]
fn truncation_keeps_what_recovery_needs_catches() {
    assert_caught(
        laws::truncation_keeps_what_recovery_needs,
        &[Fault::TruncatesAll, Fault::KeepsOne, Fault::KeepsAll],
    );
}

#[test]
fn removed_is_not_free_catches() {
    assert_caught(laws::removed_is_not_free, &[Fault::NoMark]);
}

#[test]
fn query_id_is_made_once_catches() {
    assert_caught(laws::query_id_is_made_once, &[Fault::Overwrites, Fault::IdOfEachRun]);
}

#[test]
fn query_id_is_not_made_up_catches() {
    assert_caught(laws::query_id_is_not_made_up, &[Fault::MakesUpId]);
}
