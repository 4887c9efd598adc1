//! The laws of sinks hold for an honest sink, and each catches the broken ones.

mod object_sink;

use fluvial_conformance::sink::{self as laws, Destination, Make};
use object_sink::{Fault, Place};
use std::panic::{AssertUnwindSafe, catch_unwind};

fluvial_conformance::sink!(durable: object_sink_of_one, || Place::new(Fault::Nothing));
fluvial_conformance::sink!(durable: object_sink_of_many, || Place::shared(Fault::Nothing));

fn assert_caught(law: fn(Make<'_>), place: fn(Fault) -> Place, fault: Fault) {
    let make = || Box::new(place(fault)) as Box<dyn Destination>;
    let caught = catch_unwind(AssertUnwindSafe(|| law(&make))).is_err();
    assert!(caught, "the law does not see {fault:?}");
}

#[test]
fn staged_is_invisible_catches() {
    assert_caught(laws::staged_is_invisible, Place::new, Fault::StagedVisible);
}

#[test]
fn drop_aborts_catches() {
    assert_caught(laws::drop_aborts, Place::new, Fault::DropKeeps);
}

#[test]
fn commit_is_atomic_under_crashes_catches() {
    for fault in [Fault::Torn, Fault::NoteLater, Fault::RowsOfLoser] {
        assert_caught(laws::commit_is_atomic_under_crashes, Place::new, fault);
    }
}

#[test]
fn restarts_end_well_catches() {
    for fault in [Fault::Torn, Fault::RetriesElsewhere] {
        assert_caught(laws::restarts_end_well, Place::new, fault);
    }
}

#[test]
fn commit_is_idempotent_catches() {
    for fault in [Fault::Overwrites, Fault::OnlyEqual] {
        assert_caught(laws::commit_is_idempotent, Place::new, fault);
    }
}

#[test]
fn note_is_kept_catches() {
    assert_caught(laws::note_is_kept, Place::new, Fault::WrongNote);
}

#[test]
fn told_catches() {
    assert_caught(laws::told, Place::new, Fault::TellsLess);
}

#[test]
fn history_is_kept_catches() {
    assert_caught(laws::history_is_kept, Place::new, Fault::TextOrder);
}

#[test]
fn complete_replaces_catches() {
    assert_caught(laws::complete_replaces, Place::new, Fault::CompleteAdds);
}

#[test]
fn one_owner_catches() {
    for fault in [Fault::NoOwner, Fault::LooksThenOwns] {
        assert_caught(laws::one_owner, Place::new, fault);
    }
    assert_caught(laws::one_owner, Place::shared, Fault::SharedCount);
}

#[test]
fn faults_do_no_damage_catches() {
    for fault in [Fault::BelievesConflicts, Fault::RetriesElsewhere] {
        assert_caught(laws::faults_do_no_damage, Place::new, fault);
    }
}

#[test]
fn races_have_one_winner_catches() {
    for fault in [Fault::LooksThenOverwrites, Fault::EverybodyWins] {
        assert_caught(laws::races_have_one_winner, Place::new, fault);
    }
}

#[test]
fn zombies_change_nothing_catches() {
    for fault in [Fault::LooksThenOverwrites, Fault::EverybodyWins, Fault::OnlyEqual] {
        assert_caught(laws::zombies_change_nothing, Place::new, fault);
    }
}
