//! A clock that nobody winds but the test.

use crate::exec::yield_now;
use async_trait::async_trait;
use fluvial_core::Clock;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// A clock that moves only when someone sleeps on it or calls [`advance`](Self::advance).
/// Clones share the time.
#[derive(Debug, Clone, Default)]
pub struct VirtualClock(Arc<Time>);

#[derive(Debug, Default)]
struct Time {
    wall_ms: AtomicI64,
    monotonic_ns: AtomicU64,
}

impl VirtualClock {
    /// A clock that shows 1970-01-01T00:00:00 UTC.
    pub fn new() -> Self {
        Self::default()
    }

    /// A clock that shows `now_ms` milliseconds since the epoch.
    pub fn at(now_ms: i64) -> Self {
        let clock = Self::default();
        clock.set_wall(now_ms);
        clock
    }

    /// Lets time pass, on the wall and monotonically.
    pub fn advance(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let before = self.0.monotonic_ns.fetch_add(ns, SeqCst);
        // Whole milliseconds of the sum, so that many short sleeps add up.
        let ms = before.saturating_add(ns) / 1_000_000 - before / 1_000_000;
        self.0.wall_ms.fetch_add(i64::try_from(ms).unwrap_or(i64::MAX), SeqCst);
    }

    /// Sets the wall clock alone, forwards or back, as an administrator would.
    pub fn set_wall(&self, now_ms: i64) {
        self.0.wall_ms.store(now_ms, SeqCst);
    }
}

#[async_trait]
impl Clock for VirtualClock {
    fn now_ms(&self) -> i64 {
        self.0.wall_ms.load(SeqCst)
    }

    fn monotonic(&self) -> Duration {
        Duration::from_nanos(self.0.monotonic_ns.load(SeqCst))
    }

    async fn sleep(&self, duration: Duration) {
        yield_now().await;
        self.advance(duration);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::block_on;

    #[test]
    fn sleeping_moves_it_and_short_sleeps_add_up() {
        let clock = VirtualClock::at(1000);
        for _ in 0..4 {
            block_on(clock.sleep(Duration::from_micros(250)));
        }
        assert_eq!(clock.now_ms(), 1001);
        assert_eq!(clock.monotonic(), Duration::from_millis(1));
    }

    #[test]
    fn setting_the_wall_back_leaves_the_monotonic_time_alone() {
        let clock = VirtualClock::new();
        clock.advance(Duration::from_secs(5));
        clock.set_wall(-7);
        assert_eq!((clock.now_ms(), clock.monotonic()), (-7, Duration::from_secs(5)));
    }
}
