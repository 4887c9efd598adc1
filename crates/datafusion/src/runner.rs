//! [`DataFusionRunner`]: runs a batch as a DataFusion plan.

use crate::error::from_datafusion;
use crate::exec::{
    BatchRun, ExchangeExec, Gather, Given, OperatorTotals, OperatorWatermarks, StatefulExec,
};
use crate::late::{late_schema, record};
use crate::plan::{
    StreamPlanner, StreamingPlan, bind_batch, operator_watermarks, physical,
    runs_by_processing_time,
};
use async_trait::async_trait;
use datafusion::common::Result as DataFusionResult;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::execution::{SendableRecordBatchStream, SessionState, TaskContext};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use fluvial_core::{
    BatchId, BatchTime, EventDuration, EventTime, EvictWatermark, LateWatermark, Operator,
    OperatorId, OperatorShape, OutputMode, PartitionId, PinnedSettings, Result, Sink, Staged,
    WatermarkScope, Watermarks,
};
use fluvial_engine::{
    BatchContext, BatchOutput, BatchRunner, Judged, LateWriter, OperatorReport, RunnerShape,
};
use futures::StreamExt;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinSet;

/// The kinds of operators that are given groups of rows.
const AGGREGATION: &str = "stateStoreSave";
const SESSIONS: &str = "sessionWindowStateStoreSaveExec";

/// Runs the batches of one prepared query.
///
/// The template is planned anew for every batch: a physical plan of DataFusion may be executed
/// only once, and planning takes a fraction of a millisecond.
pub struct DataFusionRunner {
    state: SessionState,
    plan: StreamingPlan,
    operators: Vec<(OperatorId, Arc<dyn Operator>)>,
    shapes: BTreeMap<OperatorId, OperatorShape>,
    /// When the next timer is due, as the last batch left it. Before the first that is not known:
    /// a batch without data finds out.
    next_timer: Mutex<Option<BatchTime>>,
}

impl DataFusionRunner {
    /// A runner for `plan` in a session.
    ///
    /// # Errors
    ///
    /// `Invalid` if an aggregate cannot keep its state.
    pub fn new(state: SessionState, plan: StreamingPlan) -> Result<Self> {
        let state = deterministic(state);
        let operators = physical::operators_of(&plan.template, &state).map_err(from_datafusion)?;
        let mut shapes = BTreeMap::new();
        for (id, operator) in &operators {
            let shape = physical::shape_of(operator.as_ref(), id).map_err(from_datafusion)?;
            shapes.insert(id.clone(), shape);
        }
        let unknown = runs_by_processing_time(&plan.template).then_some(BatchTime(i64::MIN));
        Ok(Self { state, plan, operators, shapes, next_timer: Mutex::new(unknown) })
    }

    async fn physical(
        &self,
        run: &Arc<BatchRun>,
    ) -> Result<(Arc<dyn ExecutionPlan>, SessionState)> {
        let mut state = self.state.clone();
        state.config_mut().set_extension(Arc::clone(run));
        let template =
            bind_batch(self.plan.template.clone(), run.plan().time).map_err(from_datafusion)?;
        let planner =
            DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(StreamPlanner)]);
        let plan = planner.create_physical_plan(&template, &state).await;
        let plan = plan.and_then(gather_in_order).map_err(from_datafusion)?;
        Ok((plan, state))
    }
}

/// Nothing may repartition below a stateful operator: a replay must be exact.
fn deterministic(mut state: SessionState) -> SessionState {
    let options = state.config_mut().options_mut();
    options.optimizer.enable_round_robin_repartition = false;
    options.optimizer.repartition_joins = false;
    options.optimizer.repartition_aggregations = false;
    options.optimizer.repartition_windows = false;
    options.optimizer.repartition_sorts = false;
    options.optimizer.repartition_file_scans = false;
    options.optimizer.enable_dynamic_filter_pushdown = false;
    // Groups that hardly come twice are not put together twice. A split is seldom large.
    options.execution.skip_partial_aggregation_probe_rows_threshold = 32_768;
    state
}

/// DataFusion gathers partitions as they come; we gather them in order, so that whatever depends
/// on the order (a float sum, a limit) is the same in every replay.
fn gather_in_order(plan: Arc<dyn ExecutionPlan>) -> DataFusionResult<Arc<dyn ExecutionPlan>> {
    let plan = plan.transform_up(|node| {
        let any: &dyn Any = node.as_ref();
        let Some(gather) = any.downcast_ref::<CoalescePartitionsExec>() else {
            return Ok(Transformed::no(node));
        };
        let ordered: Arc<dyn ExecutionPlan> =
            Arc::new(ExchangeExec::new(Arc::clone(gather.input()), Arc::new(Gather), 1));
        Ok(Transformed::yes(match gather.fetch() {
            Some(rows) => Arc::new(GlobalLimitExec::new(ordered, 0, Some(rows))),
            None => ordered,
        }))
    })?;
    Ok(plan.data)
}

#[async_trait]
impl BatchRunner for DataFusionRunner {
    fn shape(&self) -> RunnerShape {
        RunnerShape {
            schema: Arc::clone(&self.plan.schema),
            operators: self.shapes.clone(),
            watermarks: self.plan.watermarks.clone(),
            inputs: self.plan.inputs.clone(),
            late: Some(late_schema()),
        }
    }

    fn warnings(&self) -> Vec<String> {
        self.plan.warnings.clone()
    }

    fn explain(&self) -> String {
        self.plan.template.display_indent().to_string()
    }

    fn wants_empty_batch(
        &self,
        settings: &PinnedSettings,
        mode: OutputMode,
        from: &Watermarks,
        to: &Watermarks,
    ) -> bool {
        let policy = settings.watermark_policy;
        // Spark's first watermark is the epoch, and none is before it: to come there is no move.
        // Ours says the same, so that batches have the same numbers; but only where there are
        // events since, for streams of older times must close too.
        let since_epoch = to.iter().all(|(id, mark)| {
            let delay = self.plan.watermarks.get(id).copied().unwrap_or(EventDuration(0));
            mark.is_none_or(|mark| mark.plus(delay) >= EventTime(0))
        });
        let (from, to) = (policy.combine(from), policy.combine(to));
        if since_epoch && from <= Some(EventTime(0)) && to <= Some(EventTime(0)) {
            return false;
        }
        let moved = self.watermarks(settings.watermark_scope, from, to);
        self.operators.iter().any(|(id, operator)| {
            moved.get(id).is_some_and(|marks| {
                let from = EvictWatermark(marks.late.0);
                from != marks.evict && operator.wants_empty_batch(mode, from, marks.evict)
            })
        })
    }

    fn next_timer(&self) -> Option<BatchTime> {
        *self.next_timer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run(&self, batch: BatchContext) -> Result<BatchOutput> {
        let watch = batch.stopwatch.clone();
        let start = watch.now();
        let policy = batch.plan.settings.watermark_policy;
        let (late, evict) = (policy.combine(&batch.plan.late), policy.combine(&batch.plan.evict));
        let scope = batch.plan.settings.watermark_scope;
        let late = if scope == WatermarkScope::Query { evict } else { late };
        let watermarks = self.watermarks(scope, late, evict);
        let (id, sink) = (batch.plan.batch, Arc::clone(&batch.sink));
        let run = Arc::new(BatchRun::new(batch, watermarks));
        let (plan, state) = self.physical(&run).await?;
        let planning = watch.since(start);
        let staged = write(&plan, state.task_ctx(), sink, id).await;
        // A failed operator is the cause; what the sink saw is only its echo.
        let staged = match staged {
            Ok(staged) => staged,
            Err(error) => return Err(run.report().failed.take().unwrap_or(error)),
        };
        finish_partitions(&plan, &state, &run).await?;
        run.join().await?;
        let late = write_late(&run).await?;
        let next_timer = run.report().next_timer;
        *self.next_timer.lock().unwrap_or_else(PoisonError::into_inner) = next_timer;
        Ok(BatchOutput { late, ..self.output(&run, staged, planning)? })
    }
}

impl DataFusionRunner {
    /// The watermarks of each operator, given the query's.
    fn watermarks(
        &self,
        scope: WatermarkScope,
        late: Option<EventTime>,
        evict: Option<EventTime>,
    ) -> BTreeMap<OperatorId, OperatorWatermarks> {
        match scope {
            WatermarkScope::Operator => operator_watermarks(&self.plan.template, late, evict),
            WatermarkScope::Query => {
                let (late, evict) = (LateWatermark(late), EvictWatermark(evict));
                let ids = self.operators.iter().map(|(id, _)| id.clone());
                ids.map(|id| (id, OperatorWatermarks { late, evict })).collect()
            }
        }
    }

    fn output(
        &self,
        run: &BatchRun,
        staged: Vec<Staged>,
        planning: std::time::Duration,
    ) -> Result<BatchOutput> {
        let mut report = std::mem::take(&mut *run.report());
        report.sealed.sort_by(|a, b| (&a.id, a.groups).cmp(&(&b.id, b.groups)));
        let operators = self.operators.iter().map(|(id, operator)| {
            let totals = report.operators.remove(id).unwrap_or_default();
            let grouped = matches!(operator.kind(), AGGREGATION | SESSIONS);
            let given = if grouped { Given::Groups } else { Given::Rows };
            let (rows_in, counts) = totals.account(id, given)?;
            let OperatorTotals { updates, removals, custom, .. } = totals;
            Ok(OperatorReport {
                id: id.clone(),
                kind: operator.kind().to_owned(),
                rows_in,
                counts,
                updates,
                removals,
                store_instances: run.plan().partitions,
                custom,
            })
        });
        Ok(BatchOutput {
            operators: operators.collect::<Result<_>>()?,
            late: Vec::new(),
            sealed: report.sealed,
            staged,
            event_times: report.event_times,
            source_rows: report.source_rows,
            planning,
            observed: BTreeMap::new(),
        })
    }
}

/// Writes the rows that came too late, if somebody wants them. They wait in memory until here, so
/// that they are in the same order in every replay.
async fn write_late(run: &BatchRun) -> Result<Vec<Staged>> {
    let Some(mut writer) = LateWriter::of(run.context()) else { return Ok(Vec::new()) };
    let late = std::mem::take(&mut run.report().late);
    for ((operator, ..), batches) in late {
        let Some(watermark) = run.watermarks(&operator).late.0 else { continue };
        let judged = Judged { batch: run.plan().batch, operator, watermark };
        for batch in batches {
            writer.write(record(&judged, &batch)?).await?;
        }
    }
    writer.stage().await
}

/// Writes every partition of the result to the sink, side by side.
async fn write(
    plan: &Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    sink: Arc<dyn Sink>,
    batch: BatchId,
) -> Result<Vec<Staged>> {
    let mut writers = JoinSet::new();
    for partition in 0..plan.output_partitioning().partition_count() {
        let rows = plan.execute(partition, Arc::clone(&context)).map_err(from_datafusion)?;
        let partition = PartitionId(partition as u32);
        writers.spawn(write_partition(rows, Arc::clone(&sink), batch, partition));
    }
    let mut staged = Vec::new();
    while let Some(ended) = writers.join_next().await {
        let ended = ended.map_err(|e| {
            let message = format!("a writer of batch {batch} died: {e}");
            fluvial_core::Error::invalid(message).with_source(e)
        })?;
        staged.push(ended?);
    }
    staged.sort_by_key(|s| s.partition);
    Ok(staged)
}

async fn write_partition(
    mut rows: SendableRecordBatchStream,
    sink: Arc<dyn Sink>,
    batch: BatchId,
    partition: PartitionId,
) -> Result<Staged> {
    let mut writer = sink.writer(batch, partition).await?;
    while let Some(rows) = rows.next().await {
        let rows = rows.map_err(from_datafusion)?;
        if rows.num_rows() > 0 {
            writer.write(rows).await?;
        }
    }
    writer.stage().await
}

/// Runs the stateful partitions that nothing downstream asked for.
async fn finish_partitions(
    plan: &Arc<dyn ExecutionPlan>,
    state: &SessionState,
    run: &BatchRun,
) -> Result<()> {
    for child in plan.children() {
        Box::pin(finish_partitions(child, state, run)).await?;
    }
    let any: &dyn Any = plan.as_ref();
    let Some(stateful) = any.downcast_ref::<StatefulExec>() else { return Ok(()) };
    for partition in 0..plan.output_partitioning().partition_count() {
        let key = (stateful.operator_id().clone(), PartitionId(partition as u32));
        let started = run.report().started.contains(&key);
        if !started {
            let mut rows = plan.execute(partition, state.task_ctx()).map_err(from_datafusion)?;
            while let Some(rows) = rows.next().await {
                rows.map_err(from_datafusion)?;
            }
        }
    }
    Ok(())
}
