//! Law 8: projections.

use super::history::{History, steps};
use super::{Make, check};
use fluvial_core::ReadLimit;
use proptest::prelude::*;

/// Law 8: reading some columns gives these columns of the full rows, and as many rows.
///
/// # Panics
///
/// If the implementation breaks the law.
pub fn projects(make: Make<'_>) {
    let seeds = proptest::collection::vec(any::<prop::sample::Index>(), 0..5);
    check((steps(), seeds), |(steps, picks)| {
        let mut history = History::new(make, 2);
        steps.iter().for_each(|step| history.step(step));
        history.finish(ReadLimit::NONE, None, 60);
        let all = history.source.schema().fields().len();
        let mut columns: Vec<usize> = Vec::new();
        for column in picks.iter().map(|pick| pick.index(all)) {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        for (range, rows) in &history.batches {
            let some = history.read(history.source.as_ref(), range, Some(&columns)).expect("read");
            prop_assert_eq!(some.num_rows(), rows.num_rows());
            prop_assert_eq!(some, rows.project(&columns).expect("columns"));
        }
        Ok(())
    });
}
