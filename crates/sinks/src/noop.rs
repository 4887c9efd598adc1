//! A sink that throws rows away and counts them, for benchmarks and dry runs.

use crate::in_process::{ALL_MODES, Claim, InProcess};
use async_trait::async_trait;
use fluvial_core::{
    BatchId, CommitOutcome, Note, OutputMode, PartitionId, Result, Sink, SinkSpec, SinkWriter,
    Staged,
};
use std::sync::{Arc, Mutex, PoisonError};

/// What a [`NoopSink`] was given.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NoopCounts {
    /// Batches published.
    pub batches: u64,
    /// Rows of them.
    pub rows: u64,
}

/// Publishes nothing, in every mode; clones share the counts. It forgets with the process.
#[derive(Debug, Clone, Default)]
pub struct NoopSink {
    memory: Arc<InProcess>,
    counts: Arc<Mutex<NoopCounts>>,
}

impl NoopSink {
    /// A sink that has counted nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// What was published so far.
    pub fn counts(&self) -> NoopCounts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Sink for NoopSink {
    fn description(&self) -> String {
        "NoopSink".into()
    }

    fn modes(&self) -> &[OutputMode] {
        ALL_MODES
    }

    async fn open(&self, spec: &SinkSpec) -> Result<Option<BatchId>> {
        self.memory.open("NoopSink", spec)
    }

    async fn writer(&self, _: BatchId, partition: PartitionId) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(Counter { partition, rows: 0 }))
    }

    async fn commit(
        &self,
        batch: BatchId,
        staged: Vec<Staged>,
        note: &Note,
    ) -> Result<CommitOutcome> {
        match self.memory.claim(batch, &[])? {
            Claim::Already(outcome) => Ok(outcome),
            Claim::Publish(claimed, _) => {
                let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
                counts.batches += 1;
                counts.rows += staged.iter().map(|part| part.rows).sum::<u64>();
                drop(counts);
                Ok(claimed.done(note))
            }
        }
    }
}

#[derive(Debug)]
struct Counter {
    partition: PartitionId,
    rows: u64,
}

#[async_trait]
impl SinkWriter for Counter {
    async fn write(&mut self, rows: arrow::array::RecordBatch) -> Result<()> {
        self.rows += rows.num_rows() as u64;
        Ok(())
    }

    async fn stage(self: Box<Self>) -> Result<Staged> {
        Ok(Staged { partition: self.partition, rows: self.rows, token: bytes::Bytes::new() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{note, numbers, publish, spec};
    use futures::executor::block_on;

    #[test]
    fn counts_a_batch_once() {
        let sink = NoopSink::new();
        block_on(async {
            sink.open(&spec("q", OutputMode::Append)).await.unwrap();
            publish(&sink, 0, &[numbers(&[1, 2]), numbers(&[3])]).await.unwrap();
            let again = publish(&sink, 0, &[numbers(&[9])]).await.unwrap();
            assert_eq!(again, CommitOutcome::AlreadyCommitted(Some(note(0))));
        });
        assert_eq!(sink.counts(), NoopCounts { batches: 1, rows: 3 });
    }
}
