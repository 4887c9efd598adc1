//! Columns to state keys and values, and back: a million rows of a windowed aggregation.

use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, TimeUnit};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fluvial_benches::Clicks;
use fluvial_core::KeyGroupCount;
use fluvial_state::{KeyCodec, KeyLayout, ValueCodec};
use std::hint::black_box;
use std::sync::Arc;

const ROWS: usize = 100_000;

fn codecs(c: &mut Criterion) {
    let clicks = Clicks { rows: ROWS, pages: 10_000, files: 1 };
    let rows = clicks.batches().next().expect("one file");
    let page = Arc::clone(rows.column(1));
    let times: TimestampMicrosecondArray = arrow::array::AsArray::as_primitive::<
        arrow::datatypes::TimestampMicrosecondType,
    >(rows.column(2))
    .clone();
    let columns: Vec<ArrayRef> = vec![Arc::new(times.clone()), page];
    let types =
        vec![DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), DataType::Utf8];
    let key_groups = KeyGroupCount::DEFAULT;
    let codec = KeyCodec::new(KeyLayout::TimeKey, types, key_groups).expect("a codec");
    let mut group = c.benchmark_group("codecs");
    group.throughput(Throughput::Elements(ROWS as u64));
    group.bench_function("keys encode", |b| {
        b.iter(|| codec.encode(black_box(&columns), Some(&times), ROWS).expect("it encodes"));
    });
    let encoded = codec.encode(&columns, Some(&times), ROWS).expect("it encodes").keys;
    group.bench_function("keys decode", |b| {
        b.iter(|| codec.decode(black_box(&encoded)).expect("it decodes"));
    });
    let partitioned = KeyCodec::new(KeyLayout::Key, vec![DataType::Utf8], key_groups);
    let partitioned = partitioned.expect("a codec");
    let names: StringArray = arrow::array::AsArray::as_string::<i32>(rows.column(1)).clone();
    let names: Vec<ArrayRef> = vec![Arc::new(names)];
    group.bench_function("keys partition", |b| {
        b.iter(|| partitioned.partitions(black_box(&names), ROWS, 8).expect("it hashes"));
    });
    let states: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(0..ROWS as i64)),
        Arc::new(Float64Array::from_iter_values((0..ROWS).map(|i| i as f64))),
    ];
    let values = ValueCodec::new(vec![DataType::Int64, DataType::Float64]).expect("a codec");
    group.bench_function("values encode", |b| {
        b.iter(|| values.encode(black_box(&states), ROWS).expect("it encodes"));
    });
    let stored = values.encode(&states, ROWS).expect("it encodes");
    group.bench_function("values decode", |b| {
        b.iter(|| values.decode(black_box(&stored)).expect("it decodes"));
    });
    group.finish();
}

criterion_group!(benches, codecs);
criterion_main!(benches);
