//! JSON lines into columns, in bytes a second on one core: this source, arrow-json's reader into
//! the same schema, and simd-json's tape of each line, without columns.
//!
//! `cargo bench --manifest-path benches/json/Cargo.toml`

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use fluvial_core::ddl::parse_ddl;
use fluvial_core::{BatchId, PlanRequest, ReadLimit, RunId, Source, SourceRange};
use fluvial_json_bench::{clicks, events};
use fluvial_sim::{Disk, block_on};
use fluvial_sources::{FileFormat, FilePlace, FileSource};
use futures::TryStreamExt;
use object_store::path::Path;
use std::hint::black_box;
use std::sync::Arc;

const ROWS: u64 = 200_000;

/// The source over one file in memory, and the range that is the file.
fn source(text: &str, schema: &Schema) -> (FileSource, SourceRange) {
    let disk = Disk::new();
    disk.write("in/file.json", text.to_owned());
    let store = disk.process().store();
    block_on(async {
        let place = FilePlace::new(Arc::clone(&store), "sim:///", "in").expect("a place");
        let builder = FileSource::builder(place, FileFormat::Json).schema(schema.clone());
        let source = builder.log(store, Path::from("log")).open().await.expect("a source");
        let (run, start) =
            (RunId::new("run").expect("a name"), source.initial().await.expect("a start"));
        let (batch, limit) = (BatchId(0), ReadLimit::NONE);
        let request =
            PlanRequest { batch, run: &run, start: &start, limit, until: None, splits: 1 };
        let range = source.plan(request).await.expect("a plan").expect("a file");
        source.adopt(&range).await.expect("adopted");
        (source, range)
    })
}

fn ours(source: &FileSource, range: &SourceRange) -> usize {
    let rows = source.read(range, &range.splits[0], None).expect("a stream");
    let rows = block_on(rows.try_collect::<Vec<RecordBatch>>()).expect("rows");
    rows.iter().map(RecordBatch::num_rows).sum()
}

fn arrows(text: &str, schema: &SchemaRef) -> usize {
    let reader = arrow::json::ReaderBuilder::new(Arc::clone(schema)).with_batch_size(8192);
    let reader = reader.build(text.as_bytes()).expect("a reader");
    reader.map(|rows| rows.expect("rows").num_rows()).sum()
}

/// simd-json changes its input: a copy of each line is part of it.
fn tapes(text: &str) -> usize {
    let (mut line, mut buffers) = (Vec::new(), simd_json::Buffers::default());
    let mut nodes = 0;
    for text in text.lines() {
        line.clear();
        line.extend_from_slice(text.as_bytes());
        let tape = simd_json::to_tape_with_buffers(&mut line, &mut buffers).expect("JSON");
        nodes += tape.0.len();
    }
    nodes
}

/// The same columns with the zone by its offset: arrow-json knows no zones by name.
fn with_offsets(schema: &Schema) -> SchemaRef {
    let field = |field: &FieldRef| match field.data_type() {
        DataType::Timestamp(unit, Some(_)) => {
            let data_type = DataType::Timestamp(*unit, Some("+00:00".into()));
            Arc::new(Field::new(field.name(), data_type, true))
        }
        _ => Arc::clone(field),
    };
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

fn json_lines(c: &mut Criterion) {
    let clicks_ddl = "user_id STRING, page STRING, event_time TIMESTAMP, duration_s DOUBLE";
    let events_ddl = "id BIGINT, type STRING";
    for (name, text, ddl) in
        [("clicks", clicks(ROWS), clicks_ddl), ("events, two fields", events(ROWS), events_ddl)]
    {
        let schema = parse_ddl(ddl).expect("it is DDL");
        let (source, range) = source(&text, &schema);
        let schema = with_offsets(&schema);
        assert_eq!(ours(&source, &range) as u64, ROWS);
        assert_eq!(arrows(&text, &schema) as u64, ROWS);
        let mut group = c.benchmark_group(format!("json lines, {name}"));
        group.sample_size(10).throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function("fluvial", |b| b.iter(|| ours(black_box(&source), &range)));
        group.bench_function("arrow-json", |b| b.iter(|| arrows(black_box(&text), &schema)));
        group.bench_function("simd-json, no columns", |b| b.iter(|| tapes(black_box(&text))));
        group.finish();
    }
}

criterion_group!(benches, json_lines);
criterion_main!(benches);
