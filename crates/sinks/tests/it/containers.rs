//! Avro and ORC files, read back by their libraries.

use crate::files::{ROOT, opened, publish};
use arrow::array::Int64Builder;
use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Float64Array, Int8Array, Int64Array,
    ListArray, MapBuilder, RecordBatch, StringArray, StringBuilder, StructArray,
    TimestampNanosecondArray,
};
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Int64Type};
use bytes::Bytes;
use fluvial_core::options::Options;
use fluvial_core::{BatchId, Note, PartitionId, Sink};
use fluvial_sinks::{FileOptions, committed_files};
use futures::executor::block_on;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::io::Cursor;
use std::sync::Arc;

const ROWS: i64 = 4000;

fn parsed(format: &str, options: &[(&str, &str)]) -> FileOptions {
    FileOptions::parse(format, Options::new(options.iter().copied()), Vec::new()).unwrap()
}

/// Rows from `start` of every flat type, each column with nulls. No time is in the second before
/// 1970, which ORC does not have (ORC-763).
fn flat(start: i64) -> Vec<(&'static str, ArrayRef)> {
    let ids = start..start + ROWS;
    let some = |id: i64| id % 5 != 0;
    vec![
        ("id", Arc::new(Int64Array::from_iter_values(ids.clone())) as ArrayRef),
        (
            "b",
            Arc::new(BooleanArray::from_iter(
                ids.clone().map(|id| some(id).then_some(id % 3 == 0)),
            )),
        ),
        (
            "t",
            Arc::new(Int8Array::from_iter(
                ids.clone().map(|id| some(id).then_some((id % 128) as i8)),
            )),
        ),
        (
            "d",
            Arc::new(Float64Array::from_iter(
                ids.clone().map(|id| some(id).then_some(id as f64 / 3.0)),
            )),
        ),
        (
            "day",
            Arc::new(Date32Array::from_iter(
                ids.clone().map(|id| some(id).then_some(id as i32 - 7)),
            )),
        ),
        (
            "at",
            Arc::new(
                TimestampNanosecondArray::from_iter(
                    ids.clone()
                        .map(|id| some(id).then_some(id * 1_000_001_000 - 2_999_002_999_000)),
                )
                .with_timezone("UTC"),
            ),
        ),
        (
            "s",
            Arc::new(StringArray::from_iter(
                ids.clone().map(|id| some(id).then(|| format!("é {id}"))),
            )),
        ),
        ("bin", Arc::new(BinaryArray::from_iter(ids.map(|id| some(id).then(|| id.to_le_bytes()))))),
    ]
}

/// A list, a structure and a map of each row.
fn nested() -> Vec<(&'static str, ArrayRef)> {
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>(
        (0..ROWS).map(|id| (id % 5 != 0).then(|| (0..id % 3).map(Some))),
    );
    let x: ArrayRef =
        Arc::new(Int64Array::from_iter((0..ROWS).map(|id| (id % 4 != 0).then_some(id))));
    let structure = StructArray::from(vec![(Arc::new(Field::new("x", DataType::Int64, true)), x)]);
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    for id in 0..ROWS {
        map.keys().append_value(format!("k{id}"));
        map.values().append_value(id);
        map.append(id % 7 != 0).unwrap();
    }
    vec![("l", Arc::new(list)), ("st", Arc::new(structure)), ("m", Arc::new(map.finish()))]
}

fn batch(columns: Vec<(&'static str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .unwrap()
}

/// Each published file and what a library reads from it.
async fn read(store: &Arc<dyn ObjectStore>) -> Vec<(String, RecordBatch)> {
    let mut found = Vec::new();
    for path in committed_files(store.clone(), Path::from(ROOT)).await.unwrap() {
        let bytes: Bytes = store.get(&path).await.unwrap().bytes().await.unwrap();
        let rows: Vec<RecordBatch> = if path.as_ref().ends_with(".orc") {
            let reader = orc_rust::ArrowReaderBuilder::try_new(bytes).unwrap().build();
            reader.map(|rows| rows.unwrap()).collect()
        } else {
            let reader =
                arrow_avro::reader::ReaderBuilder::new().build(Cursor::new(bytes)).unwrap();
            reader.map(|rows| rows.unwrap()).collect()
        };
        found.push((path.to_string(), concat_batches(&rows[0].schema(), &rows).unwrap()));
    }
    found
}

fn assert_same(found: &RecordBatch, expected: &RecordBatch, what: &str) {
    assert_eq!(found.num_rows(), expected.num_rows(), "{what}");
    for (field, column) in expected.schema().fields().iter().zip(expected.columns()) {
        let theirs = found.column_by_name(field.name()).unwrap();
        let theirs = cast(theirs, column.data_type()).unwrap();
        assert!(theirs.as_ref() == column.as_ref(), "{what}: {}", field.name());
    }
}

#[test]
fn what_is_written_is_read_in_every_compression() {
    for format in ["avro", "orc"] {
        for compression in ["none", "snappy", "zstd", "deflate"] {
            let columns =
                flat(0).into_iter().chain(if format == "avro" { nested() } else { vec![] });
            let rows = batch(columns.collect());
            let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
            block_on(async {
                let options = parsed(format, &[("compression", compression)]);
                let (sink, _) = opened(&store, options, "r", &rows).await.unwrap();
                let parts = [rows.slice(0, 1500), rows.slice(1500, 0), rows.slice(1500, 2500)];
                publish(&sink, 0, &parts).await.unwrap();
                let files = read(&store).await;
                assert_eq!(files.len(), 2, "no file of no rows");
                let found = [&files[0].1, &files[1].1];
                let found = concat_batches(&found[0].schema(), found).unwrap();
                assert_same(&found, &rows, &format!("{format}, {compression}: {}", files[0].0));
            });
        }
    }
}

/// An ORC file is made from rows that are held until then: they count.
#[test]
fn files_end_near_their_size() {
    for format in ["avro", "orc"] {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let options = parsed(format, &[("compression", "none"), ("targetFileSize", "100k")]);
        let rows = batch(flat(0));
        block_on(async {
            let (sink, _) = opened(&store, options, "r", &rows).await.unwrap();
            let mut writer = sink.writer(BatchId(0), PartitionId(0)).await.unwrap();
            for at in (0..rows.num_rows()).step_by(500) {
                writer.write(rows.slice(at, 500)).await.unwrap();
            }
            let staged = vec![writer.stage().await.unwrap()];
            sink.commit(BatchId(0), staged, &Note(Default::default())).await.unwrap();
            let files = read(&store).await;
            assert!((2..=4).contains(&files.len()), "{format}: {}", files.len());
            let found: Vec<_> = files.iter().map(|(_, rows)| rows).collect();
            assert_same(&concat_batches(&found[0].schema(), found).unwrap(), &rows, format);
        });
    }
}
