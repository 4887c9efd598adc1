//! `BatchRun`: the one batch that the nodes of a physical plan run in.

use fluvial_core::{
    BatchInfo, BatchTime, Error, EvictWatermark, LateBatch, LateWatermark, OperatorCounts,
    OperatorId, PartitionId, Plan, Result, SealedStore, Source, SourceId, StateStore, StoreId,
    WatermarkId,
};
use fluvial_engine::{BatchContext, EventTimeStats};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;

/// The two watermarks that one operator sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OperatorWatermarks {
    /// Judges late input.
    pub(crate) late: LateWatermark,
    /// Evicts.
    pub(crate) evict: EvictWatermark,
}

/// What one run of one batch needs and what it reports. Shared by all nodes and partitions.
pub(crate) struct BatchRun {
    context: BatchContext,
    watermarks: BTreeMap<OperatorId, OperatorWatermarks>,
    report: Mutex<BatchReport>,
    /// Stateful tasks: they run to their end whatever downstream polls, and die with the batch.
    tasks: Mutex<JoinSet<()>>,
}

/// What the nodes report while they run.
#[derive(Default)]
pub(crate) struct BatchReport {
    pub(crate) sealed: Vec<SealedStore>,
    pub(crate) operators: BTreeMap<OperatorId, OperatorTotals>,
    pub(crate) started: BTreeSet<(OperatorId, PartitionId)>,
    pub(crate) event_times: BTreeMap<WatermarkId, EventTimeStats>,
    pub(crate) source_rows: BTreeMap<SourceId, u64>,
    /// Rows that came too late, where somebody wants them: in the order of operators, of those
    /// who judged, and of partitions.
    pub(crate) late: BTreeMap<(OperatorId, Judge, usize), Vec<LateBatch>>,
    /// When the next timer of any operator is due.
    pub(crate) next_timer: Option<BatchTime>,
    pub(crate) failed: Option<Error>,
}

/// Who found that a row is late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Judge {
    /// The filter below the operator.
    Filter,
    /// The operator itself.
    Operator,
}

/// Rows at the filter below an operator.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Below {
    /// How many came.
    pub(crate) came: u64,
    /// How many were late.
    pub(crate) late: u64,
}

/// Sums over the partitions of one operator.
#[derive(Debug, Clone, Default)]
pub(crate) struct OperatorTotals {
    /// Rows that were pushed into it.
    pub(crate) pushed: u64,
    /// Rows at the filter below it, if there is one.
    pub(crate) below: Option<Below>,
    pub(crate) counts: OperatorCounts,
    pub(crate) updates: Duration,
    pub(crate) removals: Duration,
    pub(crate) custom: BTreeMap<String, i64>,
}

impl OperatorTotals {
    /// The rows that came to operator `id`, and what became of them.
    ///
    /// What an aggregation is given are groups of rows, which its filter has counted as rows: those
    /// that it let pass are the ones that were kept.
    ///
    /// # Errors
    ///
    /// In debug builds, `Invalid` (`ROWS_UNACCOUNTED_FOR`) if rows were lost, or made, between the
    /// filter and the operator.
    pub(crate) fn account(&self, id: &OperatorId, given: Given) -> Result<(u64, OperatorCounts)> {
        let Some(Below { came, late }) = self.below else { return Ok((self.pushed, self.counts)) };
        let (mut counts, passed) = (self.counts, came - late);
        match given {
            Given::Groups => counts.rows.kept = passed,
            Given::Rows if cfg!(debug_assertions) && passed != self.pushed => {
                return Err(Error::invalid(format!(
                    "{passed} rows were let pass to operator {id}, and {} came to it; this is an \
                     error in the exchange",
                    self.pushed
                ))
                .with_condition("ROWS_UNACCOUNTED_FOR"));
            }
            Given::Rows => {}
        }
        counts.rows.late += late;
        Ok((came, counts))
    }
}

/// What an operator is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Given {
    /// The rows themselves.
    Rows,
    /// Groups of rows, aggregated in part.
    Groups,
}

impl BatchRun {
    pub(crate) fn new(
        context: BatchContext,
        watermarks: BTreeMap<OperatorId, OperatorWatermarks>,
    ) -> Self {
        Self { context, watermarks, report: Mutex::default(), tasks: Mutex::default() }
    }

    pub(crate) fn context(&self) -> &BatchContext {
        &self.context
    }

    pub(crate) fn plan(&self) -> &Arc<Plan> {
        &self.context.plan
    }

    pub(crate) fn source(&self, id: &SourceId) -> Option<&Arc<dyn Source>> {
        self.context.sources.get(id)
    }

    /// The number of partitions of stateful operators.
    pub(crate) fn partitions(&self) -> usize {
        self.plan().partitions as usize
    }

    pub(crate) fn watermarks(&self, operator: &OperatorId) -> OperatorWatermarks {
        let none = OperatorWatermarks { late: LateWatermark(None), evict: EvictWatermark(None) };
        self.watermarks.get(operator).copied().unwrap_or(none)
    }

    /// What an operator may know, on one partition.
    pub(crate) fn info(&self, operator: &OperatorId, partition: PartitionId) -> BatchInfo {
        let OperatorWatermarks { late, evict } = self.watermarks(operator);
        BatchInfo { late, evict, ..self.context.info(partition) }
    }

    /// Whether somebody wants the rows that come too late.
    pub(crate) fn wants_late(&self) -> bool {
        self.context.late.is_some()
    }

    /// Keeps rows that came too late until the end of the batch.
    pub(crate) fn keep_late(
        &self,
        operator: &OperatorId,
        judge: Judge,
        partition: usize,
        late: LateBatch,
    ) {
        let mut report = self.report();
        report.late.entry((operator.clone(), judge, partition)).or_default().push(late);
    }

    /// Opens a store at the version that this batch reads.
    pub(crate) async fn open_store(
        &self,
        id: &StoreId,
        partition: PartitionId,
    ) -> Result<Box<dyn StateStore>> {
        self.context.open(id, partition).await
    }

    pub(crate) fn report(&self) -> MutexGuard<'_, BatchReport> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a task that belongs to this batch.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).spawn(task);
    }

    /// Waits for every task of the batch.
    ///
    /// # Errors
    ///
    /// The first failure of any of them.
    pub(crate) async fn join(&self) -> Result<()> {
        loop {
            let mut tasks =
                std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
            if tasks.is_empty() {
                break;
            }
            while let Some(ended) = tasks.join_next().await {
                if let Err(error) = ended {
                    let message = format!("a task of batch {} died: {error}", self.plan().batch);
                    return Err(Error::invalid(message).with_source(error));
                }
            }
        }
        match self.report().failed.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
