//! Sinks that publish each batch exactly once.

use crate::error::{Error, Result};
use crate::ids::{BatchId, PartitionId, QueryId, RunId, SinkId};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a query hands to its sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutputMode {
    /// Rows that are final, each once.
    Append,
    /// Rows that changed since the previous batch.
    Update,
    /// The whole result, every time.
    Complete,
}

impl OutputMode {
    /// The name as users write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Append => "append",
            Self::Update => "update",
            Self::Complete => "complete",
        }
    }
}

impl fmt::Display for OutputMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for OutputMode {
    type Err = Error;

    /// Case does not matter.
    fn from_str(text: &str) -> Result<Self> {
        match text.to_ascii_lowercase().as_str() {
            "append" => Ok(Self::Append),
            "update" => Ok(Self::Update),
            "complete" => Ok(Self::Complete),
            _ => Err(Error::invalid(format!(
                "unknown output mode {text:?}: use append, update or complete"
            ))
            .with_condition("STREAMING_OUTPUT_MODE.INVALID")),
        }
    }
}

/// Who writes, and what.
#[derive(Debug, Clone)]
pub struct SinkSpec {
    /// The query; its id survives restarts.
    pub query: QueryId,
    /// The sink within the query.
    pub sink: SinkId,
    /// The run: names of staged objects carry it, so attempts never meet.
    pub run: RunId,
    /// Schema of the rows.
    pub schema: SchemaRef,
    /// What the rows of a batch mean.
    pub mode: OutputMode,
}

/// How long a sink remembers which batches it has published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinkMemory {
    /// It may forget.
    Unknown,
    /// As long as its output is there.
    Lasting,
}

/// What a writer staged: durable but invisible. Opaque to the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// The partition that wrote it.
    pub partition: PartitionId,
    /// Rows in it.
    pub rows: u64,
    /// The sink's own description of what it staged.
    pub token: Bytes,
}

/// What the engine stores together with a batch's data: which plan it came from and which state
/// snapshots belong to it. Opaque to the sink, which keeps it and gives it back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note(pub Bytes);

/// Whether this call published the batch, or an earlier one had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitOutcome {
    /// This call made the batch visible.
    Committed,
    /// The batch was visible already, with this note if the sink still has it; the staged data
    /// passed in is garbage now.
    AlreadyCommitted(Option<Note>),
}

/// A destination with an atomic, idempotent commit per batch.
///
/// # Laws
///
/// 1. *Invisible until committed.* Nothing that a writer does is visible to readers.
/// 2. *Atomic.* A crash during `commit(n)` leaves batch `n` wholly visible or not at all, its
///    note included.
/// 3. *Idempotent.* Once `commit(n)` took effect, every further `commit(m)` with `m <= n`, from
///    any process and with any staged data, returns `AlreadyCommitted` and changes nothing. For
///    `m == n` it carries the note that was stored.
/// 4. *One owner.* Output that belongs to another query is refused at `open`, by name, unless
///    the destination keeps several writers apart (a Delta table does).
/// 5. *Told.* `open` returns the newest published batch of this query and sink.
/// 6. *Drop aborts.* A writer dropped before `stage` leaves nothing that is ever visible.
/// 7. *Races.* Of several concurrent commits of one batch exactly one returns `Committed`.
///
/// Sinks whose medium cannot remember (console, memory, noop) keep the laws within one value:
/// they forget with the process, and say so in their documentation.
#[async_trait]
pub trait Sink: Send + Sync {
    /// Kind and place for people, without secrets: `DeltaSink[file:///out/t]`.
    fn description(&self) -> String;

    /// The output modes it can take.
    fn modes(&self) -> &[OutputMode];

    /// Gets ready to write: checks owner, schema and mode before the first batch. Returns the
    /// newest batch that this query and sink have published.
    ///
    /// # Errors
    ///
    /// `Invalid` if the destination belongs to another query or its schema does not fit.
    async fn open(&self, spec: &SinkSpec) -> Result<Option<BatchId>>;

    /// Opens a writer for one partition of one batch. Called after `open`.
    async fn writer(&self, batch: BatchId, partition: PartitionId) -> Result<Box<dyn SinkWriter>>;

    /// How long it remembers what it published. What it tells in `open` is all it knows if it does
    /// not say; who says [`SinkMemory::Lasting`] has lost output if it tells less than was
    /// committed. Asked after `open`.
    fn memory(&self) -> SinkMemory {
        SinkMemory::Unknown
    }

    /// What went wrong since the sink was made and did no harm to the output: a checkpoint of the
    /// table that was not written, say. Each is told once, in order; the query shows them.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Publishes `staged`, the output of every writer of `batch`, in partition order.
    async fn commit(
        &self,
        batch: BatchId,
        staged: Vec<Staged>,
        note: &Note,
    ) -> Result<CommitOutcome>;
}

/// Writes one partition of one batch. Dropping it abandons the attempt.
#[async_trait]
pub trait SinkWriter: Send {
    /// Buffers or uploads rows, which have the schema of the [`SinkSpec`].
    async fn write(&mut self, rows: RecordBatch) -> Result<()>;

    /// Makes everything written durable, and describes it for `commit`.
    async fn stage(self: Box<Self>) -> Result<Staged>;
}
