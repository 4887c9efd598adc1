//! Laws 1 and 4: what is read, again and in parts.

use super::history::{History, Step, steps};
use super::{Make, check};
use fluvial_core::ReadLimit;
use fluvial_sim::CrashAt;
use proptest::prelude::*;

/// Law 1: an adopted range reads the same again, in this process and in another one, whatever
/// arrived since.
///
/// # Panics
///
/// If the implementation breaks the law.
pub fn replays(make: Make<'_>) {
    check(steps(), |steps| {
        let mut history = History::new(make, 1);
        steps.iter().for_each(|step| history.step(step));
        history.finish(ReadLimit::NONE, None, 200);
        history.feed();
        let other = history.reopen(history.disk.process().store());
        prop_assert!(!history.batches.is_empty());
        for (range, rows) in &history.batches {
            prop_assert_eq!(
                &history.read(history.source.as_ref(), range, None).expect("again"),
                rows
            );
            prop_assert_eq!(&history.read(other.as_ref(), range, None).expect("elsewhere"), rows);
        }
        Ok(())
    });
}

/// Law 4: batches of any size, with restarts and lost plans between them, read what large ones
/// do: all of it, once, in the same order.
///
/// # Panics
///
/// If the implementation breaks the law.
pub fn is_additive(make: Make<'_>) {
    check(steps(), |steps| {
        let mut history = History::new(make, 1);
        steps.iter().for_each(|step| history.step(step));
        history.finish(ReadLimit::NONE, None, 200);
        let portions = 1 + steps.iter().filter(|step| matches!(step, Step::Feed)).count();
        let mut whole = History::new(make, portions);
        whole.finish(ReadLimit::NONE, None, history.rows());
        let (parts, whole) = (history.all(), whole.all());
        let rows = if history.is_endless() { parts.num_rows() } else { whole.num_rows() };
        prop_assert!(whole.num_rows() >= rows);
        prop_assert_eq!(parts, whole.slice(0, rows));
        Ok(())
    });
}

/// Laws 1, 4 and 6 under crashes: a process that dies at any step of opening, adopting or
/// planning leaves no trace in what the next one reads.
///
/// # Panics
///
/// If the implementation breaks the law.
pub fn survives_crashes(make: Make<'_>) {
    let begin = || {
        let mut history = History::new(make, 3);
        history.batch(LIMIT, None);
        history
    };
    let mut expected = begin();
    expected.finish(LIMIT, None, 60);
    let steps = {
        let history = begin();
        let process = history.disk.process();
        history.wait(process.live(attempt(&history, process.store())));
        process.steps()
    };
    for crash in CrashAt::each(steps) {
        let mut history = begin();
        let process = history.disk.mortal(crash);
        let ended = history.wait(process.live(attempt(&history, process.store())));
        assert!(ended.is_none(), "{crash:?} is a step of the attempt");
        history.restart();
        history.finish(LIMIT, None, 60);
        assert_eq!(history.all(), expected.all(), "after {crash:?}");
    }
}

const LIMIT: ReadLimit = ReadLimit { rows: std::num::NonZeroU64::new(3), files: None, bytes: None };

/// A process that opens, adopts and plans, and comes to nothing.
async fn attempt(history: &History, store: std::sync::Arc<dyn object_store::ObjectStore>) {
    let source = history.reopening(store).await.expect("a new process goes on");
    let planned = history.plan_with(source.as_ref(), ReadLimit::NONE, None).await;
    drop(planned.expect("a plan"));
}
