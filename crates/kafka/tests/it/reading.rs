//! The source on the model: what other engines got wrong (traps G1 to G10), and its options.

use crate::rows::{self, TOPIC, batch, client, model, plan, read, record, source};
use arrow::array::{Array, AsArray};
use fluvial_core::{Clock, Error, ErrorKind, Offset, Source};
use fluvial_kafka::broker::TopicPartition;
use fluvial_kafka::{KafkaSource, Position};
use fluvial_sim::{Disk, VirtualClock, block_on};
use object_store::path::Path;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;

const EARLIEST: (&str, &str) = ("startingOffsets", "earliest");
const SKIP: (&str, &str) = ("failOnDataLoss", "false");

fn at(next: &[i64], id: &str) -> Offset {
    let mut position = Position::default();
    for (partition, next) in (0..).zip(next) {
        position.offsets.insert(TopicPartition::new(TOPIC, partition), *next);
    }
    position.ids.insert(TOPIC.into(), id.into());
    position.to_offset().unwrap()
}

fn values(rows: &[(i32, i64, String)]) -> Vec<&str> {
    rows.iter().map(|(_, _, value)| value.as_str()).collect()
}

fn offsets(rows: &[(i32, i64, String)]) -> Vec<i64> {
    rows.iter().map(|(_, offset, _)| *offset).collect()
}

fn lost(error: &Error, condition: &str) {
    assert_eq!(
        (error.kind(), error.condition()),
        (ErrorKind::NotFound, Some(condition)),
        "{error}"
    );
}

/// Trap G1: 0..4 data, 5 a marker, 6 and 7 aborted, 8 the marker of that, 9 data, 10 a marker.
#[test]
fn gaps_are_no_loss_and_no_hang() {
    let model = model(1);
    model.with(|state| {
        for (count, committed) in [(5, true), (2, false), (1, true)] {
            let epoch = state.take_over("p");
            for n in 0..count {
                state.append(record(0, &n.to_string()), Some(("p", epoch))).unwrap();
            }
            state.end_open("p", committed);
        }
    });
    block_on(async {
        for (start, expected) in
            [(0, &[0, 1, 2, 3, 4, 9][..]), (5, &[9]), (6, &[9]), (9, &[9]), (10, &[])]
        {
            let source = source(client(&model), &[]);
            let (rows, end) = batch(&source, &at(&[start], "id-1")).await.unwrap();
            assert_eq!(offsets(&rows), expected, "from {start}");
            assert_eq!(end, at(&[11], "id-1"), "from {start}");
            assert_eq!(plan(&source, &end, None).await.unwrap(), None, "nothing is left");
            assert_eq!(source.metrics()["maxOffsetsBehindLatest"], "0");
        }
        let empty = source(client(&model), &[("maxOffsetsPerTrigger", "4")]);
        let (rows, end) = batch(&empty, &at(&[5], "id-1")).await.unwrap();
        assert_eq!((rows, end), (Vec::new(), at(&[9], "id-1")), "a batch may be all gaps");
    });
}

#[test]
fn compaction_is_no_loss() {
    let model = model(1);
    model.with(|state| {
        (0..8).for_each(|n| state.append(record(0, &n.to_string()), None).unwrap());
        state.compact(TOPIC, 0, &[0, 3, 4, 7]);
    });
    let source = source(client(&model), &[EARLIEST]);
    let (rows, end) = block_on(batch(&source, &at(&[0], "id-1"))).unwrap();
    assert_eq!((offsets(&rows), end), (vec![1, 2, 5, 6], at(&[8], "id-1")));
}

/// An open transaction ends what is stable; nothing behind it is read before it ends.
#[test]
fn open_transactions_are_waited_for() {
    let model = model(1);
    let epoch = model.with(|state| {
        state.append(record(0, "a"), None).unwrap();
        let epoch = state.take_over("p");
        state.append(record(0, "b"), Some(("p", epoch))).unwrap();
        state.append(record(0, "c"), None).unwrap();
        epoch
    });
    block_on(async {
        let committed = source(client(&model), &[]);
        let (rows, end) = batch(&committed, &at(&[0], "id-1")).await.unwrap();
        assert_eq!((values(&rows), &end), (vec!["a"], &at(&[1], "id-1")));
        let all = source(client(&model), &[("kafka.isolation.level", "read_uncommitted")]);
        let (rows, _) = batch(&all, &at(&[0], "id-1")).await.unwrap();
        assert_eq!(values(&rows), ["a", "b", "c"]);
        model.with(|state| state.commit("p", epoch)).unwrap();
        let (rows, _) = batch(&committed, &end).await.unwrap();
        assert_eq!(values(&rows), ["b", "c"]);
    });
}

/// Trap G2.
#[test]
fn retention_that_passed_the_offset_is_an_error_or_a_skip() {
    let model = model(1);
    model.with(|state| {
        (0..160).for_each(|n| state.append(record(0, &n.to_string()), None).unwrap());
        state.delete_before(TOPIC, 0, 150);
    });
    block_on(async {
        let start = at(&[100], "id-1");
        let error = plan(&source(client(&model), &[]), &start, None).await.unwrap_err();
        lost(&error, "KAFKA_DATA_LOSS.START_OFFSET_RESET");
        for part in ["t-0", "100", "150"] {
            assert!(error.message().contains(part), "{error}");
        }
        let skipping = source(client(&model), &[SKIP]);
        let (rows, end) = batch(&skipping, &start).await.unwrap();
        assert_eq!(offsets(&rows), Vec::from_iter(150..160));
        assert_eq!(skipping.metrics()["offsetsSkipped"], "50");
        assert_eq!(plan(&skipping, &end, None).await.unwrap(), None, "nothing comes again");
    });
}

/// Trap G2, between the plan and the read.
#[test]
fn retention_may_pass_a_planned_batch() {
    let model = model(1);
    model.with(|state| {
        (0..20).for_each(|n| state.append(record(0, &n.to_string()), None).unwrap());
    });
    block_on(async {
        let (failing, skipping) = (source(client(&model), &[]), source(client(&model), &[SKIP]));
        let range = plan(&failing, &at(&[2], "id-1"), None).await.unwrap().unwrap();
        model.with(|state| state.delete_before(TOPIC, 0, 15));
        let error = read(&failing, &range).await.unwrap_err();
        lost(&error, "KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE");
        assert_eq!(offsets(&read(&skipping, &range).await.unwrap()), Vec::from_iter(15..20));
        model.with(|state| state.delete_before(TOPIC, 0, 20));
        assert_eq!(read(&skipping, &range).await.unwrap(), []);
    });
}

/// Trap G3, with fewer records than before and with more.
#[test]
fn a_topic_made_again_is_noticed() {
    for records in [20, 150] {
        let model = model(1);
        model.with(|state| {
            state.remake(TOPIC, 1);
            (0..records).for_each(|n| state.append(record(0, &n.to_string()), None).unwrap());
        });
        block_on(async {
            let start = at(&[100], "id-1");
            let failing = source(client(&model), &[]);
            let error = plan(&failing, &start, None).await.unwrap_err();
            lost(&error, "KAFKA_DATA_LOSS.TOPIC_RECREATED");
            let skipping = source(client(&model), &[SKIP]);
            let (rows, end) = batch(&skipping, &start).await.unwrap();
            assert_eq!(offsets(&rows), Vec::from_iter(0..records));
            assert_eq!(end, at(&[records], "id-2"));
            assert_eq!(skipping.metrics()["maxOffsetsBehindLatest"], "0");
        });
    }
}

/// Trap G3, where the batch that is run again was planned on the old topic.
#[test]
fn a_batch_of_a_topic_made_again_is_not_filled_from_the_new_one() {
    let model = model(1);
    model.with(|state| {
        (0..9).for_each(|n| state.append(record(0, &n.to_string()), None).unwrap());
    });
    block_on(async {
        let before = source(client(&model), &[]);
        let range = plan(&before, &at(&[0], "id-1"), None).await.unwrap().unwrap();
        model.with(|state| {
            state.remake(TOPIC, 1);
            (0..30).for_each(|_| state.append(record(0, "new"), None).unwrap());
        });
        let error = source(client(&model), &[]).adopt(&range).await.unwrap_err();
        lost(&error, "KAFKA_DATA_LOSS.TOPIC_RECREATED");
        let after = source(client(&model), &[SKIP]);
        after.adopt(&range).await.unwrap();
        assert_eq!(read(&after, &range).await.unwrap(), []);
        let (rows, _) = batch(&after, &range.end).await.unwrap();
        assert_eq!(offsets(&rows), Vec::from_iter(0..30), "each new record once");
    });
}

#[test]
fn a_partition_that_is_gone_is_a_loss() {
    let model = model(2);
    model.with(|state| {
        state.append(record(0, "a"), None).unwrap();
        state.delete(TOPIC);
    });
    block_on(async {
        let start = at(&[0, 0], "id-1");
        let error = plan(&source(client(&model), &[]), &start, None).await.unwrap_err();
        lost(&error, "KAFKA_DATA_LOSS.PARTITIONS_DELETED");
        let skipping = source(client(&model), &[SKIP]);
        let (rows, end) = batch(&skipping, &start).await.unwrap();
        assert_eq!((rows, end.json()), (Vec::new(), &json!({})));
        model.with(|state| {
            state.create_if_absent(TOPIC, 1);
            state.append(record(0, "again"), None).unwrap();
        });
        let (rows, _) = batch(&skipping, &end).await.unwrap();
        assert_eq!(values(&rows), ["again"]);
    });
}

/// Trap G4.
#[test]
fn new_partitions_begin_at_their_beginning() {
    let model = model(1);
    block_on(async {
        let source = source(client(&model), &[("startingOffsets", "latest")]);
        model.with(|state| state.append(record(0, "old"), None)).unwrap();
        let start = source.initial().await.unwrap();
        model.with(|state| {
            state.add_partition(TOPIC);
            state.append(record(1, "r1"), None).unwrap();
        });
        let (rows, end) = batch(&source, &start).await.unwrap();
        assert_eq!((values(&rows), end), (vec!["r1"], at(&[1, 1], "id-1")));
    });
}

/// Trap G5.
#[test]
fn a_replay_has_its_stored_ranges() {
    let model = model(1);
    let feed = |partition: i32, count: i32| {
        model.with(|state| {
            (0..count).for_each(|_| state.append(record(partition, "x"), None).unwrap());
        });
    };
    feed(0, 5);
    block_on(async {
        let before = source(client(&model), &[EARLIEST]);
        let start = before.initial().await.unwrap();
        let range = plan(&before, &start, None).await.unwrap().unwrap();
        model.with(|state| state.add_partition(TOPIC));
        feed(1, 3);
        let after = source(client(&model), &[EARLIEST]);
        after.adopt(&range).await.unwrap();
        let again = read(&after, &range).await.unwrap();
        assert!(again.iter().all(|(partition, ..)| *partition == 0) && again.len() == 5);
        let frontier = after.frontier().await.unwrap();
        let next = plan(&after, &range.end, Some(&frontier)).await.unwrap().unwrap();
        assert_eq!(read(&after, &next).await.unwrap().len(), 3);
        assert_eq!(plan(&after, &next.end, Some(&frontier)).await.unwrap(), None);
    });
}

/// Trap G10.
#[test]
fn what_is_caught_up_is_nothing_behind() {
    let model = model(2);
    model.with(|state| (0..3).for_each(|_| state.append(record(0, "x"), None).unwrap()));
    block_on(async {
        let slow = source(client(&model), &[EARLIEST, ("maxOffsetsPerTrigger", "1")]);
        let start = slow.initial().await.unwrap();
        let (_, end) = batch(&slow, &start).await.unwrap();
        assert_eq!(slow.metrics()["offsetsBehindLatest.t-0"], "2");
        assert_eq!(slow.metrics()["avgOffsetsBehindLatest"], "1.0");
        let fast = source(client(&model), &[]);
        let (_, end) = batch(&fast, &end).await.unwrap();
        assert_eq!(end, at(&[3, 0], "id-1"));
        assert_eq!(fast.metrics()["offsetsBehindLatest.t-0"], "0");
    });
}

#[test]
fn a_limit_holds_over_all_partitions_and_loses_nothing() {
    let model = model(3);
    let mut expected = Vec::new();
    for (partition, count) in [(0, 40), (1, 3), (2, 11)] {
        for n in 0..count {
            model.with(|state| state.append(record(partition, &n.to_string()), None)).unwrap();
            expected.push((partition, n, n.to_string()));
        }
    }
    block_on(async {
        let limited = [EARLIEST, ("maxOffsetsPerTrigger", "7"), ("minPartitions", "5")];
        let source = source(client(&model), &limited);
        let mut at = source.initial().await.unwrap();
        let mut all = Vec::new();
        for _ in 0..8 {
            let (rows, end) = batch(&source, &at).await.unwrap();
            assert!(rows.len() <= 7);
            all.extend(rows);
            at = end;
        }
        all.sort();
        assert_eq!(all, expected);
    });
}

#[test]
fn where_a_query_begins_is_asked_for() {
    let model = model(2);
    model.with(|state| (0..5).for_each(|_| state.append(record(0, "x"), None).unwrap()));
    let begins = |pairs: &[(&str, &str)]| block_on(source(client(&model), pairs).initial());
    let condition = |pairs: &[(&str, &str)]| {
        begins(pairs).unwrap_err().condition().map(str::to_owned).unwrap_or_default()
    };
    assert_eq!(begins(&[]).unwrap(), at(&[5, 0], "id-1"));
    assert_eq!(begins(&[EARLIEST]).unwrap(), at(&[0, 0], "id-1"));
    let each = ("startingOffsets", r#"{"t":{"0":3,"1":-2}}"#);
    assert_eq!(begins(&[each]).unwrap(), at(&[3, 0], "id-1"));
    let some = ("startingOffsets", r#"{"t":{"0":3}}"#);
    assert_eq!(condition(&[some]), "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED");
    // The record at offset n has the time n seconds; partition 1 has none.
    let time = ("startingTimestamp", "2500");
    assert_eq!(condition(&[time]), "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED");
    let latest = ("startingOffsetsByTimestampStrategy", "latest");
    assert_eq!(begins(&[time, latest]).unwrap(), at(&[3, 0], "id-1"));
    assert_eq!(condition(&[("subscribe", "nothing")]), "KAFKA_TOPIC_NOT_FOUND");
    assert_eq!(condition(&[("assign", r#"{"t":[7]}"#)]), "KAFKA_TOPIC_NOT_FOUND");
    let one = begins(&[("assign", r#"{"t":[1]}"#), EARLIEST]).unwrap();
    assert_eq!(one.json(), &json!({"t": {"1": 0}, "@topicIds": {"t": "id-1"}}));
}

#[test]
fn a_query_stopped_before_its_first_batch_goes_on_from_where_it_began() {
    let (model, disk) = (model(1), Disk::new());
    let open = || {
        let options = rows::options(&[("startingOffsets", "latest")]);
        let broker = Arc::new(client(&model));
        KafkaSource::new(broker, options, Arc::new(VirtualClock::new()))
            .with_folder(disk.process().store(), Path::from("sources/0"))
    };
    block_on(async {
        let start = open().initial().await.unwrap();
        model.with(|state| state.append(record(0, "meanwhile"), None)).unwrap();
        let again = open();
        assert_eq!(again.initial().await.unwrap(), start);
        let (rows, _) = batch(&again, &start).await.unwrap();
        assert_eq!(values(&rows), ["meanwhile"]);
    });
}

#[test]
fn another_subscription_is_refused() {
    let model = model(1);
    model.with(|state| state.create_if_absent("u", 1));
    let other = source(client(&model), &[("subscribe", "u")]);
    let error = block_on(plan(&other, &at(&[0], "id-1"), None)).unwrap_err();
    assert_eq!(error.condition(), Some("KAFKA_SUBSCRIPTION_CHANGED"));
    assert_eq!(other.identity(), "KafkaV2[Subscribe[u]]");
}

#[test]
fn a_pattern_finds_topics_that_come_later_but_not_kafkas_own() {
    let model = model(1);
    block_on(async {
        let source = source(client(&model), &[("subscribePattern", ".*")]);
        let start = source.initial().await.unwrap();
        model.with(|state| {
            for topic in ["later", "__consumer_offsets"] {
                state.create_if_absent(topic, 1);
                let record =
                    fluvial_kafka::broker::Outgoing { topic: topic.into(), ..record(0, topic) };
                state.append(record, None).unwrap();
            }
        });
        assert_eq!(values(&batch(&source, &start).await.unwrap().0), ["later"]);
    });
}

#[test]
fn few_records_wait_for_more_but_not_for_ever() {
    let model = model(1);
    let clock = VirtualClock::new();
    let options =
        rows::options(&[EARLIEST, ("minOffsetsPerTrigger", "3"), ("maxTriggerDelay", "1m")]);
    let source = KafkaSource::new(Arc::new(client(&model)), options, Arc::new(clock.clone()));
    let feed = || model.with(|state| state.append(record(0, "x"), None)).unwrap();
    block_on(async {
        let start = source.initial().await.unwrap();
        feed();
        let (rows, at) = batch(&source, &start).await.unwrap();
        assert_eq!(rows.len(), 1, "the first batch does not wait");
        feed();
        assert_eq!(plan(&source, &at, None).await.unwrap(), None);
        let frontier = source.frontier().await.unwrap();
        assert!(plan(&source, &at, Some(&frontier)).await.unwrap().is_some(), "a run that ends");
        clock.advance(Duration::from_secs(60));
        let (rows, at) = batch(&source, &at).await.unwrap();
        assert_eq!(rows.len(), 1, "it has waited long enough");
        (0..3).for_each(|_| feed());
        assert_eq!(batch(&source, &at).await.unwrap().0.len(), 3, "there are enough");
        assert!(clock.monotonic() >= Duration::from_secs(60));
    });
}

#[test]
fn headers_come_in_order_if_they_are_asked_for() {
    let model = model(1);
    let pair = |value: Option<&'static str>| ("h".to_owned(), value.map(bytes::Bytes::from));
    let headers = vec![pair(Some("1")), pair(Some("2")), pair(None)];
    model.with(|state| {
        let with = fluvial_kafka::broker::Outgoing { headers, ..record(0, "a") };
        state.append(with, None).unwrap();
        state.append(record(0, "b"), None).unwrap();
    });
    block_on(async {
        let source = source(client(&model), &[EARLIEST, ("includeHeaders", "true")]);
        let start = source.initial().await.unwrap();
        let range = plan(&source, &start, None).await.unwrap().unwrap();
        let mut batches = source.read(&range, &range.splits[0], Some(&[7])).unwrap();
        let rows = futures::TryStreamExt::try_next(&mut batches).await.unwrap().unwrap();
        let lists = rows.column(0).as_list::<i32>();
        assert!(lists.is_null(1), "no headers are a null");
        let first = lists.value(0);
        let values = first.as_struct().column(1).as_binary::<i32>().clone();
        assert_eq!(
            (values.value(0), values.value(1), values.is_null(2)),
            (&b"1"[..], &b"2"[..], true)
        );
    });
}
