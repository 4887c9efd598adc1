//! Tables of tests: where they are, how they are written and read.

use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use deltalake::{DeltaTable, DeltaTableBuilder};
use fluvial_core::{
    BatchId, CommitOutcome, Note, OutputMode, PartitionId, QueryId, Result, RunId, Sink, SinkId,
    SinkSpec,
};
use fluvial_delta::{DeltaOptions, DeltaSink, TableLocation};
use futures::future::LocalBoxFuture;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::sync::Arc;
use url::Url;

/// The place of every table that has an object store of its own.
pub(crate) const PLACE: &str = "memory:///warehouse/table";

pub(crate) fn location(store: &Arc<dyn ObjectStore>) -> TableLocation {
    TableLocation::parse(PLACE).unwrap().with_store(store.clone())
}

pub(crate) fn memory() -> Arc<dyn ObjectStore> {
    Arc::new(InMemory::new())
}

/// Runs `work` on a runtime with one thread.
pub(crate) fn drive<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let answer = runtime.block_on(work);
    // A simulated crash leaves the library's helpers waiting for I/O that never ends.
    runtime.shutdown_background();
    answer
}

pub(crate) fn drive_local(work: LocalBoxFuture<'_, ()>) {
    drive(work);
}

pub(crate) fn spec(query: &str, mode: OutputMode, schema: SchemaRef) -> SinkSpec {
    SinkSpec {
        query: QueryId::new(query).unwrap(),
        sink: SinkId::new("out").unwrap(),
        run: RunId::new("run").unwrap(),
        schema,
        mode,
    }
}

pub(crate) fn numbers(values: &[i64]) -> RecordBatch {
    let schema = Schema::new(vec![Field::new("value", DataType::Int64, true)]);
    let column = Int64Array::from(values.to_vec());
    RecordBatch::try_new(Arc::new(schema), vec![Arc::new(column)]).unwrap()
}

/// A sink that is open for rows like `rows`.
pub(crate) async fn opened(
    store: &Arc<dyn ObjectStore>,
    query: &str,
    mode: OutputMode,
    rows: &RecordBatch,
) -> (DeltaSink, Option<BatchId>) {
    let sink = DeltaSink::new(location(store), DeltaOptions::default());
    let last = sink.open(&spec(query, mode, rows.schema())).await.unwrap();
    (sink, last)
}

pub(crate) async fn publish(
    sink: &DeltaSink,
    batch: u64,
    rows: &RecordBatch,
) -> Result<CommitOutcome> {
    let mut writer = sink.writer(BatchId(batch), PartitionId(0)).await?;
    writer.write(rows.clone()).await?;
    let staged = vec![writer.stage().await?];
    sink.commit(BatchId(batch), staged, &Note(format!("note {batch}").into())).await
}

pub(crate) async fn load(store: &Arc<dyn ObjectStore>) -> DeltaTable {
    let url = Url::parse(PLACE).unwrap();
    let builder = DeltaTableBuilder::from_url(url.clone()).unwrap();
    builder.with_storage_backend(store.clone(), url).load().await.unwrap()
}

/// The rows of every file of the newest version.
pub(crate) async fn read(store: &Arc<dyn ObjectStore>) -> Vec<RecordBatch> {
    let table = load(store).await;
    let files = table.snapshot().unwrap().log_data().into_iter();
    let paths: Vec<_> = files.map(|file| file.object_store_path()).collect();
    let mut rows = Vec::new();
    for path in paths {
        let bytes = table.object_store().get(&path).await.unwrap().bytes().await.unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).unwrap().build().unwrap();
        rows.extend(reader.map(|batch| batch.unwrap()));
    }
    rows
}

/// The first column, sorted.
pub(crate) async fn read_numbers(store: &Arc<dyn ObjectStore>) -> Vec<i64> {
    let rows = read(store).await;
    let column = |b: &RecordBatch| b.column(0).as_primitive::<Int64Type>().values().to_vec();
    let mut values: Vec<_> = rows.iter().flat_map(column).collect();
    values.sort_unstable();
    values
}
