//! `ExchangeExec`: brings rows to the partition that owns their key.
//!
//! Ours rather than DataFusion's, because where state lives must never depend on another crate's
//! hash, and because a replay must be exact: an output partition delivers the rows of input
//! partition 0 first, then 1, and so on, each in order, whatever the schedule. To that end it
//! buffers without bound but not without account: buffered bytes are reserved from the pool.

use super::properties;
use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use fluvial_core::PartitionId;
use futures::{StreamExt, stream};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
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

type Parcel = Result<(RecordBatch, usize)>;

/// Moves rows between partitions, in a fixed order.
#[derive(Debug)]
pub(crate) struct ExchangeExec {
    input: Arc<dyn ExecutionPlan>,
    route: Arc<dyn Route>,
    partitions: usize,
    properties: Arc<PlanProperties>,
    /// The receivers of each output partition, one per input partition, once started.
    lanes: Mutex<Option<Lanes>>,
}

#[derive(Debug)]
struct Lanes {
    outputs: Vec<Option<Vec<UnboundedReceiver<Parcel>>>>,
    /// Keeps the readers alive as long as anybody listens.
    readers: Arc<JoinSet<()>>,
    reservation: Arc<Mutex<MemoryReservation>>,
}

impl ExchangeExec {
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        route: Arc<dyn Route>,
        partitions: usize,
    ) -> Self {
        let properties = properties::of(input.schema(), partitions);
        Self { input, route, partitions, properties, lanes: Mutex::new(None) }
    }

    fn start(&self, context: &Arc<TaskContext>) -> Result<Lanes> {
        let inputs = self.input.output_partitioning().partition_count();
        let reservation = MemoryConsumer::new("FluvialExchange").register(context.memory_pool());
        let reservation = Arc::new(Mutex::new(reservation));
        let mut outputs: Vec<Vec<_>> = (0..self.partitions).map(|_| Vec::new()).collect();
        let mut readers = JoinSet::new();
        for partition in 0..inputs {
            let rows = self.input.execute(partition, Arc::clone(context))?;
            let mut senders = Vec::with_capacity(self.partitions);
            for output in &mut outputs {
                let (sender, receiver) = unbounded_channel();
                senders.push(sender);
                output.push(receiver);
            }
            let (route, reservation) = (Arc::clone(&self.route), Arc::clone(&reservation));
            readers.spawn(async move {
                if let Err(error) = distribute(rows, route.as_ref(), &senders, &reservation).await {
                    let error = Arc::new(error);
                    for sender in &senders {
                        // A receiver that is gone needs no error.
                        sender.send(Err(DataFusionError::Shared(Arc::clone(&error)))).ok();
                    }
                }
            });
        }
        let outputs = outputs.into_iter().map(Some).collect();
        Ok(Lanes { outputs, readers: Arc::new(readers), reservation })
    }
}

/// Reads one input partition to its end and hands the rows out.
async fn distribute(
    mut rows: SendableRecordBatchStream,
    route: &dyn Route,
    senders: &[UnboundedSender<Parcel>],
    reservation: &Mutex<MemoryReservation>,
) -> Result<()> {
    while let Some(batch) = rows.next().await {
        let batch = batch?;
        if batch.num_rows() == 0 {
            continue;
        }
        for (partition, part) in split(batch, route, senders.len())? {
            let bytes = part.get_array_memory_size();
            reservation.lock().unwrap_or_else(PoisonError::into_inner).try_grow(bytes)?;
            senders[partition].send(Ok((part, bytes))).ok();
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
        let Some(receivers) = started.outputs.get_mut(partition).and_then(Option::take) else {
            return internal_err!("partition {partition} of an exchange can be read once");
        };
        let (readers, reservation) =
            (Arc::clone(&started.readers), Arc::clone(&started.reservation));
        let ordered = stream::iter(receivers).flat_map(|receiver| {
            stream::unfold(receiver, |mut receiver| async move {
                receiver.recv().await.map(|parcel| (parcel, receiver))
            })
        });
        let rows = ordered.map(move |parcel| {
            let _alive = &readers;
            parcel.map(|(batch, bytes)| {
                reservation.lock().unwrap_or_else(PoisonError::into_inner).shrink(bytes);
                batch
            })
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
