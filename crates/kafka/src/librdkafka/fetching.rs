//! Reading a range: a thread polls, the stream hands on.

use super::readers::Reader;
use super::{Cluster, threads};
use crate::broker::{Headers, Incoming, Isolation, TopicPartition};
use crate::range_rows::RangeRows;
use arrow::array::RecordBatch;
use fluvial_core::{ErrorKind, Result};
use futures::channel::mpsc;
use futures::executor::block_on;
use futures::stream::{self, BoxStream, StreamExt};
use futures::{SinkExt, future};
use rdkafka::consumer::Consumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedHeaders, BorrowedMessage, Headers as _, Timestamp};
use rdkafka::{Message, Offset, TopicPartitionList};
use std::time::{Duration, Instant};

/// So many batches wait for whoever processes them.
const AHEAD: usize = 2;
/// How long one poll waits.
const POLL: Duration = Duration::from_millis(100);

/// The rows of a range. Dropping the stream ends the thread at its next batch.
pub(super) fn fetch(
    cluster: Cluster,
    rows: RangeRows,
    isolation: Isolation,
) -> BoxStream<'static, Result<RecordBatch>> {
    if rows.is_done() {
        return stream::empty().boxed();
    }
    let (mut to, from) = mpsc::channel(AHEAD);
    let started = threads::start("fluvial-kafka-fetch", move || {
        if let Err(error) = run(&cluster, rows, isolation, &mut to) {
            // Nobody may be listening any more.
            let _ = block_on(to.send(Err(error)));
        }
    });
    match started {
        Ok(()) => from.boxed(),
        Err(error) => stream::once(future::ready(Err(error))).boxed(),
    }
}

type Sender = mpsc::Sender<Result<RecordBatch>>;

fn run(
    cluster: &Cluster,
    mut rows: RangeRows,
    isolation: Isolation,
    to: &mut Sender,
) -> Result<()> {
    let readers = &cluster.0.readers;
    let place = rows.place().clone();
    let mut reader = readers.take(isolation, Some((&place, rows.next_offset())))?;
    reader.go_to(cluster, &place, rows.next_offset())?;
    let waits_max = cluster.0.options.poll_timeout();
    let mut heard = Instant::now();
    while !rows.is_done() {
        match reader.consumer.poll(POLL) {
            Some(Ok(message)) => {
                heard = Instant::now();
                if is_of(&message, &place) {
                    reader.at = Some((place.clone(), message.offset() + 1));
                    push(&message, &mut rows);
                }
            }
            // What was to come came: the rest of the range are gaps.
            Some(Err(KafkaError::PartitionEOF(partition))) if partition == place.partition => {
                let until = rows.until();
                rows.reached(until);
            }
            Some(Err(KafkaError::PartitionEOF(_))) => {}
            Some(Err(error)) => {
                let failure = cluster.failure().by(&reader.watcher);
                let error = failure.of(&error, &format!("read {place} at {}", rows.next_offset()));
                if error.kind() != ErrorKind::Unavailable {
                    return Err(error);
                }
            }
            None => {}
        }
        if heard.elapsed() > waits_max {
            let timed_out = KafkaError::Global(RDKafkaErrorCode::OperationTimedOut);
            let what = format!("read {place} at {}", rows.next_offset());
            return Err(cluster.failure().by(&reader.watcher).of(&timed_out, &what));
        }
        if (rows.is_full() || rows.is_done())
            && let Some(batch) = rows.take()?
            && block_on(to.send(Ok(batch))).is_err()
        {
            break;
        }
    }
    readers.give_back(isolation, reader);
    Ok(())
}

impl Reader {
    /// Fetches a partition from an offset on.
    fn go_to(&mut self, cluster: &Cluster, place: &TopicPartition, offset: i64) -> Result<()> {
        if self.at.as_ref().is_some_and(|(its, next)| its == place && *next == offset) {
            return Ok(());
        }
        let failure = || cluster.failure().by(&self.watcher);
        let what = format!("read {place} at {offset}");
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&place.topic, place.partition, Offset::Offset(offset))
            .and_then(|()| self.consumer.assign(&list))
            .map_err(|e| failure().of(&e, &what))?;
        self.at = Some((place.clone(), offset));
        Ok(())
    }
}

fn is_of(message: &BorrowedMessage<'_>, place: &TopicPartition) -> bool {
    message.partition() == place.partition && message.topic() == place.topic.as_ref()
}

fn push(message: &BorrowedMessage<'_>, rows: &mut RangeRows) {
    let (timestamp_ms, timestamp_type) = match message.timestamp() {
        Timestamp::NotAvailable => (-1, -1),
        Timestamp::CreateTime(ms) => (ms, 0),
        Timestamp::LogAppendTime(ms) => (ms, 1),
    };
    let headers = if rows.wants_headers() { message.headers().map(Borrowed) } else { None };
    rows.push(&Incoming {
        offset: message.offset(),
        key: message.key(),
        value: message.payload(),
        timestamp_ms,
        timestamp_type,
        headers: headers.as_ref().map(|headers| headers as &dyn Headers),
    });
}

struct Borrowed<'a>(&'a BorrowedHeaders);

impl std::fmt::Debug for Borrowed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} headers", self.0.count())
    }
}

impl Headers for Borrowed<'_> {
    fn visit(&self, each: &mut dyn FnMut(&str, Option<&[u8]>)) {
        for header in self.0.iter() {
            each(header.key, header.value);
        }
    }
}
