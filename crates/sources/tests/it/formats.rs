//! Formats and compressions, through the source.

use crate::query::{Query, Spec, put};
use arrow::array::{
    ArrayRef, Int32Array, LargeListArray, LargeStringArray, RecordBatch, StringArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field};
use fluvial_sim::Disk;
use fluvial_sources::FileFormat;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use std::io::Write;
use std::sync::Arc;

const SCHEMA: &str = "a BIGINT, b STRING";

fn read(disk: &Disk, spec: &Spec) -> Vec<String> {
    Query::start(disk, spec).unwrap().batch().unwrap().unwrap()
}

/// Trap F7.
#[test]
fn encodings_of_the_same_lines_give_the_same_rows() {
    let json = ["{\"a\":1,\"b\":\"x\"}", "{\"a\":2,\"b\":\"y\"}", "{\"a\":3,\"b\":\"z\"}"];
    let csv = ["a,b", "1,x", "2,y", "3,z"];
    let csv_spec = Spec::json(SCHEMA).format(FileFormat::Csv).option("header", "true");
    for (spec, lines) in [(Spec::json(SCHEMA), &json[..]), (csv_spec, &csv)] {
        let lf = lines.join("\n");
        let forms = [
            lf.clone() + "\n",
            lines.join("\r\n") + "\r\n",
            format!("\u{feff}{lf}\n"),
            format!("\u{feff}{}\r\n", lines.join("\r\n")),
            lf,
        ];
        for form in forms {
            let disk = Disk::new();
            disk.write("in/f", form.clone());
            assert_eq!(read(&disk, &spec), ["a=1 b=x", "a=2 b=y", "a=3 b=z"], "{form:?}");
        }
    }
}

#[test]
fn compressed_files_are_told_by_their_names() {
    let lines: String = (0..5000).map(|n| format!("{{\"a\":{n}}}\n")).collect();
    let disk = Disk::new();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(lines.as_bytes()).unwrap();
    disk.write("in/1.json.gz", gzip.finish().unwrap());
    disk.write("in/2.json.zst", zstd::encode_all(lines.as_bytes(), 1).unwrap());
    disk.write("in/3.json", lines);
    let rows = read(&disk, &Spec::json(SCHEMA));
    assert_eq!(rows.len(), 15_000);
    assert_eq!(rows[..5000], rows[5000..10_000]);
    assert_eq!(rows[..5000], rows[10_000..]);
}

fn parquet(columns: Vec<(&str, ArrayRef)>, rows_per_group: usize) -> Vec<u8> {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let properties =
        WriterProperties::builder().set_max_row_group_row_count(Some(rows_per_group)).build();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn ints(values: std::ops::Range<i32>) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(values))
}

#[test]
fn parquet_columns_go_by_name_and_missing_ones_are_null() {
    let disk = Disk::new();
    let text: ArrayRef = Arc::new(StringArray::from(vec!["x", "y"]));
    disk.write("in/1", parquet(vec![("b", text), ("c", ints(0..2)), ("a", ints(0..2))], 100));
    disk.write("in/2", parquet(vec![("A", ints(2..4))], 100));
    disk.write("in/3", "");
    let spec = Spec::json(SCHEMA).format(FileFormat::Parquet);
    assert_eq!(read(&disk, &spec), ["a=0 b=x", "a=1 b=y", "a=2", "a=3"]);
}

#[test]
fn parquet_types_of_a_writers_memory_do_not_matter() {
    let text: ArrayRef = Arc::new(LargeStringArray::from(vec![Some("x"), None]));
    let disk = Disk::new();
    let list = LargeListArray::new(
        Arc::new(Field::new("e", DataType::Int32, true)),
        OffsetBuffer::from_lengths([2, 0]),
        ints(0..2),
        None,
    );
    disk.write("in/1", parquet(vec![("b", text), ("l", Arc::new(list))], 100));
    let spec = Spec::json("b STRING, l ARRAY<BIGINT>").format(FileFormat::Parquet);
    assert_eq!(read(&disk, &spec), ["b=x l=[0, 1]", "l=[]"]);
}

#[test]
fn a_parquet_column_of_another_type_is_an_error() {
    let disk = Disk::new();
    disk.write("in/1", parquet(vec![("b", ints(0..2))], 100));
    let spec = Spec::json(SCHEMA).format(FileFormat::Parquet);
    let error = Query::start(&disk, &spec).unwrap().batch().unwrap_err();
    assert_eq!(error.condition(), Some("PARQUET_COLUMN_DATA_TYPE_MISMATCH"));
    for part in ["sim:///in/1", "`b`", "INT", "STRING"] {
        assert!(error.message().contains(part), "{error}");
    }
}

#[test]
fn what_is_no_parquet_is_said_to_be_none() {
    let disk = Disk::new();
    disk.write("in/1", "this is text, not Parquet");
    let spec = Spec::json(SCHEMA).format(FileFormat::Parquet);
    let error = Query::start(&disk, &spec).unwrap().batch().unwrap_err();
    assert_eq!(error.condition(), Some("FAILED_READ_FILE.PARQUET"));
    assert!(error.message().contains("sim:///in/1"), "{error}");
}

#[test]
fn large_parquet_files_are_split_between_row_groups() {
    let disk = Disk::new();
    let text = "x".repeat(1 << 20);
    let large: Vec<String> = (0..20).map(|n| format!("{n} {text}")).collect();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(3))
        .set_dictionary_enabled(false)
        .build();
    let column: ArrayRef = Arc::new(StringArray::from(large));
    let batch = RecordBatch::try_from_iter([("b", column)]).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    disk.write("in/1", writer.into_inner().unwrap());
    let spec = Spec::json("b STRING").format(FileFormat::Parquet);
    let mut query = Query::start(&disk, &spec).unwrap();
    let range = query.plan(None).unwrap().unwrap();
    assert_eq!(range.splits.len(), 2);
    query.adopt(range.clone()).unwrap();
    let numbers: Vec<String> = query.read(&range).unwrap();
    let numbers: Vec<&str> = numbers.iter().map(|row| row.split(' ').next().unwrap()).collect();
    let expected: Vec<String> = (0..20).map(|n| format!("b={n}")).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn schemas_are_inferred_if_asked_for() {
    let disk = Disk::new();
    put(&disk, "k=1/1.json", &["{\"b\": 1.5, \"a\": [1]}"], 1);
    put(&disk, "k=2/2.json", &["{\"c\": {\"y\": true, \"x\": \"t\"}}"], 2);
    let mut spec = Spec::json("");
    spec.schema = None;
    assert_eq!(read(&disk, &spec), ["a=[1] b=1.5 k=1", "c={x: t, y: true} k=2"]);
    let disk = Disk::new();
    put(&disk, "1.csv", &["x,y", "1,2"], 1);
    let spec = spec.format(FileFormat::Csv).option("header", "true");
    assert_eq!(read(&disk, &spec), ["x=1 y=2"]);
    let disk = Disk::new();
    disk.write("in/1", parquet(vec![("z", ints(7..8))], 10));
    let mut spec = Spec::json("").format(FileFormat::Parquet);
    spec.schema = None;
    assert_eq!(read(&disk, &spec), ["z=7"]);
}
