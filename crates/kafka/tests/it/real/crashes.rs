//! A run that dies at every step of a batch, on a real broker.

use super::broker::Real;
use crate::rows::{publish, spec, values};
use arrow::array::RecordBatch;
use async_trait::async_trait;
use fluvial_core::{BatchId, Error, Result, Sink};
use fluvial_kafka::broker::{
    Broker, Isolation, Names, Offsets, Outgoing, Seek, Topic, TopicPartition, Transactions,
};
use fluvial_kafka::{Cluster, KafkaSink, RangeRows};
use futures::executor::block_on;
use futures::stream::BoxStream;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// A client whose process dies after so many half steps of transactions: an even number is a call
/// that is not made, an odd one a call whose answer nobody hears.
struct Mortal {
    cluster: Cluster,
    left: Arc<AtomicI64>,
}

fn dead() -> Error {
    // Not an error that anybody would retry: the process is gone.
    Error::corrupt("the process is dead")
}

fn step(left: &AtomicI64) -> Result<()> {
    if left.fetch_sub(1, Ordering::Relaxed) <= 0 { Err(dead()) } else { Ok(()) }
}

#[async_trait]
impl Broker for Mortal {
    async fn topics(&self, names: Names<'_>) -> Result<BTreeMap<String, Topic>> {
        self.cluster.topics(names).await
    }

    async fn offsets(&self, w: &[(TopicPartition, Seek)], i: Isolation) -> Result<Offsets> {
        self.cluster.offsets(w, i).await
    }

    fn fetch(&self, rows: RangeRows, i: Isolation) -> BoxStream<'static, Result<RecordBatch>> {
        self.cluster.fetch(rows, i)
    }

    async fn transactions(&self, id: &str) -> Result<Box<dyn Transactions>> {
        step(&self.left)?;
        let inner = self.cluster.transactions(id).await?;
        step(&self.left)?;
        Ok(Box::new(MortalTransactions { inner, left: Arc::clone(&self.left) }))
    }

    async fn send(&self, records: &[Outgoing]) -> Result<()> {
        self.cluster.send(records).await
    }

    async fn create_compacted(&self, topic: &str) -> Result<()> {
        self.cluster.create_compacted(topic).await
    }

    async fn pause(&self, duration: Duration) {
        self.cluster.pause(duration).await;
    }
}

struct MortalTransactions {
    inner: Box<dyn Transactions>,
    left: Arc<AtomicI64>,
}

#[async_trait]
impl Transactions for MortalTransactions {
    async fn begin(&mut self) -> Result<()> {
        step(&self.left)?;
        self.inner.begin().await?;
        step(&self.left)
    }

    async fn send(&mut self, records: &[Outgoing]) -> Result<()> {
        step(&self.left)?;
        self.inner.send(records).await?;
        step(&self.left)
    }

    async fn commit(&mut self) -> Result<()> {
        step(&self.left)?;
        self.inner.commit().await?;
        step(&self.left)
    }
}

/// A batch has five calls: become the producer, begin, rows, record, commit.
#[test]
fn a_crash_at_every_step_of_a_batch_leaves_it_once() {
    let Some(real) = Real::get() else { return };
    let topic = "crashes";
    real.create(topic, 1);
    let mut expected = Vec::new();
    for (batch, steps) in (0..).zip(0..=10) {
        let cluster = real.cluster();
        let mortal = Mortal { cluster, left: Arc::new(AtomicI64::new(steps)) };
        let dying = KafkaSink::new(Arc::new(mortal), real.sink_options(topic));
        let value = format!("batch {batch}");
        let attempt = async {
            dying.open(&spec(topic, &values(&[]))).await?;
            publish(&dying, batch, values(&[&value])).await
        };
        assert_eq!(block_on(attempt).is_err(), steps < 10, "{steps} steps");
        let (next, last) = real.sink(topic);
        let published = last == Some(BatchId(batch));
        assert_eq!(published, steps >= 9, "after {steps} steps: {last:?}");
        block_on(publish(&next, batch, values(&[&value]))).unwrap();
        expected.push(value);
        assert_eq!(real.committed(topic, 0), expected, "after {steps} steps");
    }
    if let Some(mut found) = real.kcat(topic) {
        found.sort_by_key(|value| value[6..].parse::<u64>().unwrap());
        assert_eq!(found, expected, "as kcat sees it");
    }
}
