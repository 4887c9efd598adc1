//! Schemas: created, evolved, refused.

use crate::table::{drive, load, location, memory, numbers, opened, publish, read, spec};
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, Date32Array, Decimal128Array, Int32Array,
    Int64Builder, ListArray, MapBuilder, RecordBatch, StringBuilder, StringViewArray, StructArray,
    TimestampMicrosecondArray, TimestampMillisecondArray, UInt64Array,
};
use arrow::datatypes::{DataType, Field, Int64Type};
use fluvial_core::options::Options;
use fluvial_core::{Error, OutputMode, Sink};
use fluvial_delta::{DeltaOptions, DeltaSink};
use object_store::ObjectStore;
use std::sync::Arc;

fn rows(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, c)| (n, c, true)))
        .unwrap()
}

fn ints(values: &[i32]) -> ArrayRef {
    Arc::new(Int32Array::from(values.to_vec()))
}

fn words(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringViewArray::from(values.to_vec()))
}

async fn refused(
    store: &Arc<dyn ObjectStore>,
    options: DeltaOptions,
    mode: OutputMode,
    rows: &RecordBatch,
) -> Error {
    let sink = DeltaSink::new(location(store), options);
    sink.open(&spec("q", mode, rows.schema())).await.unwrap_err()
}

#[test]
fn a_new_table_has_delta_types_and_takes_arrow_s() {
    let store = memory();
    drive(async {
        let times = TimestampMillisecondArray::from(vec![1_500]).with_timezone("Europe/Berlin");
        let rows = rows(vec![("word", words(&[Some("x")])), ("at", Arc::new(times))]);
        let (sink, _) = opened(&store, "q", OutputMode::Append, &rows).await;
        publish(&sink, 0, &rows).await.unwrap();
        let read = read(&store).await;
        assert_eq!(read[0].column(0).as_string::<i32>().value(0), "x");
        let micros = arrow::compute::cast(read[0].column(1), &DataType::Int64).unwrap();
        assert_eq!(micros.as_primitive::<Int64Type>().value(0), 1_500_000);
        let schema = load(&store).await.snapshot().unwrap().snapshot().arrow_schema();
        assert!(schema.fields().iter().all(|field| field.is_nullable()));
    });
}

#[test]
fn every_kind_of_value_comes_back() {
    let store = memory();
    drive(async {
        let mut map = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
        map.keys().append_value("x");
        map.values().append_value(1);
        map.append(true).unwrap();
        let list = ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(1), None])]);
        let field = Arc::new(Field::new("list", list.data_type().clone(), true));
        let decimal = Decimal128Array::from(vec![12345]).with_precision_and_scale(10, 2).unwrap();
        let rows = rows(vec![
            ("local", Arc::new(TimestampMicrosecondArray::from(vec![-1]))),
            ("unsigned", Arc::new(UInt64Array::from(vec![u64::MAX]))),
            ("decimal", Arc::new(decimal)),
            ("day", Arc::new(Date32Array::from(vec![-1]))),
            ("bytes", Arc::new(BinaryViewArray::from(vec![&b"\xff"[..]]))),
            ("map", Arc::new(map.finish())),
            ("nested", Arc::new(StructArray::from(vec![(field, Arc::new(list) as ArrayRef)]))),
        ]);
        let (sink, _) = opened(&store, "q", OutputMode::Append, &rows).await;
        publish(&sink, 0, &rows).await.unwrap();
        let read = read(&store).await;
        let shown = arrow::util::pretty::pretty_format_batches(&read).unwrap().to_string();
        let line = shown.lines().nth(3).unwrap().replace(' ', "");
        assert_eq!(
            line,
            "|1969-12-31T23:59:59.999999|18446744073709551615|123.45|1969-12-31|ff|{x:1}|\
             {list:[1,]}|"
        );
        let table = load(&store).await;
        assert_eq!(table.snapshot().unwrap().protocol().min_writer_version(), 7);
    });
}

#[test]
fn partitions_become_folders_and_special_values_come_back() {
    let store = memory();
    drive(async {
        let values = [None, Some("x/y"), Some("a b"), Some("50%"), Some("k=v"), Some("é")];
        let rows = rows(vec![("p", words(&values)), ("v", ints(&[0, 1, 2, 3, 4, 5]))]);
        let options = DeltaOptions { partition_by: vec!["P".into()], ..DeltaOptions::default() };
        let sink = DeltaSink::new(location(&store), options);
        sink.open(&spec("q", OutputMode::Append, rows.schema())).await.unwrap();
        publish(&sink, 0, &rows).await.unwrap();
        let provider =
            fluvial_delta::table_provider(&location(&store), Default::default()).await.unwrap();
        let session = datafusion::prelude::SessionContext::new();
        load(&store).await.update_datafusion_session(&session.state()).unwrap();
        session.register_table("t", provider).unwrap();
        let found = session.sql("SELECT p, v FROM t ORDER BY v").await.unwrap();
        let found = found.collect().await.unwrap();
        let found = arrow::compute::concat_batches(&found[0].schema(), &found).unwrap();
        let column = arrow::compute::cast(found.column(0), &DataType::Utf8).unwrap();
        let column = column.as_string::<i32>();
        let got: Vec<_> = column.iter().collect();
        assert_eq!(got, values);
    });
}

#[test]
fn rows_that_do_not_fit_are_refused_with_the_names_of_the_columns() {
    let store = memory();
    drive(async {
        opened(&store, "q", OutputMode::Append, &numbers(&[])).await;
        let wrong = rows(vec![("value", words(&[]))]);
        let error = refused(&store, DeltaOptions::default(), OutputMode::Append, &wrong).await;
        assert_eq!(error.condition(), Some("DELTA_SCHEMA_MISMATCH"));
        assert!(error.message().contains("\"value\""), "{error}");
        let more = rows(vec![("value", ints(&[])), ("extra", ints(&[]))]);
        let error = refused(&store, DeltaOptions::default(), OutputMode::Append, &more).await;
        assert!(error.message().contains("\"extra\""), "{error}");
        assert!(error.message().contains("mergeSchema"), "{error}");
    });
}

#[test]
fn merge_schema_adds_columns_and_old_rows_have_nulls() {
    let store = memory();
    drive(async {
        let (old, _) = opened(&store, "old", OutputMode::Append, &numbers(&[])).await;
        publish(&old, 0, &numbers(&[1])).await.unwrap();
        let more = rows(vec![("extra", words(&[Some("e")])), ("value", ints(&[2]))]);
        let options = DeltaOptions { merge_schema: true, ..DeltaOptions::default() };
        let new = DeltaSink::new(location(&store), options);
        new.open(&spec("new", OutputMode::Append, more.schema())).await.unwrap();
        publish(&new, 0, &more).await.unwrap();
        // A writer that opened before goes on: its rows lack the new column.
        publish(&old, 1, &numbers(&[3])).await.unwrap();
        let provider =
            fluvial_delta::table_provider(&location(&store), Default::default()).await.unwrap();
        let session = datafusion::prelude::SessionContext::new();
        load(&store).await.update_datafusion_session(&session.state()).unwrap();
        session.register_table("t", provider).unwrap();
        let query = "SELECT count(*), count(extra), sum(value) FROM t";
        let found = session.sql(query).await.unwrap().collect().await.unwrap();
        let cell = |i: usize| found[0].column(i).as_primitive::<Int64Type>().value(0);
        assert_eq!((cell(0), cell(1), cell(2)), (3, 1, 6));
    });
}

#[test]
fn properties_are_kept_and_obeyed() {
    let store = memory();
    drive(async {
        let options = Options::new([("delta.appendOnly", "true"), ("mergeSchema", "false")]);
        let options = DeltaOptions::parse(options, Vec::new()).unwrap();
        let sink = DeltaSink::new(location(&store), options.clone());
        sink.open(&spec("q", OutputMode::Append, numbers(&[]).schema())).await.unwrap();
        publish(&sink, 0, &numbers(&[1])).await.unwrap();
        let error = refused(&store, options, OutputMode::Complete, &numbers(&[])).await;
        assert_eq!(error.condition(), Some("DELTA_CANNOT_MODIFY_APPEND_ONLY"));
    });
}

#[test]
fn what_a_table_cannot_be_is_refused() {
    let partitioned = |by: &[&str]| DeltaOptions {
        partition_by: by.iter().map(ToString::to_string).collect(),
        ..DeltaOptions::default()
    };
    let plain = DeltaOptions::default;
    drive(async {
        let (append, update) = (OutputMode::Append, OutputMode::Update);
        let two = rows(vec![("a", ints(&[])), ("b", ints(&[]))]);
        let blank = rows(vec![("a b", ints(&[]))]);
        for (options, mode, rows, condition) in [
            (partitioned(&["nope"]), append, &two, "PARTITION_COLUMN_NOT_FOUND"),
            (partitioned(&["a", "b"]), append, &two, "ALL_PARTITION_COLUMNS_NOT_ALLOWED"),
            (plain(), append, &blank, "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"),
            (plain(), update, &two, "STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE"),
        ] {
            let error = refused(&memory(), options, mode, rows).await;
            assert_eq!(error.condition(), Some(condition), "{error}");
        }
        let store = memory();
        opened(&store, "q", append, &two).await;
        let error = refused(&store, partitioned(&["a"]), append, &two).await;
        assert_eq!(error.condition(), Some("DELTA_PARTITION_MISMATCH"));
    });
    let unknown = Options::new([("mergeShema", "true")]);
    let error = DeltaOptions::parse(unknown, Vec::new()).unwrap_err();
    assert!(error.message().contains("mergeSchema"), "{error}");
}
