//! The sink on a real broker, judged by readers that are not ours.

use super::broker::Real;
use crate::rows::{self, note, publish, spec, values};
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, ListBuilder, RecordBatch, StringArray,
    StringBuilder, StructBuilder,
};
use arrow::datatypes::{DataType, Field};
use fluvial_core::{BatchId, CommitOutcome, ErrorKind, Sink, Source};
use fluvial_kafka::KafkaSink;
use fluvial_kafka::broker::{Broker, Outgoing, Transactions};
use futures::TryStreamExt;
use futures::executor::block_on;
use std::sync::Arc;

/// Traps D1 and D2, and the note.
#[test]
fn a_batch_is_there_once_for_kcat() {
    let Some(real) = Real::get() else { return };
    let topic = "once";
    real.create(topic, 2);
    let (sink, last) = real.sink(topic);
    assert_eq!(last, None);
    for batch in 0..3 {
        let rows = [format!("{batch}a"), format!("{batch}b")];
        let rows = values(&[&rows[0], &rows[1]]);
        let outcome = block_on(publish(&sink, batch, rows)).unwrap();
        assert_eq!(outcome, CommitOutcome::Committed);
    }
    let (again, last) = real.sink(topic);
    assert_eq!(last, Some(BatchId(2)));
    for (batch, told) in [(2, Some(note(2))), (1, None)] {
        let outcome = block_on(publish(&again, batch, values(&["twice"]))).unwrap();
        assert_eq!(outcome, CommitOutcome::AlreadyCommitted(told));
    }
    let expected = ["0a", "0b", "1a", "1b", "2a", "2b"];
    let mut found = [real.committed(topic, 0), real.committed(topic, 1)].concat();
    found.sort();
    assert_eq!(found, expected);
    match real.kcat(topic) {
        Some(found) => assert_eq!(found, expected, "as kcat sees it"),
        None => println!("kcat is not installed: another client has judged alone"),
    }
}

/// Trap D17: the brokers refuse what an overtaken run goes on to do.
#[test]
fn a_zombie_is_fenced_by_the_broker() {
    let Some(real) = Real::get() else { return };
    let topic = "zombie";
    real.create(topic, 1);
    let record = Outgoing { topic: topic.into(), ..rows::record(0, "zombie") };
    let cluster = real.cluster();
    let mut zombie: Box<dyn Transactions> =
        block_on(cluster.transactions("fluvial-zombie-out")).unwrap();
    block_on(zombie.begin()).unwrap();
    block_on(zombie.send(&[record])).unwrap();
    let (sink, _) = real.sink(topic);
    block_on(publish(&sink, 0, values(&["a"]))).unwrap();
    let error = block_on(zombie.commit()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fenced, "{error}");
    assert_eq!(real.committed(topic, 0), ["a"]);
}

/// Two runs of one query publish the same batches; each is there once.
#[test]
fn two_runs_at_once_publish_each_batch_once() {
    let Some(real) = Real::get() else { return };
    let topic = "race";
    real.create(topic, 1);
    let run = |name: &'static str| {
        let (real, sink) = (&real, real.sink(topic).0);
        move || {
            let mut won = 0;
            for batch in 0..6 {
                let rows = values(&[&format!("{batch} {name}")]);
                for _ in 0..20 {
                    match block_on(publish(&sink, batch, rows.clone())) {
                        Ok(CommitOutcome::Committed) => {
                            won += 1;
                            break;
                        }
                        Ok(_) => break,
                        Err(error) => assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}"),
                    }
                }
            }
            let _ = real;
            won
        }
    };
    let (one, two) = (run("one"), run("two"));
    let won = std::thread::scope(|scope| {
        let (one, two) = (scope.spawn(one), scope.spawn(two));
        one.join().unwrap() + two.join().unwrap()
    });
    let seen = real.committed(topic, 0);
    let batches: Vec<&str> = seen.iter().map(|value| value.split(' ').next().unwrap()).collect();
    assert_eq!(batches, ["0", "1", "2", "3", "4", "5"], "{seen:?}");
    assert_eq!(won, 6);
}

fn headers() -> ArrayRef {
    let fields =
        vec![Field::new("key", DataType::Utf8, true), Field::new("value", DataType::Binary, true)];
    let parts: Vec<Box<dyn arrow::array::ArrayBuilder>> =
        vec![Box::new(StringBuilder::new()), Box::new(BinaryBuilder::new())];
    let mut list = ListBuilder::new(StructBuilder::new(fields, parts));
    for value in [Some(&b"1"[..]), Some(b""), None] {
        let each = list.values();
        each.field_builder::<StringBuilder>(0).unwrap().append_value("h");
        each.field_builder::<BinaryBuilder>(1).unwrap().append_option(value);
        each.append(true);
    }
    list.append(true);
    list.append(false);
    list.append(false);
    Arc::new(list.finish())
}

/// Trap G7 on a real log: what is written comes back as it was.
#[test]
fn records_come_back_as_they_were() {
    let Some(real) = Real::get() else { return };
    let topic = "round";
    real.create(topic, 1);
    let key: ArrayRef = Arc::new(StringArray::from(vec![Some("k1"), None, Some("")]));
    let value: ArrayRef = Arc::new(BinaryArray::from(vec![None, Some(&b"v"[..]), Some(b"")]));
    let rows = RecordBatch::try_from_iter([("key", key), ("value", value), ("headers", headers())])
        .unwrap();
    block_on(async {
        let sink = KafkaSink::new(Arc::new(real.cluster()), real.sink_options(topic));
        sink.open(&spec(topic, &rows)).await.unwrap();
        publish(&sink, 0, rows.clone()).await.unwrap();
        let pairs =
            [("subscribe", topic), ("startingOffsets", "earliest"), ("includeHeaders", "true")];
        let source = rows::source(real.cluster(), &pairs);
        let start = source.initial().await.unwrap();
        let range = rows::plan(&source, &start, None).await.unwrap().unwrap();
        let mut batches = source.read(&range, &range.splits[0], None).unwrap();
        let read = batches.try_next().await.unwrap().unwrap();
        let keys = arrow::compute::cast(rows.column(0), &DataType::Binary).unwrap();
        assert_eq!(read.column(0).as_ref(), keys.as_ref());
        assert_eq!(read.column(1).as_ref(), rows.column(1).as_ref());
        let (found, expected) = (read.column(7).as_list::<i32>(), rows.column(2).as_list::<i32>());
        assert_eq!(found.value(0).as_struct().columns(), expected.value(0).as_struct().columns());
        assert!(found.is_null(1) && found.is_null(2));
    });
}

/// Keys go where Kafka's own clients put them: murmur2 of the key, positive, modulo.
#[test]
fn keys_go_where_javas_clients_put_them() {
    let Some(real) = Real::get() else { return };
    let topic = "keys";
    real.create(topic, 10);
    let key: ArrayRef = Arc::new(StringArray::from(vec!["kafka", "fluvial"]));
    let value: ArrayRef = Arc::new(StringArray::from(vec!["kafka", "fluvial"]));
    let rows = RecordBatch::try_from_iter([("key", key), ("value", value)]).unwrap();
    let sink = KafkaSink::new(Arc::new(real.cluster()), real.sink_options(topic));
    block_on(sink.open(&spec(topic, &rows))).unwrap();
    block_on(publish(&sink, 0, rows)).unwrap();
    for name in ["kafka", "fluvial"] {
        let partition = (murmur2(name.as_bytes()) & 0x7fff_ffff) % 10;
        assert_eq!(real.committed(topic, partition as i32), [name]);
    }
}

fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c ^ data.len() as u32;
    let mut chunks = data.chunks_exact(4);
    for chunk in &mut chunks {
        let mut k = u32::from_le_bytes(chunk.try_into().unwrap()).wrapping_mul(M);
        k = (k ^ (k >> 24)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ k;
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        let k = rest.iter().rev().fold(0u32, |k, byte| k << 8 | u32::from(*byte));
        hash = (hash ^ k).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}
