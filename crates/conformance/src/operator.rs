//! Laws of [`fluvial_core::Operator`].
//!
//! ```text
//! operator!(timed: my_windows, || MyWindows);    // has an event time: rows are late and expire
//! operator!(timeless: my_limit, || MyLimit);     // has none
//! ```
//!
//! The expression makes a [`Subject`]: the operator, and how the kit's events become its input.
//! Every law runs on [`TestStore`], which notices reads that were not prefetched.

mod history;
mod laws;
mod store;

pub use laws::{
    accounts_for_every_row, ignores_late_rows, is_chunk_invariant, is_cut_invariant,
    is_deterministic, is_rescaling_invariant, is_the_same_on_a_local_store, output_is_bounded,
    prefetches_what_it_reads, state_is_bounded_by_watermark, writes_before_it_evicts,
};
pub use store::{Contents, TestStore};

use arrow::array::RecordBatch;
use fluvial_core::{EventDuration, KeyGroup, KeyGroupCount, Operator, OutputMode};

/// Something that happened: the kit's rows, before they have the form that an operator wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// A key out of a few.
    pub key: i64,
    /// Its event time, in microseconds since the epoch.
    pub time: i64,
    /// A small number.
    pub value: i64,
}

/// An operator under test and what the kit must know of it.
pub trait Subject {
    /// The operator.
    fn operator(&self) -> &dyn Operator;

    /// The mode to run it in. The laws about append mode pass in any other.
    fn mode(&self) -> OutputMode;

    /// The events as input of a port; at least one row for each event.
    fn rows(&self, port: usize, events: &[Event]) -> RecordBatch;

    /// The key group of each row of an input, as the exchange in front of the operator has it.
    fn groups(&self, port: usize, rows: &RecordBatch, key_groups: KeyGroupCount) -> Vec<KeyGroup>;

    /// How many rows of state these entries are, as [`fluvial_core::OperatorCounts::rows_total`]
    /// counts them.
    fn rows_in(&self, contents: &Contents) -> u64 {
        contents.len() as u64
    }

    /// What of a state two ways of cutting the input must agree on: by default every byte. An
    /// operator whose layout remembers the batches that wrote it says here what it means.
    fn meaning(&self, contents: &Contents) -> Contents {
        contents.clone()
    }

    /// The longest time from an event to the end of what it belongs to: a window's size.
    fn reach(&self) -> EventDuration;
}

/// Makes new subjects.
pub type Make<'a> = &'a dyn Fn() -> Box<dyn Subject>;

/// Stamps the laws of [`fluvial_core::Operator`] on an implementation: one `#[test]` per law, in a
/// module of the given name. See [`Subject`] for what the expression makes.
#[macro_export]
macro_rules! operator {
    (timed: $name:ident, $make:expr) => {
        $crate::operator!(@laws $name, $make, [
            is_deterministic
            is_chunk_invariant
            is_cut_invariant
            ignores_late_rows
            state_is_bounded_by_watermark
            output_is_bounded
            writes_before_it_evicts
            accounts_for_every_row
            is_rescaling_invariant
            prefetches_what_it_reads
            is_the_same_on_a_local_store
        ]);
    };
    (timeless: $name:ident, $make:expr) => {
        $crate::operator!(@laws $name, $make, [
            is_deterministic
            is_chunk_invariant
            is_cut_invariant
            output_is_bounded
            accounts_for_every_row
            is_rescaling_invariant
            prefetches_what_it_reads
            is_the_same_on_a_local_store
        ]);
    };
    (@laws $name:ident, $make:expr, [$($law:ident)*]) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            $(
                #[test]
                fn $law() {
                    $crate::operator::$law(
                        &|| Box::new($make()) as Box<dyn $crate::operator::Subject>,
                    );
                }
            )*
        }
    };
}
