//! The laws of sources and sinks, on the model.
//!
//! Law 4 of sources speaks of one order of all rows: a topic of one partition has one. The sink
//! writes text, so numbers are cast on their way.

use crate::model::{Client, Model};
use crate::rows::{self, TOPIC};
use arrow::array::RecordBatch;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use fluvial_conformance::sink::{Destination, Owners};
use fluvial_conformance::source::SourceWorld;
use fluvial_core::{
    BatchId, CommitOutcome, Note, OutputMode, PartitionId, Result, Sink, SinkSpec, SinkWriter,
    Source, Staged,
};
use fluvial_kafka::{KafkaSink, KafkaSource};
use fluvial_sim::{Disk, VirtualClock};
use futures::future::BoxFuture;
use object_store::ObjectStore;
use object_store::path::Path;
use std::sync::Arc;

fluvial_conformance::source!(one_partition, |_: &Disk| Box::new(OneTopic::new()));
fluvial_conformance::sink!(durable: transactions, Place::new);

/// A topic whose log has gaps: markers of transactions, aborted records.
struct OneTopic(Model);

impl OneTopic {
    fn new() -> Self {
        Self(rows::model(1))
    }
}

#[async_trait]
impl SourceWorld for OneTopic {
    async fn open(&self, store: Arc<dyn ObjectStore>) -> Arc<dyn Source> {
        let broker = Arc::new(self.0.client(Arc::clone(&store)));
        let options = rows::options(&[("includeHeaders", "true"), ("minPartitions", "2")]);
        let source = KafkaSource::new(broker, options, Arc::new(VirtualClock::new()));
        Arc::new(source.with_folder(store, Path::from("sources/0")))
    }

    fn feed(&self) {
        self.0.with(|state| {
            for (values, committed) in [(&["a", "b"][..], true), (&["gone"], false)] {
                let epoch = state.take_over("feeder");
                for value in values {
                    state.append(rows::record(0, value), Some(("feeder", epoch))).unwrap();
                }
                state.end_open("feeder", committed);
            }
            state.append(rows::record(0, "c"), None).unwrap();
        });
    }

    fn unit_rows(&self) -> u64 {
        1
    }
}

/// Two partitions to write to.
struct Place(Model);

impl Place {
    fn new() -> Self {
        Self(rows::model(2))
    }
}

impl Destination for Place {
    fn sink(&self, store: Arc<dyn ObjectStore>) -> Box<dyn Sink> {
        let options = rows::sink_options(&[("topic", TOPIC)]);
        Box::new(Numbers(KafkaSink::new(Arc::new(self.0.client(store)), options)))
    }

    fn visible(&self, store: Arc<dyn ObjectStore>) -> BoxFuture<'_, Result<Vec<i64>>> {
        let client: Client = self.0.client(store);
        Box::pin(async move {
            client.settle().await?;
            let records = self.0.with(|state| [0, 1].map(|p| state.committed(TOPIC, p)).concat());
            let number =
                |value: bytes::Bytes| std::str::from_utf8(&value).unwrap().parse().unwrap();
            Ok(records.into_iter().filter_map(|record| record.value).map(number).collect())
        })
    }

    fn owners(&self) -> Owners {
        Owners::Many
    }
}

/// The sink, given numbers. Complete mode appends, as Spark's does, so it is not offered here.
struct Numbers(KafkaSink);

fn text() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("value", DataType::Utf8, true)]))
}

#[async_trait]
impl Sink for Numbers {
    fn description(&self) -> String {
        self.0.description()
    }

    fn modes(&self) -> &[OutputMode] {
        &[OutputMode::Append, OutputMode::Update]
    }

    async fn open(&self, spec: &SinkSpec) -> Result<Option<BatchId>> {
        self.0.open(&SinkSpec { schema: text(), ..spec.clone() }).await
    }

    async fn writer(&self, batch: BatchId, partition: PartitionId) -> Result<Box<dyn SinkWriter>> {
        Ok(Box::new(NumberWriter(self.0.writer(batch, partition).await?)))
    }

    async fn commit(
        &self,
        batch: BatchId,
        staged: Vec<Staged>,
        note: &Note,
    ) -> Result<CommitOutcome> {
        self.0.commit(batch, staged, note).await
    }
}

struct NumberWriter(Box<dyn SinkWriter>);

#[async_trait]
impl SinkWriter for NumberWriter {
    async fn write(&mut self, rows: RecordBatch) -> Result<()> {
        let column = cast(rows.column(0), &DataType::Utf8)?;
        self.0.write(RecordBatch::try_new(text(), vec![column])?).await
    }

    async fn stage(self: Box<Self>) -> Result<Staged> {
        self.0.stage().await
    }
}
