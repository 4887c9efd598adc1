use fluvial_core::Clock;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Measures how long things take, for reports.
///
/// It hides the clock's wall time on purpose: what runs a batch may know how long it took, never
/// what time it is.
#[derive(Clone)]
pub struct Stopwatch(Arc<dyn Clock>);

impl Stopwatch {
    /// A stopwatch that reads the monotonic side of `clock`.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self(clock)
    }

    /// Time since an arbitrary start; never falls.
    pub fn now(&self) -> Duration {
        self.0.monotonic()
    }

    /// Time since `start`, an earlier [`Self::now`].
    pub fn since(&self, start: Duration) -> Duration {
        self.now().saturating_sub(start)
    }
}

impl fmt::Debug for Stopwatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stopwatch")
    }
}
