//! So many rows a second, by the clock: for demonstrations and load tests.
//!
//! Row `v` exists once its second has passed since the query was created. That moment is part
//! of every offset, so a restart goes on where the clock is, and every row keeps its time. At
//! another speed the seconds go on, and values count as if that had always been the speed.

use crate::numbers::{self, Span, cut, parse_split, split};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use fluvial_core::{
    Clock, Error, Frontier, Offset, Options, PlanRequest, Result, RowStream, Source, SourceRange,
    Split,
};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Rows of (timestamp, value): `rowsPerSecond` of them every second.
///
/// Values count from 0. A second is one unit: no limit cuts it. The rows of one second are spread evenly over it. Options:
/// `rowsPerSecond` (1), `rampUpTime` (0 s: the speed rises linearly for so long) and
/// `numPartitions` (the splits of a batch; by default as many as there are cores).
pub struct RateSource {
    clock: Arc<dyn Clock>,
    speed: Speed,
    partitions: Option<usize>,
}

/// A time and a number.
const ROW_BYTES: u64 = 16;

/// Whole seconds since the query was created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Position {
    /// Milliseconds since the epoch when the query was created.
    created_ms: i64,
    seconds: u64,
}

/// A split: rows, and the speed at which they came.
#[derive(Debug, Serialize, Deserialize)]
struct Planned {
    #[serde(flatten)]
    span: Span,
    #[serde(flatten)]
    speed: Speed,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Speed {
    rows_per_second: u64,
    ramp_up_seconds: u64,
}

impl Speed {
    /// How many rows there are once `seconds` have passed: 0, d, 3d, 6d, ... while the speed
    /// rises by d each second, then `rows_per_second` more each second.
    fn rows_after(self, seconds: u64) -> u64 {
        let rising = u128::from(seconds.min(self.ramp_up_seconds));
        let step = u128::from((self.rows_per_second / (self.ramp_up_seconds + 1)).max(1));
        let steady = u128::from(seconds.saturating_sub(self.ramp_up_seconds));
        let rows = step * (rising * (rising + 1) / 2) + steady * u128::from(self.rows_per_second);
        // Values are signed 64-bit numbers; the rate ends there.
        u64::try_from(rows).unwrap_or(u64::MAX).min(i64::MAX as u64)
    }

    /// The largest number of seconds up to `end` after which there are at most `rows` rows, but
    /// more than `start`.
    fn seconds_within(self, rows: u64, start: u64, end: u64) -> u64 {
        let (mut low, mut high) = (start + 1, end);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            if self.rows_after(middle) <= rows {
                low = middle;
            } else {
                high = middle - 1;
            }
        }
        low
    }

    /// The second in which row `value` comes.
    fn second_of(self, value: u64) -> u64 {
        let (mut low, mut high) = (0, u64::from(u32::MAX));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.rows_after(middle + 1) > value {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// Appends the times of `span`, in microseconds.
    fn times(self, created_ms: i64, span: Span, micros: &mut Vec<i64>) {
        let mut second = self.second_of(span.from);
        let mut value = span.from;
        while value < span.to {
            let (first, last) = (self.rows_after(second), self.rows_after(second + 1));
            let second_ms = created_ms.saturating_add_unsigned(second.saturating_mul(1000));
            let length = last - first;
            for v in value..last.min(span.to) {
                // Rounded half up to milliseconds, as in Spark.
                let ms = (u128::from(v - first) * 2000 + u128::from(length))
                    / (2 * u128::from(length.max(1)));
                micros.push(second_ms.saturating_add(ms as i64).saturating_mul(1000));
            }
            value = last.min(span.to).max(value);
            second += 1;
        }
    }
}

impl RateSource {
    /// Reads the options.
    ///
    /// # Errors
    ///
    /// `Invalid`: an unknown option, or a value that is not allowed.
    pub fn new(clock: Arc<dyn Clock>, mut options: Options) -> Result<Self> {
        let second = Duration::from_secs(1);
        let rows_per_second = options.take_positive("rowsPerSecond")?.map_or(1, u64::from);
        let ramp_up = options.take_duration("rampUpTime", second)?.unwrap_or_default();
        let partitions = take_partitions(&mut options)?;
        options.refuse(&["useManualClock"])?;
        options.finish(&["rowsPerSecond", "rampUpTime", "numPartitions"])?;
        let speed = Speed { rows_per_second, ramp_up_seconds: ramp_up.as_secs() };
        if speed.ramp_up_seconds > rows_per_second {
            return Err(Error::invalid(format!(
                "the speed cannot rise to {rows_per_second} rows a second over \
                 {} seconds: rampUpTime must not be more seconds than rowsPerSecond",
                speed.ramp_up_seconds
            ))
            .with_condition("INVALID_OPTION_VALUE"));
        }
        Ok(Self { clock, speed, partitions })
    }

    /// Whole seconds since the creation, by the clock, which may have been set back.
    fn seconds_now(&self, created_ms: i64) -> u64 {
        u64::try_from(self.clock.now_ms().saturating_sub(created_ms)).unwrap_or(0) / 1000
    }
}

/// Takes `numPartitions` out.
pub(crate) fn take_partitions(options: &mut Options) -> Result<Option<usize>> {
    options.take_with("numPartitions", "a positive integer", |text| {
        text.parse().ok().filter(|n| (1..=65_536).contains(n))
    })
}

impl fmt::Debug for RateSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.description())
    }
}

#[async_trait]
impl Source for RateSource {
    fn description(&self) -> String {
        let Speed { rows_per_second, ramp_up_seconds } = self.speed;
        let partitions = self.partitions.map_or("default".into(), |n| n.to_string());
        format!(
            "RateStreamV2[rowsPerSecond={rows_per_second}, rampUpTimeSeconds={ramp_up_seconds}, \
             numPartitions={partitions}]"
        )
    }

    /// The speed may change: offsets are seconds, and planned rows know their speed.
    fn identity(&self) -> String {
        "RateStreamV2".into()
    }

    fn kind(&self) -> &str {
        "rate"
    }

    fn schema(&self) -> SchemaRef {
        numbers::schema()
    }

    async fn initial(&self) -> Result<Offset> {
        Offset::of(&Position { created_ms: self.clock.now_ms(), seconds: 0 })
    }

    async fn frontier(&self) -> Result<Frontier> {
        // The moment, not the seconds: only an offset knows when the query was created.
        Ok(Frontier(self.clock.now_ms().into()))
    }

    async fn plan(&self, request: PlanRequest<'_>) -> Result<Option<SourceRange>> {
        let start: Position = request.start.read()?;
        let mut seconds = self.seconds_now(start.created_ms);
        if let Some(moment) = request.until.and_then(|until| until.0.as_i64()) {
            let until = moment.saturating_sub(start.created_ms);
            seconds = seconds.min(u64::try_from(until).unwrap_or(0) / 1000);
        }
        if seconds <= start.seconds {
            return Ok(None);
        }
        let from = self.speed.rows_after(start.seconds);
        if let Some(most) = request.limit.files {
            seconds = seconds.min(start.seconds.saturating_add(most.get()));
        }
        let bytes = request.limit.bytes.map_or(u64::MAX, |bytes| bytes.get() / ROW_BYTES);
        let rows = request.limit.rows.map_or(bytes, |rows| bytes.min(rows.get()));
        seconds = self.speed.seconds_within(from.saturating_add(rows), start.seconds, seconds);
        let to = self.speed.rows_after(seconds);
        let end = Offset::of(&Position { seconds, ..start })?;
        let splits = cut(from, to, self.partitions.unwrap_or(request.splits))?;
        let planned =
            |part: Split| split(&Planned { span: parse_split(&part)?, speed: self.speed });
        let splits = splits.into_iter().map(planned).collect::<Result<_>>()?;
        Ok(Some(SourceRange { start: request.start.clone(), end, splits, log: None }))
    }

    async fn adopt(&self, _range: &SourceRange) -> Result<()> {
        Ok(())
    }

    fn read(
        &self,
        range: &SourceRange,
        split: &Split,
        projection: Option<&[usize]>,
    ) -> Result<RowStream> {
        let Position { created_ms, .. } = range.start.read()?;
        let Planned { span, speed } = parse_split(split)?;
        let times = move |span, micros: &mut Vec<i64>| speed.times(created_ms, span, micros);
        numbers::rows(span, projection, times)
    }

    async fn release(&self, _range: &SourceRange) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_sim::VirtualClock;
    use futures::StreamExt;

    fn refused(name: &str, value: &str) -> Error {
        let clock = Arc::new(VirtualClock::at(0));
        RateSource::new(clock, Options::new([(name, value)])).unwrap_err()
    }

    #[test]
    fn speed_rises_as_in_spark() {
        let speed = Speed { rows_per_second: 10, ramp_up_seconds: 4 };
        let rows: Vec<u64> = (0..7).map(|second| speed.rows_after(second)).collect();
        assert_eq!(rows, [0, 2, 6, 12, 20, 30, 40]);
        let steady = Speed { rows_per_second: u64::MAX, ramp_up_seconds: 0 };
        assert_eq!(steady.rows_after(u64::MAX), i64::MAX as u64, "saturates");
    }

    #[test]
    fn every_row_has_one_second() {
        let speed = Speed { rows_per_second: 10, ramp_up_seconds: 4 };
        for value in 0..60 {
            let second = speed.second_of(value);
            assert!(speed.rows_after(second) <= value && value < speed.rows_after(second + 1));
        }
    }

    #[test]
    fn rows_are_spread_over_their_second_however_they_are_cut() {
        let speed = Speed { rows_per_second: 3, ramp_up_seconds: 0 };
        let mut whole = Vec::new();
        speed.times(1000, Span { from: 0, to: 6 }, &mut whole);
        let ms: Vec<i64> = whole.iter().map(|micros| micros / 1000).collect();
        assert_eq!(ms, [1000, 1333, 1667, 2000, 2333, 2667]);
        let mut parts = Vec::new();
        for from in 0..6 {
            speed.times(1000, Span { from, to: from + 1 }, &mut parts);
        }
        assert_eq!(parts, whole);
    }

    #[test]
    fn planned_rows_keep_their_speed() {
        let source = |speed: &str| {
            let clock = Arc::new(VirtualClock::at(2000));
            RateSource::new(clock, Options::new([("rowsPerSecond", speed)])).unwrap()
        };
        let created = Offset::of(&Position { created_ms: 0, seconds: 0 }).unwrap();
        let run = fluvial_core::RunId::new("r").unwrap();
        let request = PlanRequest {
            batch: fluvial_core::BatchId::FIRST,
            run: &run,
            start: &created,
            limit: fluvial_core::ReadLimit::NONE,
            until: None,
            splits: 2,
        };
        futures::executor::block_on(async {
            let slow = source("3");
            let range = slow.plan(request).await.unwrap().unwrap();
            for split in &range.splits {
                let rows = |source: &RateSource| {
                    source.read(&range, split, None).unwrap().collect::<Vec<_>>()
                };
                let (same, fast) = (rows(&slow).await, rows(&source("100")).await);
                assert_eq!(same.len(), 1);
                assert_eq!(same[0].as_ref().unwrap(), fast[0].as_ref().unwrap());
            }
        });
    }

    #[test]
    fn options_are_checked() {
        for (name, value, condition) in [
            ("rowsPerSecond", "0", "INVALID_OPTION_VALUE"),
            ("rampUpTime", "soon", "INVALID_OPTION_VALUE"),
            ("rampUpTime", "5s", "INVALID_OPTION_VALUE"),
            ("numPartitions", "-1", "INVALID_OPTION_VALUE"),
            ("rowsPerSec", "1", "UNKNOWN_OPTION"),
        ] {
            assert_eq!(refused(name, value).condition(), Some(condition), "{name}");
        }
    }
}
