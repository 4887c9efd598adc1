//! Law 7: letting go of the past.

use super::history::{History, limits, steps};
use super::{Make, check};
use fluvial_core::{ReadLimit, SourceRange};
use fluvial_sim::CrashAt;
use object_store::ObjectStore;
use proptest::prelude::*;
use std::num::NonZeroU64;
use std::sync::Arc;

/// Law 7: releasing a range, once or several times, changes nothing for later ones, here and
/// after a restart.
///
/// # Panics
///
/// If the implementation breaks the law.
pub fn releases_only_the_past(make: Make<'_>) {
    check((steps(), limits(), any::<prop::sample::Index>()), |(steps, limit, index)| {
        let mut history = History::new(make, 3);
        steps.iter().for_each(|step| history.step(step));
        history.finish(limit, None, 200);
        let released = index.index(history.batches.len());
        let range = history.batches[released].0.clone();
        for _ in 0..2 {
            history.wait(history.source.release(&range)).expect("release");
        }
        let other = history.reopen(history.disk.process().store());
        for (range, rows) in &history.batches[released + 1..] {
            prop_assert_eq!(
                &history.read(history.source.as_ref(), range, None).expect("again"),
                rows
            );
            prop_assert_eq!(&history.read(other.as_ref(), range, None).expect("elsewhere"), rows);
        }
        let mut twin = History::new(make, 3);
        steps.iter().for_each(|step| twin.step(step));
        twin.finish(limit, None, 200);
        // The future is the same, too.
        for history in [&mut history, &mut twin] {
            history.feed();
        }
        let rows = history.batch(ReadLimit::NONE, None);
        prop_assert_eq!(rows, twin.batch(ReadLimit::NONE, None));
        history.restart();
        twin.restart();
        history.feed();
        twin.feed();
        let rows = history.batch(ReadLimit::NONE, None);
        prop_assert_eq!(rows, twin.batch(ReadLimit::NONE, None));
        Ok(())
    });
}

/// Law 7 under crashes: a release that dies half way can be repeated by another process.
///
/// # Panics
///
/// If the implementation breaks the law.
pub fn release_survives_crashes(make: Make<'_>) {
    let begin = || {
        let mut history = History::new(make, 14);
        let limit = ReadLimit { rows: NonZeroU64::new(2), ..ReadLimit::NONE };
        history.finish(limit, None, 60);
        history
    };
    let released = begin().batches.len().saturating_sub(3);
    let steps = {
        let history = begin();
        let process = history.disk.process();
        let range = history.batches[released].0.clone();
        history.wait(process.live(attempt(&history, process.store(), range)));
        process.steps()
    };
    for crash in CrashAt::each(steps) {
        let history = begin();
        let process = history.disk.mortal(crash);
        let range = history.batches[released].0.clone();
        let ended = history.wait(process.live(attempt(&history, process.store(), range.clone())));
        assert!(ended.is_none(), "{crash:?} is a step of the attempt");
        let process = history.disk.process();
        history.wait(process.live(attempt(&history, process.store(), range)));
        let other = history.reopen(history.disk.process().store());
        for (range, rows) in &history.batches[released + 1..] {
            let again = history.read(other.as_ref(), range, None).expect("a later range");
            assert_eq!(&again, rows, "after {crash:?}");
        }
    }
}

async fn attempt(history: &History, store: Arc<dyn ObjectStore>, range: SourceRange) {
    let source = history.reopening(store).await.expect("a new process goes on");
    source.release(&range).await.expect("release");
}
