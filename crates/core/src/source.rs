//! Replayable sources.

use crate::error::{Error, Result};
use crate::ids::{BatchId, QueryId, RunId, SourceId};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU64;

/// A position in a source, opaque to the engine: one line of canonical JSON.
///
/// *Canonical*: two offsets denote the same position iff their text is equal. The engine
/// compares for equality, persists and shows them; ordering is the source's business.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "serde_json::Value", into = "serde_json::Value")]
pub struct Offset(serde_json::Value);

impl Offset {
    /// The offset that `position` serialises to.
    ///
    /// # Errors
    ///
    /// `Invalid` if it has no JSON form (a map with keys that are not strings).
    pub fn of(position: &impl Serialize) -> Result<Self> {
        serde_json::to_value(position)
            .map(Self)
            .map_err(|e| Error::invalid("an offset has no JSON form").with_source(e))
    }

    /// Reads the position back.
    ///
    /// # Errors
    ///
    /// `Corrupt` if this offset is not one of the type `T`: another source wrote it.
    pub fn read<T: for<'de> Deserialize<'de>>(&self) -> Result<T> {
        T::deserialize(&self.0).map_err(|e| {
            Error::corrupt(format!("offset {self} was not written by this kind of source"))
                .with_source(e)
        })
    }

    /// The JSON value, for progress reports.
    pub fn json(&self) -> &serde_json::Value {
        &self.0
    }
}

impl From<serde_json::Value> for Offset {
    fn from(value: serde_json::Value) -> Self {
        Self(value)
    }
}

impl From<Offset> for serde_json::Value {
    fn from(offset: Offset) -> Self {
        offset.0
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What one batch reads from one source: the rows after `start`, up to and including `end`.
///
/// Written into the plan as it is. `splits` fixes which rows are read together and in which
/// order, so that a replay is exact on any number of cores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceRange {
    /// Exclusive lower bound.
    pub start: Offset,
    /// Inclusive upper bound.
    pub end: Offset,
    /// The parts of the range, in order. Reading all of them in order is reading the range.
    pub splits: Vec<Split>,
    /// Refers to what the source wrote to its own log while planning (name and checksum), if
    /// it keeps one. The log object counts only if the winning plan carries this reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log: Option<LogRef>,
}

/// One part of a range, opaque to the engine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Split(pub serde_json::Value);

/// Names an object of a source log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogRef {
    /// The object's name below the source's folder.
    pub name: String,
    /// CRC-32 of its bytes.
    pub crc32: u32,
}

/// How much one batch may read. `None` is no limit. Several limits hold together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReadLimit {
    /// At most this many rows.
    pub rows: Option<NonZeroU64>,
    /// At most this many files (or other indivisible units).
    pub files: Option<NonZeroU64>,
    /// At most this many bytes, as stored.
    pub bytes: Option<NonZeroU64>,
}

impl ReadLimit {
    /// No limit at all.
    pub const NONE: Self = Self { rows: None, files: None, bytes: None };
}

/// How far an available-now run may read: what was there when the run began. Meaningful only to
/// the source instance that made it; never persisted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frontier(pub serde_json::Value);

/// A request to plan one batch.
#[derive(Debug, Clone, Copy)]
pub struct PlanRequest<'a> {
    /// The batch that is planned.
    pub batch: BatchId,
    /// The run that plans: log objects carry it in their names.
    pub run: &'a RunId,
    /// Where the batch starts.
    pub start: &'a Offset,
    /// How much it may read.
    pub limit: ReadLimit,
    /// How far it may read at most.
    pub until: Option<&'a Frontier>,
    /// How many splits are useful: the number of cores.
    pub splits: usize,
}

/// The rows of one split, in order.
pub type RowStream = BoxStream<'static, Result<RecordBatch>>;

/// A source whose past can be read again.
///
/// # Laws
///
/// 1. *Replay.* For a range that was adopted and not released, every `read` of a split, in this
///    process or a later one, yields the same rows in the same order. Chunk sizes may differ.
/// 2. *Progress.* `plan` returns `None` iff there is nothing after `start` (and not past
///    `until`); otherwise `end` differs from `start`. A range may hold no rows (an empty file)
///    and still be progress.
/// 3. *Admission.* A planned range keeps `limit`, except that one indivisible unit (a file) is
///    admitted even if it alone exceeds it.
/// 4. *Additivity.* Reading the ranges of successive plans, each starting where the previous
///    one ended, reads what one unlimited plan would, once, in the same order.
/// 5. *Frontier.* Planning with `until = frontier()` again and again ends, whatever arrives
///    meanwhile, and reads all that was there when the frontier was taken.
/// 6. *Planning is not remembering.* What a source remembers changes only in `adopt`: a plan
///    that lost its election leaves no trace in later plans.
/// 7. *Release.* `release(r)` promises that nothing at or before `r.end` is read again. It is
///    advisory, idempotent, and never affects later ranges.
/// 8. *Projection.* `read` with columns `p` yields exactly the columns `p` of the full rows, and
///    as many rows.
#[async_trait]
pub trait Source: Send + Sync {
    /// Kind and place for people, without secrets: `FileStreamSource[file:///landing]`.
    fn description(&self) -> String;

    /// What of the description has to stay as it is while a checkpoint lasts: the place, but not
    /// how fast it is read.
    fn identity(&self) -> String {
        self.description()
    }

    /// The kind of source, stable: restarting a query with another kind is refused.
    fn kind(&self) -> &str;

    /// The rows' schema; fixed for the life of the value.
    fn schema(&self) -> SchemaRef;

    /// The limit that its options ask for. The engine may use another.
    fn read_limit(&self) -> ReadLimit {
        ReadLimit::NONE
    }

    /// Hears for which query it reads, and what it is called there: in each run, before it is asked
    /// for anything. What it keeps beside the checkpoint can say whose it is.
    ///
    /// # Errors
    ///
    /// `Invalid` if it cannot serve this one.
    fn serves(&self, _query: &QueryId, _source: &SourceId) -> Result<()> {
        Ok(())
    }

    /// The position before the first row that a new query reads. Called once, before plan 0;
    /// options about where to start are read only here.
    async fn initial(&self) -> Result<Offset>;

    /// What is available now: the end of an available-now run.
    async fn frontier(&self) -> Result<Frontier>;

    /// Chooses what the next batch reads.
    async fn plan(&self, request: PlanRequest<'_>) -> Result<Option<SourceRange>>;

    /// Tells the source that `range` won: it is part of a durable plan. Called for every winning
    /// plan in order, and after a restart once, with the range of the newest plan that has one
    /// (without its splits if it refers to the source's own log).
    async fn adopt(&self, range: &SourceRange) -> Result<()>;

    /// Reads one split of an adopted range. `projection` lists the columns to build, in order.
    fn read(
        &self,
        range: &SourceRange,
        split: &Split,
        projection: Option<&[usize]>,
    ) -> Result<RowStream>;

    /// What it can say of itself for progress: how far behind the batch that was planned last
    /// leaves the query, say. Nothing is decided by it.
    fn metrics(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    /// Allows the source to forget, clean up or archive everything up to `range.end`.
    async fn release(&self, range: &SourceRange) -> Result<()>;
}
