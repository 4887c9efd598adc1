//! Hands each batch to a callback of the user.

use crate::in_process::{ALL_MODES, Claim, InProcess};
use arrow::array::RecordBatch;
use async_trait::async_trait;
use fluvial_core::{
    BatchId, CommitOutcome, Note, OutputMode, PartitionId, Result, Sink, SinkSpec, SinkWriter,
    Staged,
};
use futures::future::BoxFuture;
use std::fmt;
use std::sync::Arc;

type Callback = dyn Fn(BatchId, Vec<RecordBatch>) -> BoxFuture<'static, Result<()>> + Send + Sync;

/// Calls a function with the id and the rows of each batch.
///
/// *At least once:* after a crash between the callback and the commit of the batch, the same
/// batch, with the same id and the same rows, is handed over again; an effect outside must be
/// made idempotent with the batch id. The rows are materialised, so the callback may read them
/// as often as it likes without running the query again. All rows of a batch are in memory.
///
/// A callback that returns an error fails the batch.
#[derive(Clone)]
pub struct ForeachBatchSink {
    memory: Arc<InProcess>,
    callback: Arc<Callback>,
}

impl ForeachBatchSink {
    /// Calls `callback` once per batch.
    pub fn new<F, Fut>(callback: F) -> Self
    where
        F: Fn(BatchId, Vec<RecordBatch>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<()>> + Send + 'static,
    {
        let callback = move |batch, rows| -> BoxFuture<'static, Result<()>> {
            Box::pin(callback(batch, rows))
        };
        Self { memory: Arc::default(), callback: Arc::new(callback) }
    }
}

impl fmt::Debug for ForeachBatchSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeachBatchSink").field("memory", &self.memory).finish_non_exhaustive()
    }
}

#[async_trait]
impl Sink for ForeachBatchSink {
    fn description(&self) -> String {
        "ForeachBatchSink".into()
    }

    fn modes(&self) -> &[OutputMode] {
        ALL_MODES
    }

    async fn open(&self, spec: &SinkSpec) -> Result<Option<BatchId>> {
        self.memory.open("ForeachBatchSink", spec)
    }

    async fn writer(&self, batch: BatchId, partition: PartitionId) -> Result<Box<dyn SinkWriter>> {
        Ok(self.memory.writer(batch, partition))
    }

    async fn commit(
        &self,
        batch: BatchId,
        staged: Vec<Staged>,
        note: &Note,
    ) -> Result<CommitOutcome> {
        match self.memory.claim(batch, &staged)? {
            Claim::Already(outcome) => Ok(outcome),
            Claim::Publish(claimed, rows) => {
                (self.callback)(batch, rows)
                    .await
                    .map_err(|e| e.at(format!("batch {batch}: foreachBatch")))?;
                Ok(claimed.done(note))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{note, numbers, publish, spec, values};
    use fluvial_core::{Error, ErrorKind};
    use futures::executor::block_on;
    use std::sync::Mutex;

    #[test]
    fn the_callback_gets_each_batch_whole() {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let log = seen.clone();
        let sink = ForeachBatchSink::new(move |batch, rows| {
            let log = log.clone();
            async move {
                log.lock().unwrap().push((batch.0, values(&rows), values(&rows)));
                Ok(())
            }
        });
        block_on(async {
            sink.open(&spec("q", OutputMode::Update)).await.unwrap();
            publish(&sink, 0, &[numbers(&[1, 2]), numbers(&[3])]).await.unwrap();
            let again = publish(&sink, 0, &[numbers(&[1, 2, 3])]).await.unwrap();
            assert_eq!(again, CommitOutcome::AlreadyCommitted(Some(note(0))));
            publish(&sink, 1, &[]).await.unwrap();
        });
        assert_eq!(*seen.lock().unwrap(), [(0, vec![1, 2, 3], vec![1, 2, 3]), (1, vec![], vec![])]);
    }

    #[test]
    fn a_failed_callback_can_be_tried_again_with_the_same_rows() {
        let tries = Arc::new(Mutex::new(0));
        let count = tries.clone();
        let sink = ForeachBatchSink::new(move |_, rows| {
            let count = count.clone();
            async move {
                assert_eq!(values(&rows), [7]);
                *count.lock().unwrap() += 1;
                match *count.lock().unwrap() {
                    1 => Err(Error::unavailable("the other side is away")),
                    _ => Ok(()),
                }
            }
        });
        block_on(async {
            sink.open(&spec("q", OutputMode::Append)).await.unwrap();
            let mut writer = sink.writer(BatchId(0), PartitionId(0)).await.unwrap();
            writer.write(numbers(&[7])).await.unwrap();
            let staged = vec![writer.stage().await.unwrap()];
            let error = sink.commit(BatchId(0), staged.clone(), &note(0)).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert_eq!(error.message(), "batch 0: foreachBatch: the other side is away");
            let outcome = sink.commit(BatchId(0), staged, &note(0)).await.unwrap();
            assert_eq!(outcome, CommitOutcome::Committed);
        });
        assert_eq!(*tries.lock().unwrap(), 2);
    }
}
