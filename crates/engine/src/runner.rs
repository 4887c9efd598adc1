//! What the engine asks of whatever executes a batch.
//!
//! The engine plans, elects, commits and retains; a [`BatchRunner`] reads the sources, runs the
//! operators and stages the output. It never commits anything, and never sees a log.

use crate::event_time::EventTimeStats;
use crate::idle::WatermarkInput;
use crate::stopwatch::Stopwatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use fluvial_core::{
    BatchInfo, BatchTime, Error, EventDuration, EvictWatermark, KeyGroupRange, LateHandling,
    LateWatermark, OperatorCounts, OperatorId, OperatorShape, OutputMode, PartitionId,
    PinnedSettings, Plan, Result, SealedStore, Sink, Snapshot, Source, SourceId, Staged,
    StateBackend, StateStore, StoreId, WatermarkId, WatermarkScope, Watermarks,
};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// What a runner's query is, as far as the engine needs to know.
#[derive(Debug, Clone, PartialEq)]
pub struct RunnerShape {
    /// Schema of the rows that go to the sink.
    pub schema: SchemaRef,
    /// State of each stateful operator; empty for a stateless query.
    pub operators: BTreeMap<OperatorId, OperatorShape>,
    /// The watermark definitions and the lateness that each allows.
    pub watermarks: BTreeMap<WatermarkId, EventDuration>,
    /// What each of them hears of.
    pub inputs: BTreeMap<WatermarkId, WatermarkInput>,
    /// Schema of what it writes down about rows that came too late; `None` if it cannot.
    pub late: Option<SchemaRef>,
}

/// Everything that running one batch may depend on.
///
/// Cloning is cheap. No clock: [`Self::stopwatch`] measures, [`Plan::time`] tells the time.
#[derive(Clone)]
pub struct BatchContext {
    /// The winning plan.
    pub plan: Arc<Plan>,
    /// All elected snapshots of the version that this batch reads: every store, every key group
    /// (the engine has checked that). Empty for batch 0 and for stateless queries.
    pub base: Arc<[Snapshot]>,
    /// The sources; each has adopted its range of the plan.
    pub sources: Arc<BTreeMap<SourceId, Arc<dyn Source>>>,
    /// Where state lives; `None` for a stateless query.
    pub state: Option<Arc<dyn StateBackend>>,
    /// Where rows go; it is open.
    pub sink: Arc<dyn Sink>,
    /// Where rows go that came too late, if somebody wants them; it is open.
    pub late: Option<Arc<dyn Sink>>,
    /// The most rows that one record batch should have.
    pub batch_rows: usize,
    /// Measures durations for reports.
    pub stopwatch: Stopwatch,
}

impl BatchContext {
    /// The key groups that `partition` owns in this batch.
    pub fn groups(&self, partition: PartitionId) -> KeyGroupRange {
        self.plan.settings.key_groups.range_of(partition, self.plan.partitions)
    }

    /// What an operator right behind the sources may know: the watermarks are the combined ones
    /// of the plan. Operators further down get theirs from the operator before them.
    pub fn info(&self, partition: PartitionId) -> BatchInfo {
        let (plan, policy) = (&self.plan, self.plan.settings.watermark_policy);
        BatchInfo {
            batch: plan.batch,
            late: LateWatermark(policy.combine(match plan.settings.watermark_scope {
                WatermarkScope::Operator => &plan.late,
                WatermarkScope::Query => &plan.evict,
            })),
            evict: EvictWatermark(policy.combine(&plan.evict)),
            time: plan.time,
            mode: plan.shape.mode,
            partition,
            groups: self.groups(partition),
            key_groups: plan.settings.key_groups,
            batch_rows: self.batch_rows,
            late_rows: match self.late {
                Some(_) => LateHandling::HandOver,
                None => LateHandling::Drop,
            },
        }
    }

    /// The elected snapshots of one store.
    pub fn snapshots(&self, id: &StoreId) -> Vec<Snapshot> {
        self.base.iter().filter(|snapshot| snapshot.id == *id).cloned().collect()
    }

    /// Opens the part of a store that `partition` owns, at the version that this batch reads.
    ///
    /// # Errors
    ///
    /// `Invalid` if the query was given no state backend; else what the backend says.
    pub async fn open(&self, id: &StoreId, partition: PartitionId) -> Result<Box<dyn StateStore>> {
        let state = self.state.as_ref().ok_or_else(|| {
            Error::invalid(format!("store {id} needs a state backend, and this query has none"))
        })?;
        let version = self.plan.batch.reads();
        let store = state.open(id, self.groups(partition), version, &self.snapshots(id)).await?;
        assert_eq!(store.base(), version, "batch {} reads version {version}", self.plan.batch);
        Ok(store)
    }
}

impl fmt::Debug for BatchContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchContext").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// What running a batch gives: everything is staged or sealed, nothing is committed.
#[derive(Debug, Default)]
pub struct BatchOutput {
    /// The written stores: every store of [`RunnerShape::operators`] for every partition of the
    /// plan, also those that did not change. The engine refuses a batch that lacks one.
    pub sealed: Vec<SealedStore>,
    /// What the sink's writers staged, in partition order.
    pub staged: Vec<Staged>,
    /// What was staged for the sink for late rows; nothing if there were none.
    pub late: Vec<Staged>,
    /// The event times that each watermark saw; absent if it saw none.
    pub event_times: BTreeMap<WatermarkId, EventTimeStats>,
    /// Rows read from each source, before any filter; once per scan.
    pub source_rows: BTreeMap<SourceId, u64>,
    /// What each stateful operator did, the most downstream one first.
    pub operators: Vec<OperatorReport>,
    /// How long it took to prepare the execution (`queryPlanning` in reports).
    pub planning: Duration,
    /// User-defined metrics of the batch, by name.
    pub observed: BTreeMap<String, serde_json::Value>,
}

/// What one stateful operator did in one batch, over all partitions.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorReport {
    /// The operator.
    pub id: OperatorId,
    /// [`fluvial_core::Operator::kind`].
    pub kind: String,
    /// Rows that came to it, over all partitions and ports: [`OperatorCounts::rows`] says where
    /// they went.
    pub rows_in: u64,
    /// Sums over the partitions.
    pub counts: OperatorCounts,
    /// Time spent on input and updates, summed over the partitions.
    pub updates: Duration,
    /// Time spent on eviction, summed over the partitions.
    pub removals: Duration,
    /// Stores that were open: partitions times stores.
    pub store_instances: u32,
    /// Further counters of the operator or its stores, by name.
    pub custom: BTreeMap<String, i64>,
}

/// Executes batches of one query.
///
/// # Laws
///
/// 1. *Pure.* What `run` stages and seals depends on the context only, and is the same, row for
///    row, however often and wherever it runs.
/// 2. *Complete.* Every stateful partition runs to its end, whatever downstream polls.
/// 3. *Nothing is remembered* from one `run` to the next but caches: an attempt may fail or be
///    dropped at any await, and any batch may run twice.
/// 4. *Drop aborts.* Dropping the future stops all that it started.
#[async_trait]
pub trait BatchRunner: Send + Sync {
    /// What the query is. Does not change in the life of the value.
    fn shape(&self) -> RunnerShape;

    /// The query for people, with the names that the checkpoint knows: a tree, one node a line,
    /// if the runner has one; else the operators and watermarks of its shape.
    fn explain(&self) -> String {
        let shape = self.shape();
        let operators = shape.operators.iter();
        let operators = operators.map(|(id, o)| format!("{}: operator={id}", o.schema.kind));
        let watermarks = shape.watermarks.iter();
        let watermarks = watermarks
            .map(|(id, delay)| format!("Watermark: delay={} ms, id={id}", delay.0 / 1000));
        operators.chain(watermarks).collect::<Vec<_>>().join("\n")
    }

    /// What whoever runs the query should know of it, such as that its state grows without bound.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether a batch without data is worth running now that the evicting watermarks have moved
    /// from `from` to `to`. Both hold every id of [`RunnerShape::watermarks`]. The engine asks
    /// only when they differ.
    fn wants_empty_batch(
        &self,
        settings: &PinnedSettings,
        mode: OutputMode,
        from: &Watermarks,
        to: &Watermarks,
    ) -> bool;

    /// The earliest processing time at which a batch without data is worth running, as far as is
    /// known from the batches that this value has run: when the next timer is due. `None` is never.
    fn next_timer(&self) -> Option<BatchTime> {
        None
    }

    /// Runs one batch: reads the plan's ranges, opens state, stages output, seals state.
    ///
    /// # Errors
    ///
    /// `Unavailable` if trying the same batch again may help; any other kind ends the query.
    async fn run(&self, batch: BatchContext) -> Result<BatchOutput>;
}
