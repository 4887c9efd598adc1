//! Avro and ORC: files that carry their own schema.

use crate::query::{Query, Spec};
use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array,
    Int64Array, ListArray, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::Int64Type;
use arrow_avro::compression::CompressionCodec;
use arrow_avro::writer::format::AvroOcfFormat;
use fluvial_core::Source;
use fluvial_sim::{Disk, block_on};
use fluvial_sources::FileFormat;
use futures::TryStreamExt;
use orc_rust::arrow_writer::ArrowWriterBuilder;
use std::sync::Arc;

const BOTH: [FileFormat; 2] = [FileFormat::Avro, FileFormat::Orc];

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .unwrap()
}

/// A block or stripe for each batch.
fn file(format: FileFormat, batches: &[RecordBatch]) -> Vec<u8> {
    match format {
        FileFormat::Avro => avro(None, batches),
        _ => {
            let mut bytes = Vec::new();
            let schema = batches[0].schema();
            let mut writer = ArrowWriterBuilder::new(&mut bytes, schema).try_build().unwrap();
            for batch in batches {
                writer.write(batch).unwrap();
                writer.flush_stripe().unwrap();
            }
            writer.close().unwrap();
            bytes
        }
    }
}

fn avro(codec: Option<CompressionCodec>, batches: &[RecordBatch]) -> Vec<u8> {
    let mut writer = arrow_avro::writer::WriterBuilder::new(batches[0].schema().as_ref().clone())
        .with_compression(codec)
        .build::<_, AvroOcfFormat>(Vec::new())
        .unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    writer.into_inner()
}

fn read(disk: &Disk, spec: &Spec) -> Vec<String> {
    Query::start(disk, spec).unwrap().batch().unwrap().unwrap()
}

#[test]
fn columns_go_by_name_and_missing_ones_are_null() {
    let text: ArrayRef = Arc::new(StringArray::from(vec![Some("x"), None]));
    let ints: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    for format in BOTH {
        let disk = Disk::new();
        let rows = batch(vec![("b", text.clone()), ("c", ints.clone()), ("A", ints.clone())]);
        disk.write("in/1", file(format, &[rows]));
        disk.write("in/2", file(format, &[batch(vec![("A", ints.clone())])]));
        disk.write("in/3", "");
        let spec = Spec::json("a BIGINT, b STRING").format(format);
        assert_eq!(read(&disk, &spec), ["a=1 b=x", "a=2", "a=1", "a=2"], "{format}");
    }
}

#[test]
fn values_come_back_as_they_were() {
    let times = TimestampMicrosecondArray::from(vec![Some(-1_500_000), None, Some(1_500_000)]);
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("flag", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
        ("n", Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX)]))),
        ("f", Arc::new(Float64Array::from(vec![Some(0.5), None, Some(f64::NAN)]))),
        ("s", Arc::new(StringArray::from(vec![Some("é\n"), None, Some("")]))),
        ("b", Arc::new(BinaryArray::from(vec![Some(&b"\xff"[..]), None, Some(b"")]))),
        ("d", Arc::new(Date32Array::from(vec![Some(-1), None, Some(20_000)]))),
        ("t", Arc::new(times.with_timezone("UTC"))),
    ];
    let schema = "flag BOOLEAN, n BIGINT, f DOUBLE, s STRING, b BINARY, d DATE, t TIMESTAMP";
    for format in BOTH {
        let disk = Disk::new();
        disk.write("in/1", file(format, &[batch(columns.clone())]));
        let expected = [
            "flag=true n=-9223372036854775808 f=0.5 s=é\n b=ff d=1969-12-31 t=1969-12-31T23:59:58.500Z",
            "",
            "flag=false n=9223372036854775807 f=NaN s= b= d=2024-10-04 t=1970-01-01T00:00:01.500Z",
        ];
        let given = Spec::json(schema).format(format);
        assert_eq!(read(&disk, &given), expected, "{format}");
        let inferred = Spec { schema: None, ..given };
        assert_eq!(read(&disk, &inferred), expected, "{format}, inferred");
    }
}

#[test]
fn avro_has_lists_decimals_and_codecs() {
    let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None]), None]);
    let decimals = Decimal128Array::from(vec![Some(-1234), None]);
    let rows = batch(vec![
        ("l", Arc::new(list) as ArrayRef),
        ("d", Arc::new(decimals.with_precision_and_scale(10, 2).unwrap())),
    ]);
    let codecs = [
        None,
        Some(CompressionCodec::Deflate),
        Some(CompressionCodec::Snappy),
        Some(CompressionCodec::ZStandard),
    ];
    for codec in codecs {
        let disk = Disk::new();
        disk.write("in/1", avro(codec, std::slice::from_ref(&rows)));
        let spec = Spec::json("l ARRAY<BIGINT>, d DECIMAL(12,2)").format(FileFormat::Avro);
        assert_eq!(read(&disk, &spec), ["l=[1, ] d=-12.34", ""], "{codec:?}");
    }
}

#[test]
fn large_files_are_split_and_every_row_is_read_once() {
    let text = "x".repeat(1 << 20);
    let piece = |n: i64| {
        let text: ArrayRef = Arc::new(StringArray::from(vec![format!("{n}{text}")]));
        batch(vec![("n", Arc::new(Int64Array::from(vec![n])) as ArrayRef), ("text", text)])
    };
    let pieces: Vec<_> = (0..20).map(piece).collect();
    let disk = Disk::new();
    disk.write("in/1", file(FileFormat::Avro, &pieces));
    let spec = Spec::json("n BIGINT").format(FileFormat::Avro);
    let mut query = Query::start(&disk, &spec).unwrap();
    let range = query.plan(None).unwrap().unwrap();
    assert!(range.splits.len() > 1, "{range:?}");
    query.adopt(range.clone()).unwrap();
    let expected: Vec<_> = (0..20).map(|n| format!("n={n}")).collect();
    assert_eq!(query.read(&range).unwrap(), expected);
}

#[test]
fn rows_are_counted_without_columns() {
    for format in BOTH {
        let disk = Disk::new();
        let ints: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
        disk.write("in/1", file(format, &[batch(vec![("a", ints)])]));
        let spec = Spec::json("a INT").format(format);
        let mut query = Query::start(&disk, &spec).unwrap();
        let range = query.plan(None).unwrap().unwrap();
        query.adopt(range.clone()).unwrap();
        let stream = query.source.read(&range, &range.splits[0], Some(&[])).unwrap();
        let batches: Vec<RecordBatch> = block_on(stream.try_collect()).unwrap();
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 3, "{format}");
    }
}

#[test]
fn another_type_is_an_error_that_names_file_and_column() {
    let conditions = ["AVRO_INCOMPATIBLE_READ_TYPE", "ORC_COLUMN_DATA_TYPE_MISMATCH"];
    for (format, condition) in BOTH.into_iter().zip(conditions) {
        let disk = Disk::new();
        let ints: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        disk.write("in/1", file(format, &[batch(vec![("b", ints)])]));
        let spec = Spec::json("b STRING").format(format);
        let error = Query::start(&disk, &spec).unwrap().batch().unwrap_err();
        assert_eq!(error.condition(), Some(condition));
        assert!(
            error.message().contains("sim:///in/1") && error.message().contains("`b`"),
            "{error}"
        );
    }
}

/// A file cut off anywhere, or with a byte changed, is an error or other rows, and no panic.
#[test]
fn damage_is_an_error() {
    let ints: ArrayRef = Arc::new(Int64Array::from_iter_values(0..50));
    let text: ArrayRef = Arc::new(StringArray::from_iter_values((0..50).map(|n| n.to_string())));
    for format in BOTH {
        let whole = file(format, &[batch(vec![("n", ints.clone()), ("s", text.clone())])]);
        let try_it = |bytes: Vec<u8>| {
            let disk = Disk::new();
            disk.write("in/1", bytes);
            let spec = Spec::json("n BIGINT, s STRING").format(format);
            Query::start(&disk, &spec).unwrap().batch()
        };
        for length in (1..whole.len()).step_by(7) {
            let error = try_it(whole[..length].to_vec()).map(|rows| rows.map(|rows| rows.len()));
            let error = error.expect_err(&format!("{format} cut off at {length}"));
            assert!(error.message().contains("sim:///in/1"), "{error}");
        }
        for at in (0..whole.len()).step_by(3) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x55;
            if let Err(error) = try_it(bytes) {
                assert!(error.message().contains("sim:///in/1"), "{error}");
            }
        }
    }
}
