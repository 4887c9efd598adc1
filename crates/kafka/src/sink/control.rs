//! The record of batches: which batch of a query was published last, and with which note.
//!
//! It is a record of the same transaction as the batch, in a topic that keeps the newest record of
//! each key (`fluvial-batches`, partition 0). So it is there if and only if the batch is, it does
//! not expire, and it has room for any note. Offsets of a consumer group would do none of the
//! three: they are forgotten a week after the query stops, and hold 4096 bytes.
//!
//! ```text
//! key      <query id>/<sink id>
//! headers  fluvial.format 1, fluvial.batch 7, fluvial.run <run id>
//! value    the note
//! ```

use crate::broker::{Broker, Isolation, Outgoing, Seek, TopicPartition};
use crate::range_rows::RangeRows;
use crate::source::answered;
use arrow::array::{Array, AsArray, RecordBatch};
use bytes::Bytes;
use fluvial_core::{BatchId, Error, Note, Result, SinkSpec};
use futures::TryStreamExt;
use std::sync::Arc;
use std::time::Duration;

const FORMAT: &str = "1";
const HEADER_FORMAT: &str = "fluvial.format";
const HEADER_BATCH: &str = "fluvial.batch";
const HEADER_RUN: &str = "fluvial.run";

/// How many offsets are searched at first, from the end; then ten times as many.
const WINDOW: i64 = 1000;
/// How long the transactions of other queries are waited for, and how often.
const WAIT: Duration = Duration::from_millis(100);
const WAITS_MAX: u32 = 1200;

const KEY: usize = 0;
const VALUE: usize = 1;
const HEADERS: usize = 7;

/// The batch that was published last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) batch: BatchId,
    pub(crate) note: Note,
}

/// The key of a query's records.
pub(crate) fn key(spec: &SinkSpec) -> String {
    format!("{}/{}", spec.query, spec.sink)
}

/// The record of a batch.
pub(crate) fn record(topic: &Arc<str>, spec: &SinkSpec, batch: BatchId, note: &Note) -> Outgoing {
    let text = |text: String| Some(Bytes::from(text));
    Outgoing {
        topic: Arc::clone(topic),
        partition: Some(0),
        key: text(key(spec)),
        value: Some(note.0.clone()),
        headers: vec![
            (HEADER_FORMAT.into(), text(FORMAT.into())),
            (HEADER_BATCH.into(), text(batch.to_string())),
            (HEADER_RUN.into(), text(spec.run.to_string())),
        ],
    }
}

/// The newest record under `key`. Must be called when no transaction of this query is open: by
/// the one who has just become its producer.
///
/// # Errors
///
/// `Unavailable` if another query's transaction hides the end of the topic for too long.
pub(crate) async fn head(broker: &dyn Broker, topic: &Arc<str>, key: &str) -> Result<Option<Head>> {
    let place = TopicPartition::new(Arc::clone(topic), 0);
    let end = offset(broker, &place, Seek::Latest, Isolation::ReadUncommitted).await?;
    settled(broker, &place, end).await?;
    search(broker, &place, end, key).await
}

/// What can be seen of it without being the producer: true, but perhaps not the newest.
pub(crate) async fn peek(broker: &dyn Broker, topic: &Arc<str>, key: &str) -> Result<Option<Head>> {
    let place = TopicPartition::new(Arc::clone(topic), 0);
    let end = offset(broker, &place, Seek::Latest, Isolation::ReadCommitted).await?;
    search(broker, &place, end, key).await
}

/// Looks for the last record under `key` in front of `end`, from there backwards.
async fn search(
    broker: &dyn Broker,
    place: &TopicPartition,
    end: i64,
    key: &str,
) -> Result<Option<Head>> {
    let first = offset(broker, place, Seek::Earliest, Isolation::ReadCommitted).await?;
    let (mut until, mut window) = (end, WINDOW);
    while until > first {
        let from = until.saturating_sub(window).max(first);
        if let Some(head) = newest(broker, place, from..until, key).await? {
            return Ok(Some(head));
        }
        until = from;
        window = window.saturating_mul(10);
    }
    Ok(None)
}

async fn offset(
    broker: &dyn Broker,
    place: &TopicPartition,
    seek: Seek,
    isolation: Isolation,
) -> Result<i64> {
    answered(&broker.offsets(&[(place.clone(), seek)], isolation).await?, place)
}

/// Waits until nobody's open transaction hides records in front of `end`.
async fn settled(broker: &dyn Broker, place: &TopicPartition, end: i64) -> Result<()> {
    for _ in 0..WAITS_MAX {
        if offset(broker, place, Seek::Latest, Isolation::ReadCommitted).await? >= end {
            return Ok(());
        }
        broker.pause(WAIT).await;
    }
    Err(Error::unavailable(format!(
        "{place}: a transaction of another query stays open, so that it is not known what this \
         one has published: wait for its end (transaction.timeout.ms), or give each query a \
         controlTopic of its own"
    )))
}

/// The last record under `key` in a range.
async fn newest(
    broker: &dyn Broker,
    place: &TopicPartition,
    range: std::ops::Range<i64>,
    key: &str,
) -> Result<Option<Head>> {
    let rows = RangeRows::new(place.clone(), range.start, range.end);
    let mut batches = broker.fetch(rows, Isolation::ReadCommitted);
    let mut found = None;
    while let Some(batch) = batches.try_next().await? {
        let keys = batch.column(KEY).as_binary::<i32>();
        let last = (0..batch.num_rows())
            .rev()
            .find(|row| keys.is_valid(*row) && keys.value(*row) == key.as_bytes());
        if let Some(row) = last {
            found = Some(parse(&batch, row, place, key)?);
        }
    }
    Ok(found)
}

fn parse(batch: &RecordBatch, row: usize, place: &TopicPartition, key: &str) -> Result<Head> {
    let bad = |what: &str| {
        Error::corrupt(format!(
            "{place}: the record {key} {what}; use another controlTopic if this one is not \
             Fluvial's"
        ))
        .with_condition("KAFKA_CONTROL_RECORD_CORRUPT")
    };
    let header = |wanted: &str| {
        let headers = batch.column(HEADERS).as_list::<i32>();
        let ends = headers.value_offsets();
        let pairs = headers.values().as_struct();
        let (names, values) = (pairs.column(0).as_string::<i32>(), pairs.column(1));
        let range = ends[row] as usize..ends[row + 1] as usize;
        let index = range.into_iter().find(|index| names.value(*index) == wanted)?;
        std::str::from_utf8(values.as_binary::<i32>().value(index)).ok()
    };
    match header(HEADER_FORMAT) {
        Some(FORMAT) => {}
        Some(newer) => {
            return Err(Error::invalid(format!(
                "{place}: the record {key} has format {newer}: use the version of Fluvial that \
                 wrote it, or a later one"
            ))
            .with_condition("CHECKPOINT_FORMAT_TOO_NEW"));
        }
        None => return Err(bad("is not one of a batch")),
    }
    let batch_id = header(HEADER_BATCH).and_then(|text| text.parse().ok());
    let notes = batch.column(VALUE).as_binary::<i32>();
    match batch_id {
        Some(id) if notes.is_valid(row) => {
            Ok(Head { batch: BatchId(id), note: Note(Bytes::copy_from_slice(notes.value(row))) })
        }
        _ => Err(bad("names no batch")),
    }
}
