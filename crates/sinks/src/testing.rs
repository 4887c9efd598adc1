//! Small queries and batches for this crate's tests.

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema};
use fluvial_core::{
    BatchId, CommitOutcome, Note, OutputMode, PartitionId, QueryId, Result, RunId, Sink, SinkId,
    SinkSpec,
};
use std::sync::Arc;

pub(crate) fn spec(query: &str, mode: OutputMode) -> SinkSpec {
    SinkSpec {
        query: QueryId::new(query).unwrap(),
        sink: SinkId::new("out").unwrap(),
        run: RunId::new("run").unwrap(),
        schema: numbers(&[]).schema(),
        mode,
    }
}

pub(crate) fn numbers(values: &[i64]) -> RecordBatch {
    let schema = Schema::new(vec![Field::new("value", DataType::Int64, true)]);
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(Int64Array::from(values.to_vec()))])
        .unwrap()
}

pub(crate) fn values(batches: &[RecordBatch]) -> Vec<i64> {
    let column = |b: &RecordBatch| b.column(0).as_any().downcast_ref::<Int64Array>().cloned();
    batches.iter().flat_map(|b| column(b).unwrap().values().to_vec()).collect()
}

pub(crate) fn note(batch: u64) -> Note {
    Note(format!("note {batch}").into())
}

/// Writes one partition per element of `parts` and commits.
pub(crate) async fn publish(
    sink: &dyn Sink,
    batch: u64,
    parts: &[RecordBatch],
) -> Result<CommitOutcome> {
    let mut staged = Vec::new();
    for (partition, rows) in (0..).zip(parts) {
        let mut writer = sink.writer(BatchId(batch), PartitionId(partition)).await?;
        writer.write(rows.clone()).await?;
        staged.push(writer.stage().await?);
    }
    sink.commit(BatchId(batch), staged, &note(batch)).await
}
