use crate::stopwatch::Stopwatch;
use std::collections::BTreeMap;
use std::time::Duration;

/// Where the time of a trigger went, by the names of Spark's progress.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timings(BTreeMap<&'static str, Duration>);

impl Timings {
    pub(crate) fn add(&mut self, name: &'static str, duration: Duration) {
        *self.0.entry(name).or_default() += duration;
    }

    /// Awaits `work` and adds how long it took.
    pub(crate) async fn measure<T>(
        &mut self,
        stopwatch: &Stopwatch,
        name: &'static str,
        work: impl Future<Output = T>,
    ) -> T {
        let start = stopwatch.now();
        let result = work.await;
        self.add(name, stopwatch.since(start));
        result
    }

    /// In whole milliseconds.
    pub(crate) fn millis(&self) -> BTreeMap<String, u64> {
        self.0.iter().map(|(name, time)| ((*name).to_owned(), millis(*time))).collect()
    }
}

/// Whole milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
