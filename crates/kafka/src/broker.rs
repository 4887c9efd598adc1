//! What this crate asks of Kafka: topics, offsets, records, transactions.
//!
//! Offsets are exclusive ends throughout: the next record's.

use crate::range_rows::RangeRows;
use arrow::array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use fluvial_core::Result;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// A partition of a topic.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: Arc<str>,
    /// Counting from 0.
    pub partition: i32,
}

impl TopicPartition {
    /// A partition of `topic`.
    pub fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    /// As in Spark's messages: `clicks-3`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// A topic as the brokers know it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    /// Changes when a topic is deleted and made again under the same name. `None` where the
    /// brokers are too old to have it.
    pub id: Option<String>,
    /// The numbers of its partitions, sorted.
    pub partitions: Vec<i32>,
}

/// Which topics to look for.
#[derive(Debug, Clone, Copy)]
pub enum Names<'a> {
    /// All that there are.
    All,
    /// These; those that do not exist are left out of the answer.
    Of(&'a [&'a str]),
}

/// A place in a partition that the broker has to look up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seek {
    /// The oldest record that is still there.
    Earliest,
    /// The end: behind the last record, or, for those who read what is committed, behind the last
    /// one that no open transaction can precede.
    Latest,
    /// The first record with this timestamp or a later one, in milliseconds since the epoch.
    Time(i64),
}

/// Which records of transactions are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// Those of transactions that were committed.
    ReadCommitted,
    /// All, also of transactions that are open or were aborted.
    ReadUncommitted,
}

/// What a lookup gave, by partition.
pub type Offsets = BTreeMap<TopicPartition, Option<i64>>;

/// Brokers of one cluster, as a client sees them.
#[async_trait]
pub trait Broker: Send + Sync {
    /// The topics that exist now, by name.
    async fn topics(&self, names: Names<'_>) -> Result<BTreeMap<String, Topic>>;

    /// Looks up one offset in each of these partitions. `None` is the answer to a time after
    /// which there is no record.
    async fn offsets(
        &self,
        wanted: &[(TopicPartition, Seek)],
        isolation: Isolation,
    ) -> Result<Offsets>;

    /// Reads the range that `rows` wants. Records outside of it may be pushed too: `rows` drops
    /// them. The stream ends when `rows.is_done()`.
    ///
    /// # Errors
    ///
    /// The stream gives `NotFound` (`KAFKA_OFFSET_OUT_OF_RANGE`) if the next offset is not in the
    /// log any more.
    fn fetch(
        &self,
        rows: RangeRows,
        isolation: Isolation,
    ) -> BoxStream<'static, Result<RecordBatch>>;

    /// Becomes the one producer of transactions under `id`: what an earlier one left open is
    /// aborted or, if its commit had begun, completed before this returns; what it does from now
    /// on is `Fenced`.
    async fn transactions(&self, id: &str) -> Result<Box<dyn Transactions>>;

    /// Sends records without a transaction, and returns when all are acknowledged.
    async fn send(&self, records: &[Outgoing]) -> Result<()>;

    /// Creates a topic of one partition that keeps the newest record of each key, unless a topic
    /// of this name exists.
    async fn create_compacted(&self, topic: &str) -> Result<()>;

    /// Waits.
    async fn pause(&self, duration: Duration);
}

/// The producer of transactions under one id. Dropping it leaves an open transaction to whoever
/// comes next.
///
/// After any error it is of no use: whoever wants to go on takes a new one.
#[async_trait]
pub trait Transactions: Send + Sync {
    /// Begins a transaction.
    async fn begin(&mut self) -> Result<()>;

    /// Sends records within it.
    async fn send(&mut self, records: &[Outgoing]) -> Result<()>;

    /// Commits it: all of its records become visible, or none.
    ///
    /// # Errors
    ///
    /// After `Unavailable` it may have been committed all the same.
    async fn commit(&mut self) -> Result<()>;
}

/// A record to be written. Cloning copies no payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// Where to.
    pub topic: Arc<str>,
    /// The partition; chosen by the key's hash, as Kafka's own clients do, if there is none.
    pub partition: Option<i32>,
    /// The key.
    pub key: Option<Bytes>,
    /// The value; none deletes the key from a compacted topic.
    pub value: Option<Bytes>,
    /// Names and values, in order; a name may come twice.
    pub headers: Vec<(String, Option<Bytes>)>,
}

/// A record as it is read, borrowed from the client's buffer.
#[derive(Debug, Clone, Copy)]
pub struct Incoming<'a> {
    /// Its place.
    pub offset: i64,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// The value.
    pub value: Option<&'a [u8]>,
    /// Milliseconds since the epoch.
    pub timestamp_ms: i64,
    /// -1 none, 0 the producer's, 1 the broker's.
    pub timestamp_type: i32,
    /// The headers, if any.
    pub headers: Option<&'a dyn Headers>,
}

/// The headers of a record that is read.
pub trait Headers: fmt::Debug {
    /// Calls `each` with every header, in order.
    fn visit(&self, each: &mut dyn FnMut(&str, Option<&[u8]>));
}
