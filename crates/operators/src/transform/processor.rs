//! `StatefulProcessor`: what a user writes.

use super::call::Call;
use super::declare::Variables;
use super::rows::{InputRow, InputRows, Key};
use std::fmt;

/// What a handler fails with: any error, so `?` works on all of them.
pub type HandlerError = Box<dyn std::error::Error + Send + Sync>;

/// What a handler ends with. If that is an error the batch fails, with the key named, and leaves
/// the state as it was.
pub type HandlerResult = Result<(), HandlerError>;

/// A user's own stateful operator: variables and timers for each key.
///
/// One value serves all partitions and batches, side by side, so handlers take `&self`: what must
/// last from one call to the next goes into variables. A batch may run twice, and must do the same
/// both times: handlers read no clock, draw nothing and talk to nobody.
///
/// The order in a batch: initial rows (first batch only), the rows of each key, timers that are
/// due, and at last what has outlived its TTL goes.
pub trait StatefulProcessor: Send + Sync {
    /// Declares the variables. Called once, before anything else.
    ///
    /// # Errors
    ///
    /// Whatever keeps the query from starting.
    fn init(&mut self, variables: &mut Variables) -> fluvial_core::Result<()>;

    /// Handles all rows of one key in one batch, in the order in which they came.
    ///
    /// # Errors
    ///
    /// Whatever fails the batch.
    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult;

    /// Handles a timer of this key that is due: its time is at or before the watermark, or the
    /// batch's time. It is not registered any more; one that is registered here fires in the next
    /// batch at the earliest.
    ///
    /// # Errors
    ///
    /// Whatever fails the batch.
    fn handle_expired_timer(
        &self,
        _key: &Key<'_>,
        _expired: ExpiredTimer,
        _call: &mut Call<'_>,
    ) -> HandlerResult {
        Ok(())
    }

    /// Handles the initial row of a key, in the first batch of a query that has an initial state.
    ///
    /// # Errors
    ///
    /// Whatever fails the batch. A processor that says nothing here has no initial state.
    fn handle_initial_state(
        &self,
        _key: &Key<'_>,
        _row: InputRow<'_>,
        _call: &mut Call<'_>,
    ) -> HandlerResult {
        Err("this processor takes no initial state: implement handle_initial_state".into())
    }

    /// Called once, when nothing will be handled any more.
    fn close(&self) {}
}

/// A timer that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpiredTimer {
    /// What it was registered for: milliseconds since the epoch.
    pub expiry_ms: i64,
}

/// What timers run by, and whether late rows are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimeMode {
    /// No timers, no TTL. No row is late.
    None,
    /// Timers and TTL run by the time of the batch, which its plan says. No row is late.
    ProcessingTime,
    /// Timers run by the watermark. Late rows are dropped.
    EventTime,
}

impl fmt::Display for TimeMode {
    /// As Spark names it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "NoTime",
            Self::ProcessingTime => "ProcessingTime",
            Self::EventTime => "EventTime",
        })
    }
}
