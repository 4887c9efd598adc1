//! A lane: the rows of one input partition on their way to one output partition, in order.
//!
//! Rows wait in memory while the pool has room, and in temporary files when it has none.

use arrow::array::RecordBatch;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, SpillMetrics};
use datafusion::physical_plan::spill::SpillManager;
use datafusion::physical_plan::spill::spill_pool::{SpillPoolSink, spsc_channel};
use futures::{Stream, StreamExt, stream};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What all lanes of an exchange share: one account, and files of one schema.
pub(super) struct Depot {
    reservation: Arc<Mutex<MemoryReservation>>,
    files: Arc<SpillManager>,
    file_bytes: usize,
}

/// Where rows wait.
enum Held {
    /// In memory, with the bytes that they are accounted for.
    InMemory(RecordBatch, usize),
    /// The next of the lane's files.
    InFile,
}

/// The end into which rows go.
pub(super) struct LaneWriter {
    sender: UnboundedSender<Result<Held>>,
    reservation: Arc<Mutex<MemoryReservation>>,
    files: SpillPoolSink,
}

/// The end from which rows come.
pub(super) struct LaneReader {
    receiver: UnboundedReceiver<Result<Held>>,
    reservation: Arc<Mutex<MemoryReservation>>,
    files: SendableRecordBatchStream,
}

impl Depot {
    /// A depot for rows of `schema`, whose memory `reservation` accounts for.
    pub(super) fn new(
        reservation: MemoryReservation,
        schema: arrow::datatypes::SchemaRef,
        metrics: &ExecutionPlanMetricsSet,
        context: &TaskContext,
    ) -> Self {
        let execution = &context.session_config().options().execution;
        let spills = SpillMetrics::new(metrics, 0);
        let files = SpillManager::new(context.runtime_env(), spills, schema)
            .with_compression_type(execution.spill_compression);
        let file_bytes = execution.max_spill_file_size_bytes.into();
        let reservation = Arc::new(Mutex::new(reservation));
        Self { reservation, files: Arc::new(files), file_bytes }
    }

    /// A new lane.
    pub(super) fn lane(&self) -> (LaneWriter, LaneReader) {
        let (sender, receiver) = unbounded_channel();
        let (sink, files) = spsc_channel(self.file_bytes, Arc::clone(&self.files));
        let reservation = Arc::clone(&self.reservation);
        let writer = LaneWriter { sender, reservation: Arc::clone(&reservation), files: sink };
        (writer, LaneReader { receiver, reservation, files })
    }
}

impl LaneWriter {
    /// Sends rows. Nobody listening is fine.
    pub(super) fn send(&self, rows: RecordBatch) -> Result<()> {
        let bytes = rows.get_array_memory_size();
        let room = self.reservation.lock().unwrap_or_else(PoisonError::into_inner).try_grow(bytes);
        let held = match room {
            Ok(()) => Held::InMemory(rows, bytes),
            Err(full) => {
                self.files.push_batch(&rows).map_err(|e| e.context(full.to_string()))?;
                Held::InFile
            }
        };
        self.sender.send(Ok(held)).ok();
        Ok(())
    }

    /// Sends an error in place of what would follow.
    pub(super) fn fail(&self, error: DataFusionError) {
        self.sender.send(Err(error)).ok();
    }
}

impl LaneReader {
    /// The rows, in the order in which they were sent.
    pub(super) fn rows(self) -> impl Stream<Item = Result<RecordBatch>> + Send {
        stream::unfold(self, |mut lane| async move {
            let rows = match lane.receiver.recv().await? {
                Ok(held) => lane.take(held).await,
                Err(error) => Err(error),
            };
            Some((rows, lane))
        })
    }

    async fn take(&mut self, held: Held) -> Result<RecordBatch> {
        match held {
            Held::InMemory(rows, bytes) => {
                self.reservation.lock().unwrap_or_else(PoisonError::into_inner).shrink(bytes);
                Ok(rows)
            }
            Held::InFile => match self.files.next().await {
                Some(rows) => rows,
                None => internal_err!("rows of an exchange are missing in its temporary file"),
            },
        }
    }
}
