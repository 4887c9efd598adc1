//! A clock that can hold a query still while its input arrives, and go ahead.

use async_trait::async_trait;
use fluvial::{Clock, SystemClock};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(1);

/// The machine's clock, but nobody wakes up while the gate is closed, and cases that wait do not
/// make anybody wait.
#[derive(Default)]
pub(crate) struct GateClock {
    clock: SystemClock,
    closed: AtomicBool,
    sleeping: AtomicUsize,
    ahead_ms: AtomicI64,
}

impl GateClock {
    /// Closes the gate and waits until the query sleeps behind it.
    pub(crate) async fn close(&self) {
        self.closed.store(true, SeqCst);
        while self.sleeping.load(SeqCst) == 0 {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Lets time pass at once.
    pub(crate) fn skip(&self, ms: u64) {
        self.ahead_ms.fetch_add(i64::try_from(ms).unwrap_or(i64::MAX), SeqCst);
    }

    /// Opens it.
    pub(crate) fn open(&self) {
        self.closed.store(false, SeqCst);
    }
}

#[async_trait]
impl Clock for GateClock {
    fn now_ms(&self) -> i64 {
        self.clock.now_ms().saturating_add(self.ahead_ms.load(SeqCst))
    }

    fn monotonic(&self) -> Duration {
        self.clock.monotonic()
    }

    async fn sleep(&self, duration: Duration) {
        // A sleep may be given up; then nobody sleeps any more.
        let _asleep = Asleep::new(&self.sleeping);
        self.clock.sleep(duration).await;
        while self.closed.load(SeqCst) {
            tokio::time::sleep(LOOK).await;
        }
    }
}

/// Counts as long as it lives.
struct Asleep<'a>(&'a AtomicUsize);

impl<'a> Asleep<'a> {
    fn new(sleeping: &'a AtomicUsize) -> Self {
        sleeping.fetch_add(1, SeqCst);
        Self(sleeping)
    }
}

impl Drop for Asleep<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}
