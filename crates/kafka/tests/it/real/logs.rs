//! The source on a real broker.

use super::broker::{Real, WAIT, send};
use crate::rows::{batch, plan, read, source};
use fluvial_core::{Offset, Result, Source};
use fluvial_kafka::KafkaSource;
use futures::executor::block_on;
use rdkafka::admin::{AdminOptions, NewPartitions};
use rdkafka::producer::Producer;
use rdkafka::{Offset as At, TopicPartitionList};

fn open(real: &Real, topic: &str, more: &[(&str, &str)]) -> KafkaSource {
    let mut pairs = vec![("subscribe", topic), ("startingOffsets", "earliest")];
    pairs.extend(more);
    source(real.cluster(), &pairs)
}

type Rows = (Vec<String>, Offset);

fn next(source: &KafkaSource, start: &Offset) -> Result<Rows> {
    let (rows, end) = block_on(batch(source, start))?;
    Ok((rows.into_iter().map(|(_, _, value)| value).collect(), end))
}

/// Trap G1 on a real log: committed, aborted, committed, and a marker at the end.
#[test]
fn transactions_leave_gaps_and_no_rows() {
    let Some(real) = Real::get() else { return };
    let topic = "gaps";
    real.create(topic, 1);
    let producer = real.producer(Some("gaps-producer"));
    for (values, committed) in [(&["a", "b"][..], true), (&["x", "y"], false), (&["c"], true)] {
        producer.begin_transaction().unwrap();
        send(&producer, topic, 0, values);
        match committed {
            true => producer.commit_transaction(WAIT).unwrap(),
            false => producer.abort_transaction(WAIT).unwrap(),
        }
    }
    let whole = open(&real, topic, &[]);
    let start = block_on(whole.initial()).unwrap();
    let (rows, end) = next(&whole, &start).unwrap();
    assert_eq!(rows, ["a", "b", "c"]);
    assert_eq!(end.json()[topic]["0"], 8, "with the last marker");
    assert_eq!(next(&whole, &end).unwrap(), (vec![], end));
    assert_eq!(whole.metrics()["maxOffsetsBehindLatest"], "0");
    let slow = open(&real, topic, &[("maxOffsetsPerTrigger", "1")]);
    let (mut at, mut all) = (start, Vec::new());
    for _ in 0..8 {
        let (rows, end) = next(&slow, &at).unwrap();
        (all, at) = ([all, rows].concat(), end);
    }
    assert_eq!(all, ["a", "b", "c"]);
    let every = open(&real, topic, &[("kafka.isolation.level", "read_uncommitted")]);
    let start = block_on(every.initial()).unwrap();
    assert_eq!(next(&every, &start).unwrap().0, ["a", "b", "x", "y", "c"]);
}

/// Trap G2 on a real log.
#[test]
fn retention_is_an_error_or_a_skip() {
    let Some(real) = Real::get() else { return };
    let topic = "retention";
    real.create(topic, 1);
    send(&real.producer(None), topic, 0, &["0", "1", "2", "3", "4", "5", "6", "7"]);
    let failing = open(&real, topic, &[]);
    let start = block_on(failing.initial()).unwrap();
    let planned = block_on(plan(&failing, &start, None)).unwrap().unwrap();
    let mut before = TopicPartitionList::new();
    before.add_partition_offset(topic, 0, At::Offset(5)).unwrap();
    block_on(real.admin().delete_records(&before, &AdminOptions::new())).unwrap();
    let error = next(&failing, &start).unwrap_err();
    assert_eq!(error.condition(), Some("KAFKA_DATA_LOSS.START_OFFSET_RESET"), "{error}");
    let error = block_on(read(&failing, &planned)).unwrap_err();
    assert_eq!(error.condition(), Some("KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE"), "{error}");
    let skipping = open(&real, topic, &[("failOnDataLoss", "false")]);
    assert_eq!(block_on(read(&skipping, &planned)).unwrap().len(), 3);
    assert_eq!(next(&skipping, &start).unwrap().0, ["5", "6", "7"]);
    assert_eq!(skipping.metrics()["offsetsSkipped"], "5");
}

/// Trap G4 on a real topic.
#[test]
fn partitions_may_be_added() {
    let Some(real) = Real::get() else { return };
    let topic = "grows";
    real.create(topic, 1);
    let source = open(&real, topic, &[("startingOffsets", "latest")]);
    let start = block_on(source.initial()).unwrap();
    let more = NewPartitions::new(topic, 2);
    block_on(real.admin().create_partitions([&more], &AdminOptions::new())).unwrap();
    real.until(topic, |found| found == Some(2));
    send(&real.producer(None), topic, 1, &["r1"]);
    assert_eq!(next(&source, &start).unwrap().0, ["r1"]);
}

/// Trap G3 on a real topic, which is longer than before when it is looked at again.
#[test]
fn a_topic_made_again_has_another_id() {
    let Some(real) = Real::get() else { return };
    let topic = "again";
    real.create(topic, 1);
    send(&real.producer(None), topic, 0, &["old"]);
    let running = open(&real, topic, &[]);
    let start = block_on(running.initial()).unwrap();
    let (_, end) = next(&running, &start).unwrap();
    assert!(end.json()["@topicIds"][topic].is_string(), "{end}");
    real.delete(topic);
    real.create(topic, 1);
    send(&real.producer(None), topic, 0, &["new", "newer"]);
    for source in [running, open(&real, topic, &[])] {
        let error = next(&source, &end).unwrap_err();
        assert_eq!(error.condition(), Some("KAFKA_DATA_LOSS.TOPIC_RECREATED"), "{error}");
    }
    let skipping = open(&real, topic, &[("failOnDataLoss", "false")]);
    assert_eq!(next(&skipping, &end).unwrap().0, ["new", "newer"]);
}

#[test]
fn a_time_is_looked_up() {
    let Some(real) = Real::get() else { return };
    let topic = "times";
    real.create(topic, 2);
    let producer = real.producer(None);
    for (n, value) in (0..).zip(["0", "1", "2", "3"]) {
        let record: rdkafka::producer::BaseRecord<'_, str, str> =
            rdkafka::producer::BaseRecord::to(topic).partition(0).payload(value);
        let record = record.timestamp(1_700_000_000_000 + n * 1000);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(WAIT).unwrap();
    let time = ("startingTimestamp", "1700000001500");
    let strict = open(&real, topic, &[time]);
    let error = block_on(strict.initial()).unwrap_err();
    assert_eq!(error.condition(), Some("KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED"));
    let latest = ("startingOffsetsByTimestampStrategy", "latest");
    let source = open(&real, topic, &[time, latest]);
    let start = block_on(source.initial()).unwrap();
    assert_eq!(start.json()[topic], serde_json::json!({"0": 2, "1": 0}));
    assert_eq!(next(&source, &start).unwrap().0, ["2", "3"]);
}
