//! `foreach_batch`: every batch as a DataFrame, in a session of its own.

use crate::session::{Inner, Session};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::dataframe::DataFrame;
use datafusion::datasource::MemTable;
use fluvial_core::{
    BatchId, CommitOutcome, Error, Note, OutputMode, PartitionId, QueryId, Result, Sink, SinkSpec,
    SinkWriter, Staged,
};
use fluvial_datafusion::from_datafusion;
use fluvial_sinks::ForeachBatchSink;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// A [`ForeachBatchSink`] that makes DataFrames of the rows.
struct FrameSink {
    rows: ForeachBatchSink,
    opened: Arc<Opened>,
}

/// Whose batches they are, and their columns.
#[derive(Default)]
struct Opened(Mutex<Option<(QueryId, SchemaRef)>>);

impl Opened {
    fn set(&self, spec: &SinkSpec) {
        let opened = (spec.query.clone(), spec.schema.clone());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(opened);
    }

    fn get(&self) -> Result<(QueryId, SchemaRef)> {
        let opened = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        opened.ok_or_else(|| Error::invalid("foreach_batch was not opened before its first batch"))
    }
}

/// A sink that calls `callback` with each batch.
pub(crate) fn sink<F, Fut>(session: &Session, callback: F) -> Arc<dyn Sink>
where
    F: Fn(DataFrame, BatchId) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<()>> + Send + 'static,
{
    // The session holds the query that holds the sink.
    let session = Arc::downgrade(&session.0);
    let opened = Arc::new(Opened::default());
    let known = Arc::clone(&opened);
    let rows = ForeachBatchSink::new(move |batch, rows| {
        let called = frame(&session, &known, batch, rows)
            .map(|(session, frame)| (session, callback(frame, batch)));
        async move {
            // The session of a batch lives as long as its callback.
            let (session, done) = called?;
            let done = done.await;
            drop(session);
            done
        }
    });
    Arc::new(FrameSink { rows, opened })
}

fn frame(
    session: &Weak<Inner>,
    opened: &Opened,
    batch: BatchId,
    rows: Vec<RecordBatch>,
) -> Result<(Session, DataFrame)> {
    let session = session.upgrade().map(Session);
    let session = session.ok_or_else(|| Error::invalid("the session is gone"))?;
    let (query, schema) = opened.get()?;
    let session = session.for_batch(query, batch);
    let table = MemTable::try_new(schema, vec![rows]).map_err(from_datafusion)?;
    let frame = session.context().read_table(Arc::new(table)).map_err(from_datafusion)?;
    Ok((session, frame))
}

#[async_trait]
impl Sink for FrameSink {
    fn description(&self) -> String {
        self.rows.description()
    }

    fn modes(&self) -> &[OutputMode] {
        self.rows.modes()
    }

    async fn open(&self, spec: &SinkSpec) -> Result<Option<BatchId>> {
        let last = self.rows.open(spec).await?;
        self.opened.set(spec);
        Ok(last)
    }

    async fn writer(&self, batch: BatchId, partition: PartitionId) -> Result<Box<dyn SinkWriter>> {
        self.rows.writer(batch, partition).await
    }

    async fn commit(
        &self,
        batch: BatchId,
        staged: Vec<Staged>,
        note: &Note,
    ) -> Result<CommitOutcome> {
        self.rows.commit(batch, staged, note).await
    }
}
