//! Sources, sinks and rows for tests.

use crate::model::{Client, Model};
use arrow::array::{Array, ArrayRef, AsArray, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use bytes::Bytes;
use fluvial_core::{
    BatchId, CommitOutcome, Note, Options, OutputMode, PartitionId, PlanRequest, QueryId, Result,
    RunId, Sink, SinkId, SinkSpec, Source, SourceRange,
};
use fluvial_kafka::broker::{Broker, Outgoing};
use fluvial_kafka::{KafkaSink, KafkaSource, SinkOptions, SourceOptions, SourceOptionsKind};
use fluvial_sim::{Disk, VirtualClock};
use futures::TryStreamExt;
use std::sync::Arc;

pub(crate) const TOPIC: &str = "t";

/// A model with the topic `t`.
pub(crate) fn model(partitions: i32) -> Model {
    let model = Model::default();
    model.with(|state| state.create_if_absent(TOPIC, partitions));
    model
}

pub(crate) fn client(model: &Model) -> Client {
    model.client(Disk::new().process().store())
}

pub(crate) fn options(pairs: &[(&str, &str)]) -> SourceOptions {
    let mut options = Options::new(pairs.iter().copied());
    options.set("kafka.bootstrap.servers", "model:9092");
    if ["assign", "subscribe", "subscribePattern"].iter().all(|name| options.peek(name).is_none()) {
        options.set("subscribe", TOPIC);
    }
    SourceOptions::parse(options, SourceOptionsKind::Stream).unwrap()
}

pub(crate) fn source(broker: impl Broker + 'static, pairs: &[(&str, &str)]) -> KafkaSource {
    KafkaSource::new(Arc::new(broker), options(pairs), Arc::new(VirtualClock::new()))
}

/// Plans a batch; an error of any step is the answer.
pub(crate) async fn plan(
    source: &KafkaSource,
    start: &fluvial_core::Offset,
    until: Option<&fluvial_core::Frontier>,
) -> Result<Option<SourceRange>> {
    let run = RunId::new("run").unwrap();
    let limit = source.read_limit();
    let request = PlanRequest { batch: BatchId(0), run: &run, start, limit, until, splits: 2 };
    source.plan(request).await
}

/// Reads a range: partition, offset and value of each row.
pub(crate) async fn read(
    source: &KafkaSource,
    range: &SourceRange,
) -> Result<Vec<(i32, i64, String)>> {
    let mut rows = Vec::new();
    for split in &range.splits {
        let mut batches = source.read(range, split, None)?;
        while let Some(batch) = batches.try_next().await? {
            let partitions = batch.column(3).as_any().downcast_ref::<Int32Array>().unwrap().clone();
            let offsets = batch.column(4).as_primitive::<Int64Type>().clone();
            let values = batch.column(1).as_binary::<i32>().clone();
            for row in 0..batch.num_rows() {
                let value = match values.is_null(row) {
                    true => "null".to_owned(),
                    false => String::from_utf8_lossy(values.value(row)).into_owned(),
                };
                rows.push((partitions.value(row), offsets.value(row), value));
            }
        }
    }
    Ok(rows)
}

/// Plans, adopts and reads a batch; where it ends.
pub(crate) async fn batch(
    source: &KafkaSource,
    start: &fluvial_core::Offset,
) -> Result<(Vec<(i32, i64, String)>, fluvial_core::Offset)> {
    let Some(range) = plan(source, start, None).await? else {
        return Ok((Vec::new(), start.clone()));
    };
    source.adopt(&range).await?;
    Ok((read(source, &range).await?, range.end))
}

/// A record of topic `t`.
pub(crate) fn record(partition: i32, value: &str) -> Outgoing {
    let value = Some(Bytes::copy_from_slice(value.as_bytes()));
    Outgoing {
        topic: TOPIC.into(),
        partition: Some(partition),
        key: None,
        value,
        headers: Vec::new(),
    }
}

pub(crate) fn sink_options(pairs: &[(&str, &str)]) -> SinkOptions {
    let mut options = Options::new(pairs.iter().copied());
    options.set("kafka.bootstrap.servers", "model:9092");
    SinkOptions::parse(options).unwrap()
}

pub(crate) fn spec(query: &str, rows: &RecordBatch) -> SinkSpec {
    SinkSpec {
        query: QueryId::new(query).unwrap(),
        sink: SinkId::new("out").unwrap(),
        run: RunId::new("run").unwrap(),
        schema: rows.schema(),
        mode: OutputMode::Append,
    }
}

pub(crate) fn values(values: &[&str]) -> RecordBatch {
    let column: ArrayRef = Arc::new(StringArray::from(values.to_vec()));
    RecordBatch::try_from_iter([("value", column)]).unwrap()
}

pub(crate) fn note(batch: u64) -> Note {
    Note(format!("note {batch}").into())
}

/// Stages one partition and commits.
pub(crate) async fn publish(
    sink: &KafkaSink,
    batch: u64,
    rows: RecordBatch,
) -> Result<CommitOutcome> {
    let mut writer = sink.writer(BatchId(batch), PartitionId(0)).await?;
    writer.write(rows).await?;
    let staged = writer.stage().await?;
    sink.commit(BatchId(batch), vec![staged], &note(batch)).await
}
