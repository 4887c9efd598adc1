//! Event time (in the data), batch time (in the plan) and the clock (the environment).
//!
//! They are three types because they never mix: an operator sees event times and the one batch
//! time of its plan; only the engine sees the clock, and only while it plans.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// A point in event time: microseconds since 1970-01-01T00:00:00 UTC; may be negative.
/// All arithmetic saturates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventTime(pub i64);

impl EventTime {
    /// From milliseconds since the epoch.
    pub fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1000))
    }

    /// Milliseconds since the epoch, rounded down.
    pub fn as_millis(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Rounded down to whole milliseconds: the precision of watermarks, as in Spark.
    #[must_use]
    pub fn floor_to_millis(self) -> Self {
        Self::from_millis(self.as_millis())
    }

    /// `self - delay`, saturating.
    #[must_use]
    pub fn minus(self, delay: EventDuration) -> Self {
        Self(self.0.saturating_sub(delay.0))
    }

    /// `self + delay`, saturating.
    #[must_use]
    pub fn plus(self, delay: EventDuration) -> Self {
        Self(self.0.saturating_add(delay.0))
    }
}

impl fmt::Display for EventTime {
    /// RFC 3339, UTC, milliseconds: as in Spark's progress.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_millis(self.as_millis(), f)
    }
}

/// A span of event time in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EventDuration(pub i64);

/// The only processing time a batch may see: milliseconds since the epoch, read from the clock
/// when the batch was planned and never before the previous batch's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BatchTime(pub i64);

impl fmt::Display for BatchTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_millis(self.0, f)
    }
}

/// The watermark that judges *late input*: the one of the previous batch. `None` is "no event
/// was seen yet": nothing is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LateWatermark(pub Option<EventTime>);

impl LateWatermark {
    /// Whether something that ends at `end` came too late.
    pub fn is_late(self, end: EventTime) -> bool {
        self.0.is_some_and(|watermark| end <= watermark)
    }
}

/// The watermark that *evicts*: the one of this batch. `None` evicts nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EvictWatermark(pub Option<EventTime>);

impl EvictWatermark {
    /// Whether something that ends at `end` is complete and may leave the state.
    pub fn expires(self, end: EventTime) -> bool {
        self.0.is_some_and(|watermark| end <= watermark)
    }
}

/// The environment's clock. Read while *planning* a batch; nothing that *runs* one sees it.
#[async_trait]
pub trait Clock: Send + Sync {
    /// Wall-clock milliseconds since the epoch. May jump; callers must not rely on it rising.
    fn now_ms(&self) -> i64;
    /// Time since an arbitrary start; never falls. For durations only.
    fn monotonic(&self) -> Duration;
    /// Completes once `duration` has passed.
    async fn sleep(&self, duration: Duration);
}

/// Civil date of a day number: Howard Hinnant's `civil_from_days`.
fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    (yoe + era * 400 + i64::from(month <= 2), month, doy - (153 * mp + 2) / 5 + 1)
}

fn fmt_millis(millis: i64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (seconds, ms) = (millis.div_euclid(1000), millis.rem_euclid(1000));
    let (days, s) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = civil(days);
    let (h, m, s) = (s / 3600, s / 60 % 60, s % 60);
    write!(f, "{year:04}-{month:02}-{day:02}T{h:02}:{m:02}:{s:02}.{ms:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_rfc_3339() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (1_781_086_200_123, "2026-06-10T10:10:00.123Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(EventTime::from_millis(ms).to_string(), text);
        }
    }

    /// Trap A10.
    #[test]
    fn arithmetic_saturates_and_floors() {
        assert_eq!(EventTime(i64::MIN).minus(EventDuration(1)), EventTime(i64::MIN));
        assert_eq!(EventTime(i64::MAX).plus(EventDuration(1)), EventTime(i64::MAX));
        assert_eq!(EventTime(-1).floor_to_millis(), EventTime(-1000));
        let _ = EventTime(i64::MIN).to_string();
        let _ = EventTime(i64::MAX).to_string();
    }

    #[test]
    fn before_the_first_event_nothing_is_late() {
        assert!(!LateWatermark(None).is_late(EventTime(i64::MIN)));
        assert!(LateWatermark(Some(EventTime(5))).is_late(EventTime(5)));
        assert!(!EvictWatermark(Some(EventTime(5))).expires(EventTime(6)));
    }
}
