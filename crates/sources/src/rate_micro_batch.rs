//! So many rows a batch, whatever the clock: for tests that must come out the same every time.

use crate::numbers::{self, cut, parse_split};
use crate::rate::take_partitions;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use fluvial_core::{
    Frontier, Offset, Options, PlanRequest, ReadLimit, Result, RowStream, Source, SourceRange,
    Split,
};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Rows of (timestamp, value): `rowsPerBatch` of them in every batch, all with the same time.
///
/// A batch is one unit: no limit cuts it. Available-now reads one. Options: `rowsPerBatch`
/// (required), `startTimestamp` (0) and `advanceMillisPerBatch` (1000), both in milliseconds,
/// and `numPartitions` (the splits of a batch; by default as many as there are cores).
#[derive(Debug)]
pub struct RateMicroBatchSource {
    rows_per_batch: NonZeroU64,
    start_ms: i64,
    advance_ms: i64,
    partitions: Option<usize>,
    /// The end of the newest adopted range.
    position: Mutex<Option<Position>>,
}

/// How many rows came before, and the time (milliseconds) of the next ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Position {
    offset: u64,
    timestamp: i64,
}

impl RateMicroBatchSource {
    /// Reads the options.
    ///
    /// # Errors
    ///
    /// `Invalid`: an unknown or missing option, or a value that is not allowed.
    pub fn new(mut options: Options) -> Result<Self> {
        let Some(rows_per_batch) = options.take_positive("rowsPerBatch")? else {
            return Err(Options::invalid_value("rowsPerBatch", "", "set to a positive integer"));
        };
        let mut millis = |name| {
            options.take_with(name, "milliseconds, not negative", |text| {
                text.parse::<i64>().ok().filter(|ms| *ms >= 0)
            })
        };
        let start_ms = millis("startTimestamp")?.unwrap_or(0);
        let advance_ms = millis("advanceMillisPerBatch")?.unwrap_or(1000);
        let partitions = take_partitions(&mut options)?;
        let known = ["rowsPerBatch", "startTimestamp", "advanceMillisPerBatch", "numPartitions"];
        options.finish(&known)?;
        let position = Mutex::default();
        Ok(Self { rows_per_batch, start_ms, advance_ms, partitions, position })
    }

    fn after(&self, start: Position) -> Position {
        Position {
            offset: start.offset.saturating_add(self.rows_per_batch.get()).min(i64::MAX as u64),
            timestamp: start.timestamp.saturating_add(self.advance_ms),
        }
    }

    fn first(&self) -> Position {
        Position { offset: 0, timestamp: self.start_ms }
    }

    fn position(&self) -> MutexGuard<'_, Option<Position>> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Source for RateMicroBatchSource {
    fn description(&self) -> String {
        format!(
            "RatePerMicroBatchStream[rowsPerBatch={}, numPartitions={}, startTimestamp={}, \
             advanceMsPerBatch={}]",
            self.rows_per_batch,
            self.partitions.map_or("default".into(), |n| n.to_string()),
            self.start_ms,
            self.advance_ms
        )
    }

    /// All may change: an offset says which rows and which time are next.
    fn identity(&self) -> String {
        "RatePerMicroBatchStream".into()
    }

    fn kind(&self) -> &str {
        "rate-micro-batch"
    }

    fn schema(&self) -> SchemaRef {
        numbers::schema()
    }

    fn read_limit(&self) -> ReadLimit {
        ReadLimit { rows: Some(self.rows_per_batch), ..ReadLimit::NONE }
    }

    async fn initial(&self) -> Result<Offset> {
        Offset::of(&self.first())
    }

    async fn frontier(&self) -> Result<Frontier> {
        let next = self.after(self.position().unwrap_or_else(|| self.first()));
        Ok(Frontier(next.offset.into()))
    }

    async fn plan(&self, request: PlanRequest<'_>) -> Result<Option<SourceRange>> {
        let start: Position = request.start.read()?;
        let end = self.after(start);
        let until = request.until.and_then(|until| until.0.as_u64()).unwrap_or(u64::MAX);
        if end.offset == start.offset || end.offset > until {
            return Ok(None);
        }
        let splits = cut(start.offset, end.offset, self.partitions.unwrap_or(request.splits))?;
        let end = Offset::of(&end)?;
        Ok(Some(SourceRange { start: request.start.clone(), end, splits, log: None }))
    }

    async fn adopt(&self, range: &SourceRange) -> Result<()> {
        *self.position() = Some(range.end.read()?);
        Ok(())
    }

    fn read(
        &self,
        range: &SourceRange,
        split: &Split,
        projection: Option<&[usize]>,
    ) -> Result<RowStream> {
        let Position { timestamp, .. } = range.start.read()?;
        let micros = timestamp.saturating_mul(1000);
        numbers::rows(parse_split(split)?, projection, move |span, times| {
            times.extend((span.from..span.to).map(|_| micros));
        })
    }

    async fn release(&self, _range: &SourceRange) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_core::{BatchId, RunId};
    use fluvial_sim::block_on;

    fn options(rows: &str) -> Options {
        let start = "1780000000000";
        let advance = "30000";
        Options::new([
            ("rowsPerBatch", rows),
            ("numPartitions", "2"),
            ("startTimestamp", start),
            ("advanceMillisPerBatch", advance),
        ])
    }

    #[test]
    fn offsets_and_description_are_sparks() {
        let source = RateMicroBatchSource::new(options("2000")).unwrap();
        assert_eq!(
            source.description(),
            "RatePerMicroBatchStream[rowsPerBatch=2000, numPartitions=2, \
             startTimestamp=1780000000000, advanceMsPerBatch=30000]"
        );
        let run = RunId::new("r").unwrap();
        let mut at = block_on(source.initial()).unwrap();
        for end in [
            r#"{"offset":2000,"timestamp":1780000030000}"#,
            r#"{"offset":4000,"timestamp":1780000060000}"#,
        ] {
            let limit = source.read_limit();
            let batch = BatchId(0);
            let request =
                PlanRequest { batch, run: &run, start: &at, limit, until: None, splits: 1 };
            let range = block_on(source.plan(request)).unwrap().unwrap();
            assert_eq!(range.splits.len(), 2);
            at = range.end;
            assert_eq!(at.to_string(), end);
        }
    }

    #[test]
    fn rows_per_batch_is_required() {
        for bad in [options("0"), options("x"), Options::default()] {
            let error = RateMicroBatchSource::new(bad).unwrap_err();
            assert!(error.message().contains("rowsPerBatch"), "{error}");
        }
    }
}
