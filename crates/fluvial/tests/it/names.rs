//! Columns that are hidden, columns that differ in case, and the zone that times are read in.

use fluvial::arrow::array::RecordBatch;
use fluvial::arrow::util::pretty::pretty_format_batches;
use fluvial::datafusion::prelude::DataFrame;
use fluvial::sql::parse_script;
use fluvial::{OutputMode, ScriptOptions, Session, StreamingDataFrame, Trigger};
use std::path::Path;

fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

pub(crate) fn lines(rows: &[RecordBatch]) -> Vec<String> {
    let table = pretty_format_batches(rows).unwrap().to_string();
    let cells = |line: &str| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        cells.join(" ")
    };
    let mut rows: Vec<String> =
        table.lines().filter(|l| l.starts_with('|')).skip(1).map(cells).collect();
    rows.sort();
    rows
}

async fn rows(frame: DataFrame) -> Vec<String> {
    lines(&frame.collect().await.unwrap())
}

async fn select(session: &Session, sql: &str) -> Vec<String> {
    rows(session.sql(sql).await.unwrap()).await
}

/// What a stream gives, through a memory table.
async fn streamed(session: &Session, frame: DataFrame, mode: OutputMode) -> Vec<String> {
    let query = frame
        .write_stream()
        .unwrap()
        .format("memory")
        .query_name("streamed")
        .output_mode(mode)
        .trigger(Trigger::AvailableNow)
        .start()
        .await
        .unwrap();
    query.await_termination().await.unwrap();
    select(session, "SELECT * FROM streamed").await
}

#[tokio::test]
async fn metadata_is_there_for_who_names_it() {
    let input = folder(&[("a.json", "{\"v\":1}\n{\"v\":2}\n"), ("b.json", "{\"v\":3}\n")]);
    let session = Session::new().unwrap();
    let source =
        format!("STREAM read_files('{}', format => 'json', schema => 'v INT')", text(input.path()));
    let plain = session.sql(&format!("SELECT * FROM {source}")).await.unwrap();
    assert_eq!(plain.schema().fields().len(), 1, "nobody asked for it");
    let named = format!("SELECT *, _metadata.file_name AS f FROM {source} WHERE v > 1");
    let frame = session.sql(&named).await.unwrap();
    assert_eq!(streamed(&session, frame, OutputMode::Append).await, ["2 a.json", "3 b.json"]);
    let grouped =
        format!("SELECT s._METADATA.file_name AS f, count(*) AS n FROM {source} AS s GROUP BY 1");
    let frame = session.sql(&grouped).await.unwrap();
    assert_eq!(streamed(&session, frame, OutputMode::Complete).await, ["a.json 2", "b.json 1"]);
}

#[tokio::test]
async fn input_file_name_is_the_path_in_metadata() {
    let input = folder(&[("a.json", "{\"v\":1}\n"), ("b.json", "{\"v\":3}\n")]);
    let session = Session::new().unwrap();
    let source =
        format!("STREAM read_files('{}', format => 'json', schema => 'v INT')", text(input.path()));
    let named =
        format!("SELECT v, Input_File_Name() FROM {source} WHERE input_file_name() LIKE '%b.json'");
    let frame = session.sql(&named).await.unwrap();
    assert_eq!(frame.schema().field(1).name(), "input_file_name()");
    let rows = streamed(&session, frame, OutputMode::Append).await;
    assert!(rows.len() == 1 && rows[0].starts_with("3 file://"), "{rows:?}");
    assert!(rows[0].ends_with("/b.json"), "{rows:?}");
}

#[tokio::test]
async fn metadata_works_in_rust_and_for_tables_too() {
    let input = folder(&[("a.json", "{\"v\":1}\n")]);
    let session = Session::new().unwrap();
    let path = text(input.path());
    let stream = session.read_stream().schema("v INT").json(&*path).await.unwrap();
    let name = session.expr("_metadata.file_name AS f", &stream).unwrap();
    let frame = session.select(stream.clone(), vec![name]).unwrap();
    assert_eq!(streamed(&session, frame, OutputMode::Append).await, ["a.json"]);
    let whole = stream.with_file_metadata().unwrap();
    assert_eq!(whole.schema().fields().len(), 2);
    let table = format!("read_files('{path}', format => 'json')");
    let size = format!("SELECT v, _metadata.file_size FROM {table}");
    assert_eq!(select(&session, &size).await, ["1 8"]);
    let rate = session.read_stream().format("rate").load_options().await.unwrap();
    let refused = rate.with_file_metadata().unwrap_err();
    assert_eq!(refused.condition(), Some("UNRESOLVED_COLUMN"));
}

#[tokio::test]
async fn names_that_differ_in_case_are_two_if_asked_for() {
    let input = folder(&[("a.json", "{\"k\":\"x\",\"K\":\"y\"}\n")]);
    let session = Session::new().unwrap();
    let source = format!(
        "read_files('{}', format => 'json', schema => 'k STRING, K STRING')",
        text(input.path())
    );
    let refused = session.sql(&format!("SELECT k FROM {source}")).await.unwrap_err();
    assert_eq!(refused.condition(), Some("COLUMN_ALREADY_EXISTS"));
    session.set("spark.sql.caseSensitive", "true").unwrap();
    assert_eq!(select(&session, &format!("SELECT K, k FROM {source}")).await, ["y x"]);
    let one = "SELECT k FROM (SELECT 1 AS K) t";
    let refused = session.sql(one).await.unwrap_err();
    assert_eq!(refused.condition(), Some("UNRESOLVED_COLUMN.WITH_SUGGESTION"), "{refused}");
    let field = "SELECT named_struct('a', 1).A";
    assert!(session.sql(field).await.is_err());
    session.set("case.sensitive", "false").unwrap();
    assert_eq!(select(&session, one).await, ["1"]);
    assert_eq!(select(&session, field).await, ["1"]);
}

#[tokio::test]
async fn times_without_a_zone_are_in_that_of_the_session() {
    let json = folder(&[(
        "a.json",
        "{\"t\":\"2026-07-01 12:00:00\"}\n{\"t\":\"2026-07-01T12:00:00Z\"}\n",
    )]);
    let csv = folder(&[("a.csv", "2026-07-01 12:00:00\n2026-07-01T12:00:00Z\n")]);
    let session = Session::new().unwrap();
    let schema = "schema => 't TIMESTAMP'";
    let unix = |format: &str, input: &tempfile::TempDir| {
        format!(
            "SELECT unix_timestamp(t) AS s FROM read_files('{}', format => '{format}', {schema})",
            text(input.path())
        )
    };
    let noon = "1782907200";
    assert_eq!(select(&session, &unix("json", &json)).await, [noon, noon]);
    let set = parse_script("SET timezone = 'Europe/Berlin'").unwrap();
    session.execute(&set[0], &ScriptOptions::default()).await.unwrap();
    for (format, input) in [("json", &json), ("csv", &csv)] {
        let berlin = select(&session, &unix(format, input)).await;
        assert_eq!(berlin, ["1782900000", noon], "{format}");
    }
    let literal = "SELECT unix_timestamp(timestamp '2026-07-01 12:00:00') AS s";
    assert_eq!(select(&session, literal).await, ["1782900000"]);
    session.set("spark.sql.session.timeZone", "UTC").unwrap();
    assert_eq!(select(&session, literal).await, [noon]);
    let own = format!(
        "SELECT unix_timestamp(t) AS s FROM read_files('{}', format => 'json', {schema}, timeZone => 'America/New_York')",
        text(json.path())
    );
    assert_eq!(select(&session, &own).await, [noon, "1782921600"]);
}
