//! `GroupState`: what a function of groups sees of the state of its group.

use super::call::Call;
use super::processor::TimeMode;
use fluvial_core::{BatchTime, Error, EventTime, Result};
use std::time::Duration;

/// Whether groups time out, and by what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupTimeout {
    /// They do not. No row is late.
    None,
    /// By the time of batches. No row is late.
    ProcessingTime,
    /// By the watermark. Late rows are dropped.
    EventTime,
}

impl GroupTimeout {
    pub(super) fn time_mode(self) -> TimeMode {
        match self {
            Self::None => TimeMode::None,
            Self::ProcessingTime => TimeMode::ProcessingTime,
            Self::EventTime => TimeMode::EventTime,
        }
    }
}

/// The state of one group while a function handles it.
///
/// A timeout holds until the next call: one with rows that sets none drops it. A group times out
/// once the watermark, or the batch's time, is *after* its timeout; its call then has no rows.
#[derive(Debug)]
pub struct GroupState<S> {
    pub(super) value: Option<S>,
    pub(super) change: StateChange,
    pub(super) timeout_ms: Option<i64>,
    timeout: GroupTimeout,
    timed_out: bool,
    now: BatchTime,
    watermark: Option<EventTime>,
}

/// What the function did to the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StateChange {
    None,
    Updated,
    Removed,
}

impl<S> GroupState<S> {
    pub(super) fn new(
        value: Option<S>,
        timeout: GroupTimeout,
        timed_out: bool,
        call: &Call<'_>,
    ) -> Self {
        Self {
            value,
            change: StateChange::None,
            timeout_ms: None,
            timeout,
            timed_out,
            now: call.processing_time(),
            watermark: call.watermark(),
        }
    }

    /// Whether the group has a state.
    pub fn exists(&self) -> bool {
        self.value.is_some()
    }

    /// The state.
    pub fn get(&self) -> Option<&S> {
        self.value.as_ref()
    }

    /// Sets the state.
    pub fn update(&mut self, value: S) {
        self.value = Some(value);
        self.change = StateChange::Updated;
    }

    /// Removes the state, and the timeout.
    pub fn remove(&mut self) {
        self.value = None;
        self.timeout_ms = None;
        self.change = StateChange::Removed;
    }

    /// Whether this call is because the group timed out: it has no rows then.
    pub fn has_timed_out(&self) -> bool {
        self.timed_out
    }

    /// Lets the group time out this long after the time of this batch.
    ///
    /// # Errors
    ///
    /// `Invalid` unless groups time out by processing time, or if the duration is zero.
    pub fn set_timeout_duration(&mut self, after: Duration) -> Result<()> {
        self.may(GroupTimeout::ProcessingTime, "a duration")?;
        let after = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
        if after == 0 {
            return Err(Error::invalid("a timeout must be a millisecond or more away")
                .with_condition("INVALID_TIMEOUT_DURATION"));
        }
        self.timeout_ms = Some(self.now.0.saturating_add(after));
        Ok(())
    }

    /// Lets the group time out once the watermark is after this time, in milliseconds since the
    /// epoch.
    ///
    /// # Errors
    ///
    /// `Invalid` unless groups time out by event time; `INVALID_TIMEOUT_TIMESTAMP` if the time is
    /// before the watermark already.
    pub fn set_timeout_timestamp(&mut self, timestamp_ms: i64) -> Result<()> {
        self.may(GroupTimeout::EventTime, "a timestamp")?;
        if let Some(watermark) = self.watermark
            && timestamp_ms < watermark.as_millis()
        {
            return Err(Error::invalid(format!(
                "the timeout {} is before the watermark {watermark}",
                EventTime::from_millis(timestamp_ms)
            ))
            .with_condition("INVALID_TIMEOUT_TIMESTAMP"));
        }
        self.timeout_ms = Some(timestamp_ms);
        Ok(())
    }

    fn may(&self, needed: GroupTimeout, what: &str) -> Result<()> {
        if self.timeout == needed {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a timeout given as {what} needs GroupTimeout::{needed:?}: the operator has {:?}",
            self.timeout
        ))
        .with_condition("GROUP_STATE_TIMEOUT_NOT_ALLOWED"))
    }

    /// The watermark of this batch; `None` before the first event.
    pub fn watermark(&self) -> Option<EventTime> {
        self.watermark
    }

    /// The watermark in milliseconds since the epoch, as Spark has it: 0 before the first event.
    pub fn watermark_ms(&self) -> i64 {
        self.watermark.map_or(0, EventTime::as_millis)
    }

    /// The time of this batch.
    pub fn processing_time(&self) -> BatchTime {
        self.now
    }
}
