//! Damaged files of every format, and folders of any name: an error or rows, never a panic.
//!
//! The fuzz targets of `fuzz/` look further; these few mutations are part of every test run.

use crate::query::{Query, Spec};
use arrow::array::{ArrayRef, Int64Array, ListArray, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use fluvial_sim::{Disk, Rng};
use fluvial_sources::FileFormat;
use parquet::arrow::ArrowWriter;
use std::io::Write;
use std::sync::Arc;

const SCHEMA: &str = "a BIGINT, s STRING, l ARRAY<BIGINT>";
const MUTATIONS: u64 = 150;

fn batch() -> RecordBatch {
    let numbers: ArrayRef =
        Arc::new(Int64Array::from_iter((0..40).map(|n| (n % 7 != 0).then_some(n))));
    let texts: ArrayRef =
        Arc::new(StringArray::from_iter((0..40).map(|n| (n % 5 != 0).then(|| format!("t{n}é")))));
    let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(
        (0..40).map(|n| (n % 3 != 0).then(|| vec![Some(n), None])),
    ));
    let columns = [("a", numbers), ("s", texts), ("l", lists)];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, c)| (name, c, true))).unwrap()
}

fn parquet() -> Vec<u8> {
    let batch = batch();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.into_inner().unwrap()
}

fn json() -> Vec<u8> {
    let line =
        |n: i64| format!("{{\"a\":{n},\"s\":\"t\\u00e9{n}\",\"l\":[{n},null,{{\"x\":1}}]}}\n");
    (0..20).map(line).collect::<String>().into_bytes()
}

/// Changes, cuts, repeats or adds a few bytes.
fn mutate(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..=rng.below(3) {
        if bytes.is_empty() {
            return;
        }
        let at = rng.index(bytes.len());
        let until = (at + 1 + rng.index(16)).min(bytes.len());
        match rng.below(5) {
            0 => bytes[at] ^= 1 << rng.below(8),
            1 => bytes[at] = [0, 0xff, 0x7f, 0x80, b'"', b'\n'][rng.index(6)],
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..until)),
            _ => {
                let again = bytes[at..until].to_vec();
                bytes.splice(at..at, again);
            }
        }
    }
}

/// Reads mutations of a file; how many of them had rows.
fn survives(name: &str, format: FileFormat, whole: &[u8], seed: u64) -> usize {
    let mut rng = Rng::new(seed);
    let mut read = 0;
    for round in 0..MUTATIONS {
        let mut bytes = whole.to_vec();
        if round > 0 {
            mutate(&mut bytes, &mut rng);
        }
        let disk = Disk::new();
        disk.write(&format!("in/{name}"), bytes);
        let schema = if format == FileFormat::Csv { "a BIGINT, s STRING" } else { SCHEMA };
        let schema = if format == FileFormat::Text { "value STRING" } else { schema };
        let mut query = Query::start(&disk, &Spec::json(schema).format(format)).unwrap();
        match query.batch() {
            Ok(rows) => read += usize::from(rows.is_some_and(|rows| !rows.is_empty())),
            Err(error) => assert!(error.condition().is_some(), "{name}, {round}: {error}"),
        }
        // What is found in it is any schema, or none.
        let auto = Spec::auto().format(format).option("inferColumnTypes", "true");
        if let Ok(mut query) = Query::start(&disk, &auto) {
            drop(query.batch());
        }
    }
    read
}

#[test]
fn damaged_files_of_text_are_rows_or_errors() {
    let csv = b"1,\"a \"\"b\"\", c\"\n2,\n,\"x\ny\"\n".repeat(5);
    assert!(survives("f.json", FileFormat::Json, &json(), 1) > 50);
    assert!(survives("f.csv", FileFormat::Csv, &csv, 2) > 50);
    assert!(survives("f.txt", FileFormat::Text, &json(), 3) > 50);
}

#[test]
fn damaged_compressed_files_are_rows_or_errors() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&json()).unwrap();
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    zlib.write_all(&json()).unwrap();
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    lz4.write_all(&json()).unwrap();
    let mut snappy = snap::write::FrameEncoder::new(Vec::new());
    snappy.write_all(&json()).unwrap();
    let files = [
        ("f.json.gz", gzip.finish().unwrap()),
        ("f.json.deflate", zlib.finish().unwrap()),
        ("f.json.zst", zstd::encode_all(&json()[..], 1).unwrap()),
        ("f.json.lz4", lz4.finish().unwrap()),
        ("f.json.snappy", snappy.into_inner().unwrap()),
    ];
    for (seed, (name, bytes)) in files.into_iter().enumerate() {
        assert!(survives(name, FileFormat::Json, &bytes, seed as u64) > 0, "{name}");
    }
}

#[test]
fn damaged_parquet_files_are_rows_or_errors() {
    assert!(survives("f.parquet", FileFormat::Parquet, &parquet(), 4) > 0);
}

#[cfg(all(feature = "avro", feature = "orc"))]
#[test]
fn damaged_avro_and_orc_files_are_rows_or_errors() {
    use arrow_avro::writer::{AvroWriter, WriterBuilder};
    let batch = batch();
    let builder = WriterBuilder::new(batch.schema().as_ref().clone());
    let mut avro: AvroWriter<Vec<u8>> = builder.build(Vec::new()).unwrap();
    avro.write(&batch).unwrap();
    avro.finish().unwrap();
    assert!(survives("f.avro", FileFormat::Avro, &avro.into_inner(), 5) > 0);
    let batch = batch.project(&[0, 1]).unwrap();
    let mut orc = Vec::new();
    let builder = orc_rust::ArrowWriterBuilder::new(&mut orc, batch.schema());
    let mut writer = builder.try_build().unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    assert!(survives("f.orc", FileFormat::Orc, &orc, 6) > 0);
}

#[test]
fn folders_of_any_name_are_columns_or_not() {
    let mut rng = Rng::new(8);
    let parts = [
        "k",
        "=",
        "%2F",
        "%",
        "%zz",
        "é",
        "1",
        "01",
        "-0",
        "_",
        ".",
        "2026-01-31",
        "x y",
        "#1",
        "[",
        "*",
    ];
    for round in 0..300 {
        let mut name =
            || (0..=rng.index(5)).map(|_| parts[rng.index(parts.len())]).collect::<String>();
        let (outer, inner) = (name(), name());
        if [&outer, &inner].into_iter().any(|name| matches!(name.as_str(), "." | "..")) {
            continue;
        }
        let found = |names| {
            let disk = Disk::new();
            disk.write(&format!("in/{outer}/{inner}/f.json"), "{\"v\":1}\n");
            disk.write("in/plain.json", "{\"v\":2}\n");
            let spec = Spec { names, ..Spec::json("v INT") };
            // Two columns of one name, say, are refused.
            let mut query = Query::start(&disk, &spec).ok()?;
            Some(query.batch().unwrap().unwrap())
        };
        let (listed, named) = (found(false), found(true));
        assert_eq!(listed, named, "round {round}: {outer}/{inner}");
        if let Some(rows) = listed {
            assert!(rows.iter().any(|row| row.starts_with("v=2")), "{outer}/{inner}: {rows:?}");
        }
        // The same as a pattern: read, or refused.
        drop(Query::start(&Disk::new(), &Spec::json("v INT").path(&format!("in/{outer}/{inner}"))));
    }
}
