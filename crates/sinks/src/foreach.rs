//! Hands rows to a writer of the user while the batch runs.

use crate::in_process::{ALL_MODES, Claim, InProcess};
use arrow::array::RecordBatch;
use async_trait::async_trait;
use fluvial_core::{
    BatchId, CommitOutcome, Error, Note, OutputMode, PartitionId, Result, Sink, SinkSpec,
    SinkWriter, Staged,
};
use std::fmt;
use std::sync::Arc;

/// Writes the rows of one partition of one batch to a place of the user's.
///
/// `open`, then `process` for each record batch, then `close`; all on one task. What must be
/// released even if the batch is given up while this writer waits belongs in `Drop`.
#[async_trait]
pub trait ForeachWriter: Send {
    /// Prepares for the rows of `partition` of `batch`. `false` skips them: `process` is not
    /// called. A batch that comes again has the same id and rows, but maybe in other partitions.
    ///
    /// # Errors
    ///
    /// Any error fails the batch, after `close`.
    async fn open(&mut self, partition: PartitionId, batch: BatchId) -> Result<bool>;

    /// Takes rows.
    ///
    /// # Errors
    ///
    /// Any error fails the batch, after `close`.
    async fn process(&mut self, rows: RecordBatch) -> Result<()>;

    /// The end: with the error that `open` or `process` gave, if one did.
    ///
    /// # Errors
    ///
    /// Any error fails the batch, unless it failed already.
    async fn close(&mut self, error: Option<&Error>) -> Result<()>;
}

type Factory = dyn Fn() -> Box<dyn ForeachWriter> + Send + Sync;

/// A [`ForeachWriter`] for each partition of each batch.
///
/// *At least once:* rows are written while the batch runs, so a batch that fails afterwards comes
/// again. Rows are not kept in memory. Where a batch must be seen whole, or once, see
/// [`crate::ForeachBatchSink`].
#[derive(Clone)]
pub struct ForeachSink {
    memory: Arc<InProcess>,
    factory: Arc<Factory>,
}

impl ForeachSink {
    /// `factory` makes the writer of a partition of a batch.
    pub fn new<F, W>(factory: F) -> Self
    where
        F: Fn() -> W + Send + Sync + 'static,
        W: ForeachWriter + 'static,
    {
        let factory = move || -> Box<dyn ForeachWriter> { Box::new(factory()) };
        Self { memory: Arc::default(), factory: Arc::new(factory) }
    }
}

impl fmt::Debug for ForeachSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeachSink").field("memory", &self.memory).finish_non_exhaustive()
    }
}

#[async_trait]
impl Sink for ForeachSink {
    fn description(&self) -> String {
        "ForeachSink".into()
    }

    fn modes(&self) -> &[OutputMode] {
        ALL_MODES
    }

    async fn open(&self, spec: &SinkSpec) -> Result<Option<BatchId>> {
        self.memory.open("ForeachSink", spec)
    }

    async fn writer(&self, batch: BatchId, partition: PartitionId) -> Result<Box<dyn SinkWriter>> {
        let mut user = (self.factory)();
        let wanted = match user.open(partition, batch).await {
            Ok(wanted) => wanted,
            Err(error) => return Err(failed(user.as_mut(), error, batch, partition).await),
        };
        let token = self.memory.writer(batch, partition);
        Ok(Box::new(PartitionWriter { user, wanted, batch, partition, token, rows: 0 }))
    }

    async fn commit(
        &self,
        batch: BatchId,
        staged: Vec<Staged>,
        note: &Note,
    ) -> Result<CommitOutcome> {
        match self.memory.claim(batch, &staged)? {
            Claim::Already(outcome) => Ok(outcome),
            // The rows are out already; what is published is that they are.
            Claim::Publish(claimed, _) => Ok(claimed.done(note)),
        }
    }
}

/// Closes the writer because of `error`, and says where that was.
async fn failed(
    user: &mut dyn ForeachWriter,
    error: Error,
    batch: BatchId,
    partition: PartitionId,
) -> Error {
    // The first error is the one to tell.
    drop(user.close(Some(&error)).await);
    error.at(format!("batch {batch}, partition {partition}: foreach"))
}

struct PartitionWriter {
    user: Box<dyn ForeachWriter>,
    wanted: bool,
    batch: BatchId,
    partition: PartitionId,
    /// Stages nothing but that this partition was written.
    token: Box<dyn SinkWriter>,
    rows: u64,
}

#[async_trait]
impl SinkWriter for PartitionWriter {
    async fn write(&mut self, rows: RecordBatch) -> Result<()> {
        self.rows += rows.num_rows() as u64;
        if !self.wanted || rows.num_rows() == 0 {
            return Ok(());
        }
        match self.user.process(rows).await {
            Ok(()) => Ok(()),
            Err(error) => Err(failed(self.user.as_mut(), error, self.batch, self.partition).await),
        }
    }

    async fn stage(mut self: Box<Self>) -> Result<Staged> {
        let place = || format!("batch {}, partition {}: foreach", self.batch, self.partition);
        self.user.close(None).await.map_err(|e| e.at(place()))?;
        Ok(Staged { rows: self.rows, ..self.token.stage().await? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{note, numbers, publish, spec, values};
    use fluvial_core::ErrorKind;
    use futures::executor::block_on;
    use std::sync::Mutex;

    type Log = Arc<Mutex<Vec<String>>>;

    /// Writes what happens into a log; skips partition 9 and cannot take the number 13.
    struct Writer(Log);

    impl Writer {
        fn log(&self, line: String) {
            self.0.lock().unwrap().push(line);
        }
    }

    #[async_trait]
    impl ForeachWriter for Writer {
        async fn open(&mut self, partition: PartitionId, batch: BatchId) -> Result<bool> {
            self.log(format!("open {partition} of {batch}"));
            Ok(partition.0 != 9)
        }

        async fn process(&mut self, rows: RecordBatch) -> Result<()> {
            let values = values(std::slice::from_ref(&rows));
            self.log(format!("process {values:?}"));
            if values.contains(&13) { Err(Error::invalid("no 13")) } else { Ok(()) }
        }

        async fn close(&mut self, error: Option<&Error>) -> Result<()> {
            self.log(format!("close {:?}", error.map(|e| e.message().to_owned())));
            Ok(())
        }
    }

    fn sink() -> (ForeachSink, Log) {
        let log = Log::default();
        let shared = log.clone();
        (ForeachSink::new(move || Writer(shared.clone())), log)
    }

    #[test]
    fn a_writer_is_opened_fed_and_closed_for_each_partition() {
        let (sink, log) = sink();
        block_on(async {
            sink.open(&spec("q", OutputMode::Update)).await.unwrap();
            publish(&sink, 3, &[numbers(&[1, 2]), numbers(&[])]).await.unwrap();
            let mut skipped = sink.writer(BatchId(4), PartitionId(9)).await.unwrap();
            skipped.write(numbers(&[13])).await.unwrap();
            let staged = skipped.stage().await.unwrap();
            assert_eq!(staged.rows, 1);
            sink.commit(BatchId(4), vec![staged], &note(4)).await.unwrap();
            let again = sink.commit(BatchId(4), Vec::new(), &note(4)).await.unwrap();
            assert_eq!(again, CommitOutcome::AlreadyCommitted(Some(note(4))));
        });
        let expected = [
            "open 0 of 3",
            "process [1, 2]",
            "close None",
            "open 1 of 3",
            "close None",
            "open 9 of 4",
            "close None",
        ];
        assert_eq!(*log.lock().unwrap(), expected);
    }

    #[test]
    fn an_error_closes_the_writer_and_fails_the_batch() {
        let (sink, log) = sink();
        let error = block_on(async {
            sink.open(&spec("q", OutputMode::Append)).await.unwrap();
            let mut writer = sink.writer(BatchId(0), PartitionId(0)).await.unwrap();
            writer.write(numbers(&[13])).await.unwrap_err()
        });
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(error.message(), "batch 0, partition 0: foreach: no 13");
        let expected = ["open 0 of 0", "process [13]", "close Some(\"no 13\")"];
        assert_eq!(*log.lock().unwrap(), expected);
    }
}
