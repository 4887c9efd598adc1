//! The real world: wall clock and tokio tasks. The only place of the library that has them.

use async_trait::async_trait;
use fluvial_core::Clock;
use fluvial_engine::Spawn;
use futures::future::BoxFuture;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The machine's clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock {
    start: Instant,
}

impl SystemClock {
    /// A clock whose monotonic side starts now.
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        // Before 1970 the clock is wrong anyway; zero is as good.
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
    }

    fn monotonic(&self) -> Duration {
        self.start.elapsed()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

/// Starts tasks on the tokio runtime that the session was built on.
#[derive(Debug, Clone)]
pub(crate) struct TokioSpawn(pub(crate) tokio::runtime::Handle);

impl Spawn for TokioSpawn {
    fn spawn(&self, task: BoxFuture<'static, ()>) {
        self.0.spawn(task);
    }

    /// On a thread of its own: the runtime waits at its end for blocking tasks of its own, and a
    /// listener that hangs must not keep the program from ending.
    fn spawn_blocking(&self, task: BoxFuture<'static, ()>) {
        let runtime = self.0.clone();
        let thread = std::thread::Builder::new().name("fluvial-listener".into());
        let task = Arc::new(Mutex::new(Some(task)));
        let aside = Arc::clone(&task);
        let started = thread.spawn(move || {
            let task = aside.lock().unwrap_or_else(PoisonError::into_inner).take();
            task.map(|task| runtime.block_on(task))
        });
        // No thread to be had: then beside everything else, rather than not at all.
        if started.is_err()
            && let Some(task) = task.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            self.spawn(task);
        }
    }
}

/// Gives names that were never used before.
pub(crate) type Names = dyn Fn() -> String + Send + Sync;

/// A name that was never used before.
pub(crate) fn unique_name() -> String {
    uuid::Uuid::new_v4().to_string()
}
