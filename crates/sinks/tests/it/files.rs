//! Output folders of tests: how they are written and read.

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{Int64Type, SchemaRef};
use fluvial_core::{
    BatchId, CommitOutcome, Note, OutputMode, PartitionId, QueryId, Result, RunId, Sink, SinkId,
    SinkSpec,
};
use fluvial_sinks::{FileFormat, FileOptions, FileSink, ParquetCompression, committed_files};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::num::NonZeroU64;
use std::sync::Arc;

/// The output folder.
pub(crate) const ROOT: &str = "out";

/// Parquet, with manifests forgotten early.
pub(crate) fn options() -> FileOptions {
    let mut options = FileOptions::new(FileFormat::Parquet(ParquetCompression::Snappy));
    options.manifests_kept = NonZeroU64::new(2).unwrap();
    options
}

pub(crate) fn spec(query: &str, run: &str, schema: SchemaRef) -> SinkSpec {
    SinkSpec {
        query: QueryId::new(query).unwrap(),
        sink: SinkId::new("out").unwrap(),
        run: RunId::new(run).unwrap(),
        schema,
        mode: OutputMode::Append,
    }
}

pub(crate) fn numbers(values: &[i64]) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
    RecordBatch::try_from_iter_with_nullable([("value", column, true)]).unwrap()
}

pub(crate) async fn opened(
    store: &Arc<dyn ObjectStore>,
    options: FileOptions,
    run: &str,
    rows: &RecordBatch,
) -> Result<(FileSink, Option<BatchId>)> {
    let sink = FileSink::new(store.clone(), Path::from(ROOT), options);
    let last = sink.open(&spec("q", run, rows.schema())).await?;
    Ok((sink, last))
}

/// Writes one partition per element of `parts` and commits.
pub(crate) async fn publish(
    sink: &FileSink,
    batch: u64,
    parts: &[RecordBatch],
) -> Result<CommitOutcome> {
    let mut staged = Vec::new();
    for (partition, rows) in (0..).zip(parts) {
        let mut writer = sink.writer(BatchId(batch), PartitionId(partition)).await?;
        writer.write(rows.clone()).await?;
        staged.push(writer.stage().await?);
    }
    sink.commit(BatchId(batch), staged, &Note(format!("note {batch}").into())).await
}

pub(crate) async fn read(store: &Arc<dyn ObjectStore>, path: &Path) -> Vec<RecordBatch> {
    let bytes = store.get(path).await.unwrap().bytes().await.unwrap();
    let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap().build().unwrap();
    reader.map(|rows| rows.unwrap()).collect()
}

/// The first column of every published file, sorted.
pub(crate) async fn read_numbers(store: &Arc<dyn ObjectStore>) -> Result<Vec<i64>> {
    let mut values = Vec::new();
    for path in committed_files(store.clone(), Path::from(ROOT)).await? {
        for rows in read(store, &path).await {
            values.extend(rows.column(0).as_primitive::<Int64Type>().values());
        }
    }
    values.sort_unstable();
    Ok(values)
}
