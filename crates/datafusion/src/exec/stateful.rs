//! `StatefulExec`: runs one stateful operator on one batch, partition by partition.

use super::batch_run::{BatchRun, Judge};
use super::properties;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use fluvial_core::{
    Error, LateBatch, LateHandling, Operator, OperatorId, OperatorRun, OutputMode, PartitionId,
    StateStore, StoreId,
};
use fluvial_engine::check_account;
use futures::StreamExt;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{Sender, channel};

/// The kinds that only ever append, also below the aggregation of a complete query.
const APPENDING: &[&str] = &["dedupe", "dedupeWithinWatermark", "globalLimit"];

/// How many output batches may wait for a slow reader.
const OUTPUT_WAITING: usize = 4;

/// One operator over its inputs, each partitioned by the operator's keys.
pub(crate) struct StatefulExec {
    /// By port.
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    operator: Arc<dyn Operator>,
    store: StoreId,
    /// What of a row of each port is the row that came, where the operator itself says which are
    /// late; no ports where a filter below it does.
    judged: Vec<Range<usize>>,
    properties: Arc<PlanProperties>,
}

impl StatefulExec {
    /// `schema` is the logical node's: the operator's output with the plan's names.
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        operator: Arc<dyn Operator>,
        store: StoreId,
        schema: SchemaRef,
    ) -> Self {
        let partitions = input.output_partitioning().partition_count();
        Self::over(vec![input], partitions, operator, store, schema)
    }

    /// Over several inputs of `partitions` partitions each.
    pub(crate) fn over(
        inputs: Vec<Arc<dyn ExecutionPlan>>,
        partitions: usize,
        operator: Arc<dyn Operator>,
        store: StoreId,
        schema: SchemaRef,
    ) -> Self {
        let properties = properties::of(schema, partitions);
        Self { inputs, operator, store, judged: Vec::new(), properties }
    }

    /// The operator itself says which rows are late. `columns` are those of a row of each port
    /// that came in; the others were made for the operator.
    pub(crate) fn judging(self, columns: Vec<Range<usize>>) -> Self {
        Self { judged: columns, ..self }
    }

    /// The operator's name.
    pub(crate) fn operator_id(&self) -> &OperatorId {
        &self.store.operator
    }
}

impl fmt::Debug for StatefulExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StatefulExec({})", self.store)
    }
}

/// The input of the operator, the output of the task.
struct Task {
    run: Arc<BatchRun>,
    operator: Arc<dyn Operator>,
    store: StoreId,
    partition: PartitionId,
    judged: Vec<Range<usize>>,
    schema: SchemaRef,
    output: Sender<Result<RecordBatch>>,
}

impl Task {
    /// Runs to the end even if nobody listens any more: state must not depend on what a limit or
    /// an empty join side downstream cares to read.
    async fn run(self, inputs: Vec<SendableRecordBatchStream>) {
        if let Err(error) = self.process(inputs).await {
            let place = format!("operator {}, partition {}", self.store.operator, self.partition);
            let error = error.at(place);
            let copy = Error::new(error.kind(), error.message().to_owned());
            let copy = match error.condition() {
                Some(condition) => copy.with_condition(condition.to_owned()),
                None => copy,
            };
            self.run.report().failed.get_or_insert(copy);
            self.output.send(Err(crate::error::plan(error))).await.ok();
        }
    }

    async fn process(&self, inputs: Vec<SendableRecordBatchStream>) -> fluvial_core::Result<()> {
        let mut info = self.run.info(&self.store.operator, self.partition);
        if APPENDING.contains(&self.operator.kind()) {
            info.mode = OutputMode::Append;
        }
        if self.judged.is_empty() {
            info.late_rows = LateHandling::Drop;
        }
        let watch = &self.run.context().stopwatch;
        let mut state = self.run.open_store(&self.store, self.partition).await?;
        let mut active = self.operator.start(info)?;
        let (mut updates, mut pushed) = (Duration::ZERO, 0);
        // One port after the other: the exchanges below hold what comes meanwhile.
        for (port, mut input) in inputs.into_iter().enumerate() {
            while let Some(rows) = input.next().await {
                let rows = rows.map_err(crate::error::from_datafusion)?;
                let start = watch.now();
                pushed += rows.num_rows() as u64;
                active.push(port, rows, state.as_mut())?;
                updates += watch.since(start);
                self.keep_late(active.take_late())?;
                self.drain(active.as_mut(), state.as_mut()).await?;
            }
        }
        let start = watch.now();
        let is_local = state.is_local();
        if !is_local {
            state.prefetch(&active.prefetch()?).await?;
        }
        active.finish_input(state.as_mut())?;
        if !is_local {
            state.prefetch(&active.prefetch()?).await?;
        }
        updates += watch.since(start);
        let start = watch.now();
        self.drain(active.as_mut(), state.as_mut()).await?;
        let removals = watch.since(start);
        let (counts, metrics) = (active.counts(), active.metrics());
        let next_timer = active.next_timer();
        drop(active);
        check_account(&self.store.operator, self.partition, pushed, &counts)?;
        let sealed = state.seal()?;
        let mut report = self.run.report();
        let totals = report.operators.entry(self.store.operator.clone()).or_default();
        totals.pushed += pushed;
        totals.counts += counts;
        totals.updates += updates;
        totals.removals += removals;
        for (name, count) in metrics {
            *totals.custom.entry(name.to_owned()).or_default() += count as i64;
        }
        report.next_timer = [report.next_timer, next_timer].into_iter().flatten().min();
        report.sealed.push(sealed);
        Ok(())
    }

    /// Keeps what the operator found to be late, as it came to the query's plan.
    fn keep_late(&self, late: Vec<LateBatch>) -> fluvial_core::Result<()> {
        for LateBatch { port, rows } in late {
            let columns = self.judged.get(port).cloned().unwrap_or(0..rows.num_columns());
            let rows = rows.project(&columns.collect::<Vec<_>>())?;
            let (operator, partition) = (&self.store.operator, self.partition.0 as usize);
            self.run.keep_late(operator, Judge::Operator, partition, LateBatch { port, rows });
        }
        Ok(())
    }

    async fn drain(
        &self,
        active: &mut dyn OperatorRun,
        state: &mut dyn StateStore,
    ) -> fluvial_core::Result<()> {
        while let Some(rows) = active.drain(state)? {
            let rows = RecordBatch::try_new(Arc::clone(&self.schema), rows.columns().to_vec())?;
            // Nobody listening is fine; the state still matters.
            self.output.send(Ok(rows)).await.ok();
        }
        Ok(())
    }
}

impl DisplayAs for StatefulExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "StatefulExec: {}, operator={}", self.operator.kind(), self.store.operator)
    }
}

impl ExecutionPlan for StatefulExec {
    fn name(&self) -> &str {
        "StatefulExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    properties::no_expressions!();

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.len() != self.inputs.len() {
            return internal_err!("a stateful operator needs its {} inputs", self.inputs.len());
        }
        let (operator, store) = (Arc::clone(&self.operator), self.store.clone());
        let partitions = self.properties.output_partitioning().partition_count();
        let exec = Self::over(children, partitions, operator, store, self.schema());
        Ok(Arc::new(exec.judging(self.judged.clone())))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(run) = context.session_config().get_extension::<BatchRun>() else {
            return internal_err!("a stateful operator runs only inside a batch");
        };
        let partition_id = PartitionId(partition as u32);
        if !run.report().started.insert((self.store.operator.clone(), partition_id)) {
            return internal_err!("partition {partition} of {} runs once a batch", self.store);
        }
        let (sender, mut receiver) = channel(OUTPUT_WAITING);
        let task = Task {
            run: Arc::clone(&run),
            operator: Arc::clone(&self.operator),
            store: self.store.clone(),
            partition: partition_id,
            judged: self.judged.clone(),
            schema: self.schema(),
            output: sender,
        };
        let inputs = self.inputs.iter().map(|input| input.execute(partition, Arc::clone(&context)));
        run.spawn(task.run(inputs.collect::<Result<_>>()?));
        let rows = futures::stream::poll_fn(move |cx| receiver.poll_recv(cx));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
