//! How far back a query can be restored.

use fluvial_core::{BatchId, BatchTime};
use std::time::Duration;

/// Entries are kept while they are among the newest `batches` *or* younger than `age`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// How many batches are kept at least. The newest two always are: recovery needs them.
    pub batches: usize,
    /// How long each is kept at least.
    pub age: Duration,
}

impl Default for Retention {
    /// 100 batches and one hour, whichever is more.
    fn default() -> Self {
        Self { batches: 100, age: Duration::from_secs(3600) }
    }
}

/// The oldest batch to keep, from what is committed (oldest first) and when. Everything before
/// it may go: log entries, and state that no kept commit names.
///
/// Times that run backwards (a clock was set) only ever keep more.
pub fn retain_from(
    commits: &[(BatchId, BatchTime)],
    now: BatchTime,
    retention: &Retention,
) -> BatchId {
    let by_count = commits.len().saturating_sub(retention.batches.max(2));
    let age_ms = i64::try_from(retention.age.as_millis()).unwrap_or(i64::MAX);
    let young = now.0.saturating_sub(age_ms);
    let by_age = commits.iter().take_while(|(_, committed)| committed.0 < young).count();
    match commits.get(by_count.min(by_age)) {
        Some((batch, _)) => *batch,
        None => BatchId::FIRST,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn commits(times: &[i64]) -> Vec<(BatchId, BatchTime)> {
        (7..).map(BatchId).zip(times.iter().copied().map(BatchTime)).collect()
    }

    fn keep(batches: usize, age_ms: u64) -> Retention {
        Retention { batches, age: Duration::from_millis(age_ms) }
    }

    #[test]
    fn both_must_allow_it() {
        let commits = commits(&[0, 10, 20, 30, 40]);
        let from = |retention| retain_from(&commits, BatchTime(50), &retention).0 - 7;
        assert_eq!(from(keep(3, 0)), 2, "the newest three");
        assert_eq!(from(keep(2, 25)), 3, "the last 25 ms");
        assert_eq!(from(keep(2, 45)), 1);
        assert_eq!(from(keep(99, 0)), 0);
        assert_eq!(from(keep(0, 0)), 3, "never fewer than two");
        assert_eq!(retain_from(&[], BatchTime(0), &Retention::default()), BatchId(0));
    }

    #[test]
    fn a_clock_set_back_keeps_more() {
        assert_eq!(retain_from(&commits(&[100, 5, 6, 7]), BatchTime(60), &keep(2, 0)).0, 7);
    }

    proptest! {
        #[test]
        fn nothing_young_and_none_of_the_newest_goes(
            times in proptest::collection::vec(-50i64..50, 0..12),
            now in -60i64..120, batches in 0usize..14, age in 0u64..60,
        ) {
            let commits = commits(&times);
            let from = retain_from(&commits, BatchTime(now), &keep(batches, age));
            let kept = commits.iter().filter(|(batch, _)| *batch >= from).count();
            prop_assert!(kept >= batches.max(2).min(commits.len()));
            for (batch, time) in &commits {
                prop_assert!(time.0 < now - age as i64 || *batch >= from);
            }
        }
    }
}
