//! Schemas that grow: wider types, and files that carry a schema of their own.

use crate::auto::{columns, run};
use crate::query::{Query, Spec, put};
use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray, StructArray};
use fluvial_sim::Disk;
use fluvial_sources::FileFormat;
use parquet::arrow::ArrowWriter;
use std::sync::Arc;

fn widening() -> Spec {
    Spec::auto()
        .option("schemaEvolutionMode", "addNewColumnsWithTypeWidening")
        .option("maxFilesPerTrigger", "1")
}

fn parquet(disk: &Disk, name: &str, modified: i64, columns: Vec<(&str, ArrayRef)>) {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    disk.write(&format!("in/{name}"), writer.into_inner().unwrap());
    disk.set_modified(&format!("in/{name}"), modified * 1000);
}

fn ints(values: &[i32]) -> ArrayRef {
    Arc::new(Int32Array::from(values.to_vec()))
}

fn longs(values: &[i64]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn texts(values: &[&str]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

#[test]
fn types_of_csv_become_wider_with_one_start_and_what_never_fits_is_rescued() {
    let disk = Disk::new();
    disk.write("in/1", "n\n1\n");
    let spec = widening()
        .format(FileFormat::Csv)
        .option("header", "true")
        .option("inferColumnTypes", "true");
    let mut query = Query::start(&disk, &spec).unwrap();
    assert_eq!(columns(&query), "n INT, _rescued_data STRING");
    disk.write("in/2", "n\n3000000000\n");
    disk.write("in/3", "n\noops\n");
    let (rows, starts) = run(&mut query, &spec);
    let oops = r#"_rescued_data={"n":"oops","_file_path":"sim:///in/3"}"#;
    assert_eq!((rows, starts), (vec!["n=1".into(), "n=3000000000".into(), oops.into()], 1));
    assert_eq!(columns(&query), "n BIGINT, _rescued_data STRING");
}

#[test]
fn types_are_not_wider_without_that_mode_and_hints_pin_them() {
    for (mode, hints) in [("addNewColumns", ""), ("addNewColumnsWithTypeWidening", "n INT")] {
        let disk = Disk::new();
        disk.write("in/1", "n\n1\n");
        let spec = Spec::auto()
            .format(FileFormat::Csv)
            .option("header", "true")
            .option("inferColumnTypes", "true")
            .option("schemaEvolutionMode", mode)
            .option("schemaHints", hints);
        let mut query = Query::start(&disk, &spec).unwrap();
        disk.write("in/2", "n\n3000000000\n");
        let (rows, starts) = run(&mut query, &spec);
        let rescued = r#"_rescued_data={"n":"3000000000","_file_path":"sim:///in/2"}"#;
        assert_eq!((rows, starts), (vec!["n=1".into(), rescued.into()], 0), "{mode}");
    }
}

#[test]
fn a_query_that_reads_other_columns_sees_wider_values_too() {
    let disk = Disk::new();
    parquet(&disk, "1", 1, vec![("a", ints(&[1])), ("b", texts(&["x"]))]);
    let spec = widening().format(FileFormat::Parquet);
    let mut query = Query::start(&disk, &spec).unwrap();
    assert_eq!(columns(&query), "a INT, b STRING, _rescued_data STRING");
    assert_eq!(query.batch().unwrap().unwrap(), ["a=1 b=x"]);
    parquet(&disk, "2", 2, vec![("a", longs(&[1 << 40])), ("b", texts(&["y"]))]);
    let range = query.plan(None).unwrap().unwrap();
    query.adopt(range.clone()).unwrap();
    let error = query.read_columns(&range, &[1]).unwrap_err();
    assert_eq!(error.condition(), Some("UNKNOWN_FIELD_EXCEPTION.NEW_FIELDS_IN_FILE"), "{error}");
    query.restart(&spec).unwrap();
    assert_eq!(columns(&query), "a BIGINT, b STRING, _rescued_data STRING");
    assert_eq!(query.read_columns(&range, &[1]).unwrap(), ["b=y"]);
    assert_eq!(query.read(&range).unwrap(), [format!("a={} b=y", 1i64 << 40)]);
    assert_eq!(
        query.read(&query.ranges[0]).unwrap(),
        ["a=1 b=x"],
        "old files are read as the new type"
    );
}

#[test]
fn columns_and_fields_of_parquet_are_added() {
    let disk = Disk::new();
    let inner = |columns: Vec<(&str, ArrayRef)>| -> ArrayRef {
        Arc::new(StructArray::try_from(columns).unwrap())
    };
    parquet(&disk, "1", 1, vec![("s", inner(vec![("x", ints(&[1]))]))]);
    let spec = Spec::auto().format(FileFormat::Parquet).option("maxFilesPerTrigger", "1");
    let mut query = Query::start(&disk, &spec).unwrap();
    let s = inner(vec![("x", ints(&[2])), ("y", texts(&["new"]))]);
    parquet(&disk, "2", 2, vec![("s", s), ("t", ints(&[7]))]);
    let (rows, starts) = run(&mut query, &spec);
    assert_eq!((rows.len(), starts), (2, 1), "{rows:?}");
    assert_eq!(columns(&query), "s STRUCT<x: INT, y: STRING>, t INT, _rescued_data STRING");
    assert_eq!(rows[1], "s={x: 2, y: new} t=7");
}

#[test]
fn what_parquet_has_no_column_for_is_rescued() {
    let disk = Disk::new();
    let inner: ArrayRef = Arc::new(
        StructArray::try_from(vec![("x", ints(&[1, 2])), ("more", texts(&["p", "q"]))]).unwrap(),
    );
    let columns = vec![
        ("a", texts(&["one", "two"])),
        ("s", inner),
        ("new", longs(&[5, 6])),
        ("B", ints(&[3, 4])),
    ];
    parquet(&disk, "f", 1, columns);
    let spec = Spec { auto: true, ..Spec::json("a INT, s STRUCT<x: INT>, b BIGINT, c DATE") }
        .format(FileFormat::Parquet)
        .option("rescuedDataColumn", "r");
    let mut query = Query::start(&disk, &spec).unwrap();
    let rows = query.batch().unwrap().unwrap();
    let row = |x: i32, b: i32, a: &str, more: &str, new: i64| {
        format!(
            "s={{x: {x}}} b={b} r={{\"a\":\"{a}\",\"s\":{{\"more\":\"{more}\"}},\"new\":{new},\
             \"_file_path\":\"sim:///in/f\"}}"
        )
    };
    assert_eq!(rows, [row(1, 3, "one", "p", 5), row(2, 4, "two", "q", 6)]);
    // A query that reads the column alone gets the same.
    let alone = query.read_columns(&query.ranges[0], &[4]).unwrap();
    assert!(rows.iter().zip(&alone).all(|(row, alone)| row.ends_with(alone)), "{alone:?}");
    assert_eq!(query.read_columns(&query.ranges[0], &[2]).unwrap(), ["b=3", "b=4"]);
}

#[test]
fn rows_of_parquet_are_numbered_in_their_file() {
    let disk = Disk::new();
    parquet(&disk, "1", 1, vec![("a", ints(&[10, 11, 12]))]);
    parquet(&disk, "2", 2, vec![("a", ints(&[20, 21]))]);
    let spec = Spec { metadata: true, ..Spec::json("a INT") }.format(FileFormat::Parquet);
    let rows = Query::start(&disk, &spec).unwrap().batch().unwrap().unwrap();
    let index = |row: &String| {
        let (_, text) = row.split_once("row_index: ").unwrap();
        text.trim_end_matches('}').to_owned()
    };
    assert_eq!(rows.iter().map(index).collect::<Vec<_>>(), ["0", "1", "2", "0", "1"]);
}

/// Bronze ingestion: a new column, a value of another type and a broken file in mid-stream.
#[test]
fn nothing_is_lost_in_mid_stream_and_nobody_has_to_help() {
    let disk = Disk::new();
    put(&disk, "1.json", &["{\"a\":1}"], 1);
    let spec = Spec::auto()
        .option("inferColumnTypes", "true")
        .option("ignoreCorruptFiles", "true")
        .option("badRecordsPath", "/bad")
        .option("maxFilesPerTrigger", "1");
    let mut query = Query::start(&disk, &spec).unwrap();
    put(&disk, "2.json", &["{\"a\":2,\"b\":\"x\"}"], 2);
    put(&disk, "3.json", &["{\"a\":\"oops\"}", "{\"a\":", "{\"a\":3}"], 3);
    disk.write("in/4.json.gz", vec![0x1f, 0x8b, 8, 0]);
    disk.set_modified("in/4.json.gz", 4000);
    put(&disk, "5.json", &["{\"a\":5}"], 5);
    let (rows, starts) = run(&mut query, &spec);
    let oops = r#"_rescued_data={"a":"oops","_file_path":"sim:///in/3.json"}"#;
    assert_eq!(
        (rows, starts),
        (["a=1", "a=2 b=x", oops, "a=3", "a=5"].map(String::from).to_vec(), 1)
    );
    assert_eq!(disk.paths_under("bad/").len(), 1);
}

/// Names are compared as the schema's growth compares them: not letter by letter of ASCII.
#[test]
fn a_column_of_parquet_in_another_case_is_no_new_one() {
    let disk = Disk::new();
    let inner = |columns: Vec<(&str, ArrayRef)>| -> ArrayRef {
        Arc::new(StructArray::try_from(columns).unwrap())
    };
    let first = vec![("é", ints(&[1])), ("s", inner(vec![("ö", ints(&[1]))]))];
    parquet(&disk, "1", 1, first);
    let spec = Spec::auto().format(FileFormat::Parquet).option("maxFilesPerTrigger", "1");
    let mut query = Query::start(&disk, &spec).unwrap();
    parquet(&disk, "2", 2, vec![("É", ints(&[2])), ("S", inner(vec![("Ö", ints(&[3]))]))]);
    let (rows, starts) = run(&mut query, &spec);
    assert_eq!((rows, starts), (vec!["é=1 s={ö: 1}".into(), "é=2 s={ö: 3}".into()], 0));
}

/// Each of several splits meets the new column; the first one adds it.
#[test]
fn all_parts_of_a_batch_say_that_the_schema_has_grown() {
    let disk = Disk::new();
    put(&disk, "1", &["{\"a\":1}"], 1);
    let spec = Spec::auto();
    let mut query = Query::start(&disk, &spec).unwrap();
    assert_eq!(query.batch().unwrap().unwrap(), ["a=1"]);
    put(&disk, "2", &["{\"a\":2,\"b\":3}"], 2);
    let range = query.plan(None).unwrap().unwrap();
    query.adopt(range.clone()).unwrap();
    for part in ["first", "second"] {
        let error = query.read(&range).unwrap_err();
        let condition = Some("UNKNOWN_FIELD_EXCEPTION.NEW_FIELDS_IN_FILE");
        assert_eq!(error.condition(), condition, "{part}: {error}");
    }
    query.restart(&spec).unwrap();
    assert_eq!(query.read(&range).unwrap(), ["a=2 b=3"]);
}
