//! A clock that can hold a query still while its input arrives.

use async_trait::async_trait;
use fluvial::{Clock, SystemClock};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(1);

/// The machine's clock, but nobody wakes up while the gate is closed.
#[derive(Default)]
pub(crate) struct GateClock {
    clock: SystemClock,
    closed: AtomicBool,
    sleeping: AtomicUsize,
}

impl GateClock {
    /// Closes the gate and waits until the query sleeps behind it.
    pub(crate) async fn close(&self) {
        self.closed.store(true, SeqCst);
        while self.sleeping.load(SeqCst) == 0 {
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Opens it.
    pub(crate) fn open(&self) {
        self.closed.store(false, SeqCst);
    }
}

#[async_trait]
impl Clock for GateClock {
    fn now_ms(&self) -> i64 {
        self.clock.now_ms()
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
