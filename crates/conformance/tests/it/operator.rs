//! The laws of operators hold for an honest operator, and each catches the broken ones.

mod window_sums;

use fluvial_conformance::operator::{self as laws, Make, Subject};
use std::panic::{AssertUnwindSafe, catch_unwind};
use window_sums::{Fault, Sums};

fluvial_conformance::operator!(timed: window_sums_laws, || Sums::new(Fault::Nothing));

fn assert_caught(law: fn(Make<'_>), fault: Fault) {
    let make = || Box::new(Sums::new(fault)) as Box<dyn Subject>;
    let caught = catch_unwind(AssertUnwindSafe(|| law(&make))).is_err();
    assert!(caught, "the law does not see {fault:?}");
}

#[test]
fn is_deterministic_catches() {
    assert_caught(laws::is_deterministic, Fault::SeesAClock);
}

#[test]
fn is_chunk_invariant_catches() {
    assert_caught(laws::is_chunk_invariant, Fault::CountsChunks);
}

#[test]
fn is_cut_invariant_catches() {
    assert_caught(laws::is_cut_invariant, Fault::ForgetsState);
}

#[test]
fn ignores_late_rows_catches() {
    for fault in [Fault::TakesLateRows, Fault::CountsNoLateRows, Fault::KeepsLateRows] {
        assert_caught(laws::ignores_late_rows, fault);
    }
}

#[test]
fn state_is_bounded_by_watermark_catches() {
    for fault in [Fault::NeverEvicts, Fault::EvictsOnePerBatch] {
        assert_caught(laws::state_is_bounded_by_watermark, fault);
    }
}

#[test]
fn output_is_bounded_catches() {
    for fault in [Fault::Floods, Fault::DropsTheRest] {
        assert_caught(laws::output_is_bounded, fault);
    }
}

#[test]
fn writes_before_it_evicts_catches() {
    assert_caught(laws::writes_before_it_evicts, Fault::EvictsFirst);
}

#[test]
fn accounts_for_every_row_catches() {
    for fault in [Fault::LosesARow, Fault::CountsTwice, Fault::CountsNoLateRows] {
        assert_caught(laws::accounts_for_every_row, fault);
    }
}

#[test]
fn is_rescaling_invariant_catches() {
    assert_caught(laws::is_rescaling_invariant, Fault::SeesThePartition);
}

#[test]
fn prefetches_what_it_reads_catches() {
    assert_caught(laws::prefetches_what_it_reads, Fault::PrefetchesNothing);
}

#[test]
fn is_the_same_on_a_local_store_catches() {
    assert_caught(laws::is_the_same_on_a_local_store, Fault::ForgetsLocalState);
}
