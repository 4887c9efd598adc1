//! Tables beside streams: reading and writing once, and a catalog that lasts.

use crate::golden::text;
use fluvial::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use fluvial::prelude::*;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

fn session(folder: &Path) -> Session {
    Session::builder().base_dir(folder).warehouse("house").build().unwrap()
}

fn rows(ids: &[i64]) -> RecordBatch {
    let names = ids.iter().map(|id| format!("n{id}")).collect::<Vec<_>>();
    let columns: [(&str, ArrayRef); 2] = [
        ("id", Arc::new(Int64Array::from(ids.to_vec()))),
        ("name", Arc::new(StringArray::from(names))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

async fn sql(session: &Session, query: &str) -> Vec<Vec<String>> {
    text(&session.sql(query).await.unwrap().collect().await.unwrap())
}

#[tokio::test]
async fn saved_tables_are_found_by_the_next_session() {
    let folder = TempDir::new().unwrap();
    let first = session(folder.path());
    let save = |session: Session, mode: SaveMode, ids: &'static [i64]| async move {
        let frame = session.create_dataframe(vec![rows(ids)]).unwrap();
        frame.write().unwrap().mode(mode).save_as_table("web.people").await.unwrap();
    };
    save(first.clone(), SaveMode::Append, &[1, 2]).await;
    save(first.clone(), SaveMode::Append, &[3]).await;
    let query = "SELECT id, name FROM web.people ORDER BY id";
    assert_eq!(sql(&first, query).await, [["1", "n1"], ["2", "n2"], ["3", "n3"]]);
    first.stop().await.unwrap();
    drop(first);

    let second = session(folder.path());
    assert_eq!(sql(&second, "SELECT count(*) FROM web.people").await, [["3"]]);
    save(second.clone(), SaveMode::Overwrite, &[7]).await;
    assert_eq!(sql(&second, query).await, [["7", "n7"]]);
    assert_eq!(second.table("web.people").await.unwrap().count().await.unwrap(), 1);
    assert!(folder.path().join("house/web/people/_delta_log").is_dir());
}

#[tokio::test]
async fn a_streaming_table_is_found_by_the_next_session() {
    let folder = TempDir::new().unwrap();
    let first = session(folder.path());
    let ticks = first.read_stream().format("rate-micro-batch").option("rowsPerBatch", 4);
    let writer = ticks.load_options().await.unwrap().write_stream().unwrap();
    let writer = writer.trigger(Trigger::Once).option("checkpointLocation", "cp");
    writer.to_table("ticks").await.unwrap().await_termination().await.unwrap();
    drop(first);
    let second = session(folder.path());
    assert_eq!(sql(&second, "SELECT sum(value) FROM ticks").await, [["6"]]);
}

#[tokio::test]
async fn files_are_read_once_in_every_format() {
    let folder = TempDir::new().unwrap();
    let session = session(folder.path());
    let land = |name: &str, text: &str| {
        fs::create_dir_all(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join("a"), text).unwrap();
    };
    land("json", "{\"id\": 1}\n{\"id\": 2}\n");
    land("csv", "id\n1\n2\n");
    land("text", "1\n2\n");
    let frame = session.create_dataframe(vec![rows(&[1, 2])]).unwrap();
    frame.write().unwrap().format("parquet").save("parquet").await.unwrap();
    for format in ["json", "csv", "text", "parquet"] {
        let reader = session.read().format(format);
        let reader = if format == "csv" { reader.option("header", true) } else { reader };
        let column = if format == "text" { "value" } else { "id" };
        let frame = reader.load(format).await.unwrap().select_columns(&[column]).unwrap();
        let found = text(&frame.sort_by(vec![col(column)]).unwrap().collect().await.unwrap());
        assert_eq!(found, [["1"], ["2"]], "{format}");
    }
}

/// Lines with names at the top would become rows of a table that is read without them.
#[tokio::test]
async fn a_table_of_files_keeps_the_options_that_it_is_read_with() {
    let folder = TempDir::new().unwrap();
    let session = session(folder.path());
    let run = async |options: &[(&str, &str)]| {
        let ticks = session.read_stream().format("rate-micro-batch").option("rowsPerBatch", 1);
        let writer = ticks.load_options().await.unwrap().write_stream().unwrap().format("csv");
        let mut writer = writer.trigger(Trigger::Once).option("checkpointLocation", "cp");
        for (name, value) in options {
            writer = writer.option(*name, *value);
        }
        writer.to_table("t").await?.await_termination().await
    };
    run(&[("sep", ",")]).await.unwrap();
    for other in [("header", "true"), ("sep", ";"), ("delimiter", ";")] {
        let error = run(&[other]).await.unwrap_err();
        assert_eq!(error.condition(), Some("TABLE_OR_VIEW_ALREADY_EXISTS"), "{error}");
        assert!(error.message().contains(other.1), "{error}");
    }
    run(&[("header", "FALSE"), ("delimiter", ",")]).await.unwrap();
    assert_eq!(sql(&session, "SELECT count(*) FROM t").await, [["2"]]);
}

/// JSON in CSV has backslashes before quotes, and texts may have ends of lines.
#[tokio::test]
async fn a_table_of_csv_is_read_as_it_was_written() {
    let folder = TempDir::new().unwrap();
    let session = session(folder.path());
    let values =
        ["plain", "a\\b", "say \"x\", y", "a\\\"b,", "\\", "two\nlines", " z ", "#c", "'q'"];
    let numbers = ["1.5", "Infinity", "-Infinity", "NaN", "-0.0", "1e300", "0.1", "2.0", "3.0"];
    let union = values.iter().zip(numbers).map(|(value, number)| {
        let value = value.replace('\\', "\\\\").replace('\'', "\\'").replace('\n', "\\n");
        format!("SELECT '{value}' AS v, CAST('{number}' AS DOUBLE) AS d")
    });
    let query = union.collect::<Vec<_>>().join(" UNION ALL ");
    let expected = sql(&session, &query).await;
    assert!(values.iter().all(|value| expected.iter().any(|row| row[0] == *value)), "{expected:?}");
    let forms: [&[(&str, &str)]; 4] = [
        &[],
        &[("header", "true"), ("escape", "\\")],
        &[("quote", "'"), ("sep", ";"), ("header", "true")],
        &[("quote", "'"), ("escape", "\""), ("quoteAll", "true"), ("sep", "\\t")],
    ];
    for (n, options) in forms.into_iter().enumerate() {
        let frame = session.sql(&query).await.unwrap();
        let mut writer = frame.write().unwrap().format("csv");
        for (name, value) in options {
            writer = writer.option(*name, *value);
        }
        writer.save_as_table(&format!("t{n}")).await.unwrap();
        let header = options.contains(&("header", "true"));
        let (v, d) = if header { ("v", "d") } else { ("_c0", "_c1") };
        let read = format!("SELECT {v}, CAST({d} AS DOUBLE) FROM t{n}");
        let (mut found, mut expected) = (sql(&session, &read).await, expected.clone());
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{options:?}");
    }
}

#[tokio::test]
async fn folders_of_times_are_written_and_read_in_the_session_s_zone() {
    let folder = TempDir::new().unwrap();
    let session = session(folder.path());
    session.set("timezone", "Europe/Berlin").unwrap();
    for format in ["parquet", "json"] {
        let frame =
            session.sql("SELECT timestamp_seconds(1767225660) AS at, 1 AS v").await.unwrap();
        let writer = frame.write().unwrap().format(format).partition_by(["at"]);
        writer.save(format).await.unwrap();
        assert!(folder.path().join(format).join("at=2026-01-01 01%3A01%3A00").is_dir());
        let read =
            format!("SELECT unix_timestamp(at) FROM read_files('{format}', format => '{format}')");
        assert_eq!(sql(&session, &read).await, [["1767225660"]], "{format}");
    }
}
