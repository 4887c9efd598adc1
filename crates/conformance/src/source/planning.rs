//! Laws 2, 5 and 6: what is planned.

use super::history::{History, Step, limits, steps};
use super::{Make, check};
use fluvial_core::ReadLimit;
use proptest::prelude::*;

/// Law 2: there is a plan iff there is something to read.
///
/// # Panics
///
/// If the implementation breaks the law.
pub fn makes_progress(make: Make<'_>) {
    check((steps(), limits()), |(steps, limit)| {
        let mut history = History::new(make, 0);
        if !history.is_endless() {
            prop_assert_eq!(history.plan(limit, None), None, "nothing arrived yet");
        }
        steps.iter().for_each(|step| history.step(step));
        history.finish(limit, None, 200);
        if !history.is_endless() && history.rows() < 200 {
            prop_assert_eq!(history.plan(ReadLimit::NONE, None), None, "all was read");
            history.restart();
            prop_assert_eq!(history.plan(limit, None), None, "also after a restart");
        }
        history.feed();
        let rows = history.batch(ReadLimit::NONE, None);
        prop_assert!(rows.is_some_and(|rows| rows.num_rows() > 0), "something arrived");
        Ok(())
    });
}

/// Law 5: planning up to a frontier ends, whatever arrives meanwhile, and reads all that was
/// there when the frontier was taken.
///
/// # Panics
///
/// If the implementation breaks the law.
pub fn frontier_is_not_passed(make: Make<'_>) {
    check((steps(), limits(), 0..4usize), |(steps, limit, later)| {
        let mut history = History::new(make, 1);
        steps.iter().for_each(|step| history.step(step));
        // Another query with the same past reads what is there now.
        let mut twin = History::new(make, 1);
        steps.iter().for_each(|step| twin.step(step));
        if !twin.is_endless() {
            twin.finish(ReadLimit::NONE, None, usize::MAX);
        }
        let frontier = history.wait(history.source.frontier()).expect("a frontier");
        for _ in 0..later {
            history.feed();
            history.batch(limit, Some(&frontier));
        }
        history.finish(limit, Some(&frontier), usize::MAX);
        prop_assert_eq!(history.plan(ReadLimit::NONE, Some(&frontier)), None);
        if !twin.is_endless() {
            prop_assert_eq!(history.all(), twin.all());
        }
        Ok(())
    });
}

/// Law 6: a plan that was lost leaves no trace in later ones.
///
/// # Panics
///
/// If the implementation breaks the law.
pub fn planning_is_not_remembering(make: Make<'_>) {
    check(steps(), |steps| {
        let (mut history, mut twin) = (History::new(make, 2), History::new(make, 2));
        for step in &steps {
            history.step(step);
            if !matches!(step, Step::Lost(_)) {
                twin.step(step);
            }
        }
        prop_assert_eq!(history.batches.len(), twin.batches.len());
        for ((range, rows), (other, others)) in history.batches.iter().zip(&twin.batches) {
            prop_assert_eq!(&range.end, &other.end);
            prop_assert_eq!(rows, others);
        }
        Ok(())
    });
}
