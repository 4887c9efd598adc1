//! Stateful operators: pure functions from (state, rows, batch) to rows and state.

use crate::account::RowAccount;
use crate::error::Result;
use crate::ids::{BatchId, PartitionId};
use crate::key_group::{KeyGroupCount, KeyGroupRange};
use crate::late::{LateBatch, LateHandling};
use crate::layout::StateLayout;
use crate::sink::OutputMode;
use crate::state::{Prefetch, StateStore};
use crate::time::{BatchTime, EvictWatermark, LateWatermark};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Everything an operator may know about its surroundings. All of it is in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchInfo {
    /// Which batch.
    pub batch: BatchId,
    /// Judges late input.
    pub late: LateWatermark,
    /// Closes and evicts.
    pub evict: EvictWatermark,
    /// The only processing time.
    pub time: BatchTime,
    /// The query's output mode.
    pub mode: OutputMode,
    /// The partition that runs.
    pub partition: PartitionId,
    /// The key groups it owns.
    pub groups: KeyGroupRange,
    /// The number of key groups of the query.
    pub key_groups: KeyGroupCount,
    /// The most rows that one output batch may have.
    pub batch_rows: usize,
    /// What happens to rows that came too late.
    pub late_rows: LateHandling,
}

/// The shape of an operator's state, recorded in every plan and compared at restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateSchema {
    /// What it does: `stateStoreSave`, `dedupe`, ... (the names of Spark's progress).
    pub kind: String,
    /// Version of the encodings of keys and values.
    pub format: u32,
    /// Names and types of the key columns.
    pub keys: Vec<StateField>,
    /// Names and types of the value columns.
    pub values: Vec<StateField>,
    /// Settings that give stored entries their meaning (a window's size), by name.
    pub meaning: BTreeMap<String, String>,
    /// What a reader needs besides who has no query. An operator that does not say is read as
    /// bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layout: Option<StateLayout>,
}

/// A column of a [`StateSchema`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateField {
    /// The name, for messages and for noticing swapped columns.
    pub name: String,
    /// The Arrow type, printed: see [`StateField::of`].
    pub data_type: String,
}

/// What one partition of an operator did in one batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct OperatorCounts {
    /// Rows in the state afterwards: its keys, or the rows in them where one key holds several. What
    /// an operator keeps to find keys by time is none.
    pub rows_total: u64,
    /// Keys written.
    pub rows_updated: u64,
    /// Keys removed.
    pub rows_removed: u64,
    /// Where the rows of the input went.
    pub rows: RowAccount,
    /// Bytes of memory held for the state.
    pub memory_bytes: u64,
}

impl std::ops::AddAssign for OperatorCounts {
    fn add_assign(&mut self, other: Self) {
        self.rows_total += other.rows_total;
        self.rows_updated += other.rows_updated;
        self.rows_removed += other.rows_removed;
        self.rows += other.rows;
        self.memory_bytes += other.memory_bytes;
    }
}

/// An operator: immutable configuration, shared by all partitions and batches.
///
/// # Laws
///
/// 1. *Deterministic.* Output and state depend only on state, input and [`BatchInfo`]: no
///    clock, no randomness, no I/O, no hash-map order.
/// 2. *Chunk-invariant.* Splitting or joining pushed batches changes neither the multiset of
///    output rows nor the resulting state.
/// 3. *Cut-invariant.* In append mode, running one batch as two consecutive ones under the same
///    watermarks changes neither the total output nor the resulting state.
/// 4. *Late rows.* A row whose interval (instant, window, join range) ends at or before the late
///    watermark produces neither output nor state, and is counted. In complete mode no row is
///    late, as in Spark: every result is emitted again anyway. If [`BatchInfo::late_rows`] says
///    so, [`OperatorRun::take_late`] gives these rows, as they came, each once; else none.
/// 5. *Bounded.* In append mode, after the run no state remains that only rows at or before the
///    evicting watermark could touch.
/// 6. *Bounded output.* `drain` never returns more than `batch_rows` rows.
/// 7. *Order.* All input, then the batch's own state writes, then eviction and timers.
/// 8. *Any store.* Whether the store is local changes neither output nor state.
/// 9. *Accounted.* After the run, every row that was pushed is in [`OperatorCounts::rows`], once.
pub trait Operator: Send + Sync {
    /// The kind, as in Spark's progress: `stateStoreSave`.
    fn kind(&self) -> &str;

    /// Number of inputs.
    fn ports(&self) -> usize;

    /// Schema of the output rows.
    fn output_schema(&self) -> SchemaRef;

    /// Shape of the state.
    fn state_schema(&self) -> StateSchema;

    /// Whether a batch without data is worth running once the evicting watermark has moved from
    /// `from` to `to`.
    fn wants_empty_batch(&self, mode: OutputMode, from: EvictWatermark, to: EvictWatermark)
    -> bool;

    /// Begins one batch on one partition. All mutable memory lives in the returned value, so
    /// nothing leaks from one batch into the next except through the state.
    fn start(&self, info: BatchInfo) -> Result<Box<dyn OperatorRun>>;
}

/// One batch on one partition: `push` each chunk, `prefetch` + `finish_input`, `prefetch` again,
/// then `drain` until it returns `None`. Output may be drained between pushes too.
pub trait OperatorRun: Send {
    /// Takes a chunk of input.
    fn push(&mut self, port: usize, rows: RecordBatch, state: &mut dyn StateStore) -> Result<()>;

    /// Before `finish_input`: what it and the draining after it will read, as far as is known.
    /// After it: what the draining will read because of what `finish_input` found.
    fn prefetch(&self) -> Result<Prefetch>;

    /// There is no more input: writes the batch's changes to the state, or leaves that to the
    /// draining where they depend on what comes out, as the flags of a join's rows do.
    fn finish_input(&mut self, state: &mut dyn StateStore) -> Result<()>;

    /// The next output rows; `None` when there are none for now.
    fn drain(&mut self, state: &mut dyn StateStore) -> Result<Option<RecordBatch>>;

    /// The rows that came too late since this was last asked; none unless
    /// [`BatchInfo::late_rows`] asks for them.
    fn take_late(&mut self) -> Vec<LateBatch>;

    /// What was done; exact after the last `drain`.
    fn counts(&self) -> OperatorCounts;

    /// Further numbers, by the names of Spark's `customMetrics`; those of all partitions are added
    /// up. Exact after the last `drain`.
    fn metrics(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::new()
    }

    /// The earliest processing time at which a batch is worth running even if nothing comes: when
    /// the next timer is due. Exact after the last `drain`.
    fn next_timer(&self) -> Option<BatchTime> {
        None
    }
}
