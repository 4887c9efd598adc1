//! The sink on the model: its protocol, and what it writes.

use crate::model::Model;
use crate::rows::{TOPIC, client, model, note, publish, record, sink_options, spec, values};
use arrow::array::{
    ArrayRef, BinaryArray, BinaryBuilder, Int32Array, ListBuilder, RecordBatch, StringArray,
    StringBuilder, StructBuilder,
};
use arrow::datatypes::{DataType, Field};
use fluvial_core::{BatchId, CommitOutcome, ErrorKind, Note, Sink};
use fluvial_kafka::KafkaSink;
use fluvial_sim::block_on;
use std::sync::Arc;

fn sink(model: &Model, pairs: &[(&str, &str)]) -> KafkaSink {
    KafkaSink::new(Arc::new(client(model)), sink_options(pairs))
}

async fn opened(model: &Model, query: &str) -> (KafkaSink, Option<BatchId>) {
    let sink = sink(model, &[("topic", TOPIC)]);
    let last = sink.open(&spec(query, &values(&[]))).await.unwrap();
    (sink, last)
}

fn seen(model: &Model) -> Vec<String> {
    let records = model.with(|state| state.committed(TOPIC, 0));
    let text = |value: bytes::Bytes| String::from_utf8(value.to_vec()).unwrap();
    records.into_iter().filter_map(|record| record.value).map(text).collect()
}

/// Traps D1 and D2.
#[test]
fn a_replayed_batch_is_written_once() {
    let model = model(1);
    block_on(async {
        let (first, _) = opened(&model, "q").await;
        for batch in 0..3 {
            let rows = values(&[&format!("batch {batch}")]);
            let outcome = publish(&first, batch, rows).await.unwrap();
            assert_eq!(outcome, CommitOutcome::Committed);
        }
        let (again, last) = opened(&model, "q").await;
        assert_eq!(last, Some(BatchId(2)));
        let outcome = publish(&again, 2, values(&["again"])).await.unwrap();
        assert_eq!(outcome, CommitOutcome::AlreadyCommitted(Some(note(2))));
        let outcome = publish(&again, 1, values(&["again"])).await.unwrap();
        assert_eq!(outcome, CommitOutcome::AlreadyCommitted(None));
        assert_eq!(seen(&model), ["batch 0", "batch 1", "batch 2"]);
    });
}

/// Trap D17: what a run has sent when the next one begins is never seen.
#[test]
fn a_zombie_is_fenced() {
    let model = model(1);
    block_on(async {
        use fluvial_kafka::broker::{Broker, Transactions};
        let broker = client(&model);
        let (_, _) = opened(&model, "q").await;
        let mut zombie: Box<dyn Transactions> = broker.transactions("fluvial-q-out").await.unwrap();
        zombie.begin().await.unwrap();
        zombie.send(&[record(0, "zombie")]).await.unwrap();
        let (sink, _) = opened(&model, "q").await;
        assert_eq!(zombie.commit().await.unwrap_err().kind(), ErrorKind::Fenced);
        publish(&sink, 0, values(&["a"])).await.unwrap();
        assert_eq!(zombie.send(&[record(0, "z")]).await.unwrap_err().kind(), ErrorKind::Fenced);
        assert_eq!(seen(&model), ["a"]);
    });
}

#[test]
fn a_run_that_was_overtaken_learns_what_was_published() {
    let model = model(1);
    block_on(async {
        let (old, _) = opened(&model, "q").await;
        let (new, _) = opened(&model, "q").await;
        publish(&new, 0, values(&["new"])).await.unwrap();
        let outcome = publish(&old, 0, values(&["old"])).await.unwrap();
        assert_eq!(outcome, CommitOutcome::AlreadyCommitted(Some(note(0))));
        publish(&new, 1, values(&["newer"])).await.unwrap();
        assert_eq!(seen(&model), ["new", "newer"]);
    });
}

#[test]
fn a_transaction_of_another_query_is_waited_for() {
    let model = model(1);
    block_on(async {
        let (sink, _) = opened(&model, "q").await;
        // Another query writes its record and dies; then ours publishes behind it.
        model.with(|state| {
            let epoch = state.take_over("other");
            let topic = "fluvial-batches".into();
            let record = fluvial_kafka::broker::Outgoing { topic, ..record(0, "x") };
            state.append(record, Some(("other", epoch))).unwrap();
        });
        publish(&sink, 0, values(&["a"])).await.unwrap();
        let (_, last) = opened(&model, "q").await;
        assert_eq!(last, Some(BatchId(0)), "the record behind the open transaction is found");
    });
}

#[test]
fn a_note_may_be_large_and_the_topic_long() {
    let model = model(1);
    block_on(async {
        let (sink, _) = opened(&model, "q").await;
        let large = Note(vec![7; 200_000].into());
        sink.commit(BatchId(0), Vec::new(), &large).await.unwrap();
        let (other, _) = opened(&model, "other").await;
        for batch in 0..1200 {
            other.commit(BatchId(batch), Vec::new(), &note(batch)).await.unwrap();
        }
        let (again, last) = opened(&model, "q").await;
        assert_eq!(last, Some(BatchId(0)));
        let outcome = again.commit(BatchId(0), Vec::new(), &note(0)).await.unwrap();
        assert_eq!(outcome, CommitOutcome::AlreadyCommitted(Some(large)));
    });
}

/// Trap D17: without transactions a batch that is run again is written again.
#[test]
fn at_least_once_says_what_it_is() {
    let model = model(1);
    block_on(async {
        let pairs = [("topic", TOPIC), ("deliveryGuarantee", "at-least-once")];
        let first = sink(&model, &pairs);
        first.open(&spec("q", &values(&[]))).await.unwrap();
        publish(&first, 0, values(&["a"])).await.unwrap();
        let outcome = publish(&first, 0, values(&["a"])).await.unwrap();
        assert_eq!(outcome, CommitOutcome::AlreadyCommitted(Some(note(0))), "while it lives");
        let again = sink(&model, &pairs);
        assert_eq!(again.open(&spec("q", &values(&[]))).await.unwrap(), None);
        publish(&again, 0, values(&["a"])).await.unwrap();
        assert_eq!(seen(&model), ["a", "a"]);
        assert!(model.with(|state| state.describe(None)).len() == 1, "no control topic");
    });
}

fn header_list() -> ArrayRef {
    let fields =
        vec![Field::new("key", DataType::Utf8, true), Field::new("value", DataType::Binary, true)];
    let parts: Vec<Box<dyn arrow::array::ArrayBuilder>> =
        vec![Box::new(StringBuilder::new()), Box::new(BinaryBuilder::new())];
    let mut list = ListBuilder::new(StructBuilder::new(fields, parts));
    for value in [Some(b"1"), Some(b"2"), None] {
        let each = list.values();
        each.field_builder::<StringBuilder>(0).unwrap().append_value("h");
        each.field_builder::<BinaryBuilder>(1).unwrap().append_option(value);
        each.append(true);
    }
    list.append(true);
    list.append(false);
    list.append(true);
    Arc::new(list.finish())
}

/// Trap G7.
#[test]
fn nulls_empties_and_headers_survive() {
    let model = model(2);
    model.with(|state| state.create_if_absent("u", 1));
    let key: ArrayRef = Arc::new(StringArray::from(vec![Some("k1"), None, Some("k2")]));
    let value: ArrayRef = Arc::new(BinaryArray::from(vec![None, Some(&b"v"[..]), Some(b"")]));
    let topic: ArrayRef = Arc::new(StringArray::from(vec![TOPIC, TOPIC, "u"]));
    let partition: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(0), None]));
    let rows = RecordBatch::try_from_iter([
        ("key", key),
        ("value", value),
        ("topic", topic),
        ("partition", partition),
        ("headers", header_list()),
    ])
    .unwrap();
    block_on(async {
        let sink = sink(&model, &[]);
        sink.open(&spec("q", &rows)).await.unwrap();
        publish(&sink, 0, rows).await.unwrap();
    });
    let read = |topic, partition| model.with(|state| state.committed(topic, partition));
    let (tombstone, keyless, empty) = (&read(TOPIC, 1)[0], &read(TOPIC, 0)[0], &read("u", 0)[0]);
    assert_eq!((tombstone.key.as_deref(), tombstone.value.as_deref()), (Some(&b"k1"[..]), None));
    let headers: Vec<_> = tombstone.headers.iter().map(|(_, value)| value.as_deref()).collect();
    assert_eq!(headers, [Some(&b"1"[..]), Some(b"2"), None]);
    assert_eq!((keyless.key.as_deref(), keyless.value.as_deref()), (None, Some(&b"v"[..])));
    assert_eq!(empty.value.as_deref(), Some(&b""[..]));
    assert!(empty.headers.is_empty());
}

#[test]
fn a_row_without_a_topic_is_refused() {
    let model = model(1);
    let topic: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>]));
    let value: ArrayRef = Arc::new(StringArray::from(vec!["v"]));
    let rows = RecordBatch::try_from_iter([("value", value), ("topic", topic)]).unwrap();
    block_on(async {
        let sink = sink(&model, &[]);
        sink.open(&spec("q", &rows)).await.unwrap();
        let error = publish(&sink, 0, rows).await.unwrap_err();
        assert_eq!(error.condition(), Some("KAFKA_NULL_TOPIC_IN_DATA"));
    });
}
