//! A clock that only the test moves.

use async_trait::async_trait;
use fluvial::Clock;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::watch;

/// Whoever sleeps on it wakes when the test has moved it far enough.
#[derive(Clone)]
pub(crate) struct ManualClock {
    epoch_ms: i64,
    time: watch::Sender<Time>,
}

#[derive(Default)]
struct Time {
    now: Duration,
    /// When each sleeper wakes.
    sleepers: BTreeMap<u64, Duration>,
    next: u64,
}

impl ManualClock {
    /// A clock that shows `now_ms` milliseconds since the epoch.
    pub(crate) fn at(now_ms: i64) -> Self {
        Self { epoch_ms: now_ms, time: watch::Sender::default() }
    }

    /// Lets time pass, once somebody sleeps: what was there to do before has been done by then.
    pub(crate) async fn advance(&self, duration: Duration) {
        self.asleep().await;
        self.time.send_modify(|time| time.now += duration);
        self.asleep().await;
    }

    /// Waits until somebody sleeps and all whose time has come are awake.
    pub(crate) async fn asleep(&self) {
        let resting = |time: &Time| {
            !time.sleepers.is_empty() && time.sleepers.values().all(|wakes| *wakes > time.now)
        };
        let mut time = self.time.subscribe();
        time.wait_for(resting).await.expect("the clock lives as long as this call");
    }
}

/// Wakes when it is dropped.
struct Sleeper<'a>(&'a ManualClock, u64);

impl Drop for Sleeper<'_> {
    fn drop(&mut self) {
        self.0.time.send_modify(|time| {
            time.sleepers.remove(&self.1);
        });
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.epoch_ms + self.time.borrow().now.as_millis() as i64
    }

    fn monotonic(&self) -> Duration {
        self.time.borrow().now
    }

    async fn sleep(&self, duration: Duration) {
        let mut wakes = Duration::ZERO;
        let mut name = 0;
        self.time.send_modify(|time| {
            wakes = time.now + duration;
            name = time.next;
            time.next += 1;
            time.sleepers.insert(name, wakes);
        });
        let _sleeper = Sleeper(self, name);
        let mut time = self.time.subscribe();
        time.wait_for(|time| time.now >= wakes).await.expect("the clock is borrowed here");
    }
}
