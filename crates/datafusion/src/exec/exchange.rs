//! `ExchangeExec`: brings rows to the partition that owns their key.
//!
//! Ours rather than DataFusion's, because where state lives must never depend on another crate's
//! hash, and because a replay must be exact: an output partition delivers the rows of input
//! partition 0 first, then 1, and so on, each in order, whatever the schedule. What has to wait for
//! that waits in memory as far as the pool has room, and else in temporary files.

use super::lane::{Depot, LaneReader, LaneWriter};
use super::properties;
use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use fluvial_core::PartitionId;
use futures::{StreamExt, stream};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinSet;

/// Says where rows go.
pub(crate) trait Route: fmt::Debug + Send + Sync {
    /// The output partitions of a batch's rows.
    fn route(&self, rows: &RecordBatch, partitions: usize) -> Result<Routed>;
}

/// Where the rows of one batch go.
pub(crate) enum Routed {
    /// All to this partition.
    Together(usize),
    /// Each to its own.
    Apart(Vec<PartitionId>),
}

/// Everything to the first partition: an ordered gather.
#[derive(Debug)]
pub(crate) struct Gather;

impl Route for Gather {
    fn route(&self, _: &RecordBatch, _: usize) -> Result<Routed> {
        Ok(Routed::Together(0))
    }
}

/// Moves rows between partitions, in a fixed order.
#[derive(Debug)]
pub(crate) struct ExchangeExec {
    input: Arc<dyn ExecutionPlan>,
    route: Arc<dyn Route>,
    partitions: usize,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    lanes: Mutex<Option<Lanes>>,
}

/// Once started.
struct Lanes {
    /// Of each output partition, one per input partition.
    outputs: Vec<Option<Vec<LaneReader>>>,
    /// Keeps the readers alive as long as anybody listens.
    readers: Arc<JoinSet<()>>,
}

impl fmt::Debug for Lanes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lanes({})", self.outputs.len())
    }
}

impl ExchangeExec {
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        route: Arc<dyn Route>,
        partitions: usize,
    ) -> Self {
        let properties = properties::of(input.schema(), partitions);
        let metrics = ExecutionPlanMetricsSet::new();
        Self { input, route, partitions, properties, metrics, lanes: Mutex::new(None) }
    }

    fn start(&self, context: &Arc<TaskContext>) -> Result<Lanes> {
        let inputs = self.input.output_partitioning().partition_count();
        let reservation = MemoryConsumer::new("FluvialExchange")
            .with_can_spill(true)
            .register(context.memory_pool());
        let depot = Depot::new(reservation, self.schema(), &self.metrics, context);
        let mut outputs: Vec<Vec<_>> = (0..self.partitions).map(|_| Vec::new()).collect();
        let mut readers = JoinSet::new();
        for partition in 0..inputs {
            let rows = self.input.execute(partition, Arc::clone(context))?;
            let mut lanes = Vec::with_capacity(self.partitions);
            for output in &mut outputs {
                let (writer, reader) = depot.lane();
                lanes.push(writer);
                output.push(reader);
            }
            let route = Arc::clone(&self.route);
            readers.spawn(async move {
                if let Err(error) = distribute(rows, route.as_ref(), &lanes).await {
                    let error = Arc::new(error);
                    for lane in &lanes {
                        lane.fail(DataFusionError::Shared(Arc::clone(&error)));
                    }
                }
            });
        }
        let outputs = outputs.into_iter().map(Some).collect();
        Ok(Lanes { outputs, readers: Arc::new(readers) })
    }
}

/// Reads one input partition to its end and hands the rows out.
async fn distribute(
    mut rows: SendableRecordBatchStream,
    route: &dyn Route,
    lanes: &[LaneWriter],
) -> Result<()> {
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        if batch.num_rows() == 0 {
            continue;
        }
        for (partition, part) in split(batch, route, lanes.len())? {
            lanes[partition].send(part)?;
        }
    }
    Ok(())
}

/// The parts of a batch by output partition, rows in order.
fn split(
    batch: RecordBatch,
    route: &dyn Route,
    partitions: usize,
) -> Result<Vec<(usize, RecordBatch)>> {
    let targets = match route.route(&batch, partitions)? {
        Routed::Together(partition) => return Ok(vec![(partition, batch)]),
        Routed::Apart(targets) => targets,
    };
    let mut indices: Vec<Vec<u32>> = vec![Vec::new(); partitions];
    for (row, target) in targets.iter().enumerate() {
        indices[target.0 as usize].push(row as u32);
    }
    let mut parts = Vec::new();
    for (partition, rows) in indices.into_iter().enumerate() {
        if rows.len() == batch.num_rows() {
            return Ok(vec![(partition, batch)]);
        }
        if !rows.is_empty() {
            parts.push((partition, take_record_batch(&batch, &UInt32Array::from(rows))?));
        }
    }
    Ok(parts)
}

impl DisplayAs for ExchangeExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "ExchangeExec: {:?}, partitions={}", self.route, self.partitions)
    }
}

impl ExecutionPlan for ExchangeExec {
    fn name(&self) -> &str {
        "ExchangeExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    properties::no_expressions!();

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.into_iter().next() else {
            return internal_err!("an exchange needs one input");
        };
        Ok(Arc::new(Self::new(input, Arc::clone(&self.route), self.partitions)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if lanes.is_none() {
            *lanes = Some(self.start(&context)?);
        }
        let Some(started) = lanes.as_mut() else {
            return internal_err!("an exchange that was started has lanes");
        };
        let Some(mine) = started.outputs.get_mut(partition).and_then(Option::take) else {
            return internal_err!("partition {partition} of an exchange can be read once");
        };
        let readers = Arc::clone(&started.readers);
        let rows = stream::iter(mine).flat_map(LaneReader::rows).inspect(move |_| {
            let _alive = &readers;
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::execution::memory_pool::GreedyMemoryPool;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_plan::common::collect;

    /// By the remainder of the first column.
    #[derive(Debug)]
    struct Remainder;

    impl Route for Remainder {
        fn route(&self, rows: &RecordBatch, partitions: usize) -> Result<Routed> {
            let numbers = rows.column(0).as_primitive::<Int64Type>();
            let partition = |n: &i64| PartitionId((n % partitions as i64) as u32);
            Ok(Routed::Apart(numbers.values().iter().map(partition).collect()))
        }
    }

    fn batch(start: i64) -> RecordBatch {
        let schema = Schema::new(vec![Field::new("n", DataType::Int64, false)]);
        let numbers = Int64Array::from_iter_values(start..start + 100);
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(numbers)]).unwrap()
    }

    /// What each output partition gets, and how many bytes went to files.
    async fn exchanged(pool_bytes: usize) -> (Vec<Vec<RecordBatch>>, usize) {
        let inputs: Vec<Vec<RecordBatch>> =
            (0..3).map(|p| (0..5).map(|b| batch(p * 10_000 + b * 100)).collect()).collect();
        let input = MemorySourceConfig::try_new_exec(&inputs, batch(0).schema(), None).unwrap();
        let exchange = ExchangeExec::new(input, Arc::new(Remainder), 3);
        let pool = Arc::new(GreedyMemoryPool::new(pool_bytes));
        let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool.clone()).build_arc().unwrap();
        let context = Arc::new(TaskContext::default().with_runtime(runtime));
        let mut outputs = Vec::new();
        // One after the other: what goes to the others waits.
        for partition in 0..3 {
            let rows = exchange.execute(partition, Arc::clone(&context)).unwrap();
            outputs.push(collect(rows).await.unwrap());
        }
        let spilled = exchange.metrics().unwrap().spilled_bytes().unwrap_or(0);
        let reserved: &dyn datafusion::execution::memory_pool::MemoryPool = pool.as_ref();
        assert_eq!(reserved.reserved(), 0, "all that was reserved is given back");
        (outputs, spilled)
    }

    #[tokio::test]
    async fn what_has_no_room_in_memory_waits_in_files_and_comes_in_the_same_order() {
        let (in_memory, spilled) = exchanged(usize::MAX).await;
        assert_eq!(spilled, 0);
        assert_eq!(in_memory.iter().flatten().map(RecordBatch::num_rows).sum::<usize>(), 1500);
        // None fits, or about every second.
        for bytes in [0, 2_000, 6_000] {
            let (outputs, spilled) = exchanged(bytes).await;
            assert_eq!(outputs, in_memory, "{bytes} bytes");
            assert!(spilled > 0, "{bytes} bytes");
        }
    }
}
