//! Delta tables as streams: a table, windows over what is added to it, another table.

use crate::golden::text;
use fluvial::arrow::array::{ArrayRef, RecordBatch, StringArray, TimestampMicrosecondArray};
use fluvial::prelude::*;
use fluvial::sql::parse_script;
use fluvial::{Executed, ScriptOptions};
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

fn session(folder: &Path) -> Session {
    Session::builder().base_dir(folder).warehouse("house").build().unwrap()
}

/// Events at these minutes.
fn events(minutes: &[i64]) -> RecordBatch {
    let times: Vec<_> = minutes.iter().map(|minute| minute * 60_000_000).collect();
    let pages = minutes.iter().map(|minute| if minute % 2 == 0 { "even" } else { "odd" });
    let columns: [(&str, ArrayRef); 2] = [
        ("page", Arc::new(StringArray::from_iter_values(pages))),
        ("at", Arc::new(TimestampMicrosecondArray::from(times).with_timezone("UTC"))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

async fn append(session: &Session, minutes: &[i64]) {
    let frame = session.create_dataframe(vec![events(minutes)]).unwrap();
    frame.write().unwrap().save_as_table("events").await.unwrap();
}

async fn sql(session: &Session, query: &str) -> Vec<Vec<String>> {
    text(&session.sql(query).await.unwrap().collect().await.unwrap())
}

/// Views per ten minutes and page, of all that is there.
async fn count_views(session: &Session) {
    let frame = session.read_stream().option("maxFilesPerTrigger", 1).table("events").await;
    let frame = frame.unwrap().with_watermark("at", "5 minutes").unwrap();
    let frame = frame.group_by(vec![window(col("at"), "10 minutes").alias("w"), col("page")]);
    let frame = frame.agg(vec![count(lit(1)).alias("views")]).unwrap();
    let writer = frame.write_stream().unwrap().trigger(Trigger::AvailableNow);
    let writer = writer.option("checkpointLocation", "checkpoints/views");
    writer.to_table("views").await.unwrap().await_termination().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn windows_over_a_table_go_into_a_table_and_on_after_restarts() {
    let folder = TempDir::new().unwrap();
    let query = "SELECT minute(w.start), page, views FROM views ORDER BY 1, 2";
    for (minutes, expected) in [
        (&[1, 2, 3, 12][..], vec![]),
        (&[4, 24], vec![vec!["0", "even", "2"], vec!["0", "odd", "2"]]),
        (
            &[26, 41],
            vec![
                vec!["0", "even", "2"],
                vec!["0", "odd", "2"],
                vec!["10", "even", "1"],
                vec!["20", "even", "2"],
            ],
        ),
    ] {
        // Every turn is a process of its own.
        let session = session(folder.path());
        append(&session, minutes).await;
        count_views(&session).await;
        assert_eq!(sql(&session, query).await, expected, "after {minutes:?}");
        session.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sql_reads_tables_as_streams_by_name_and_by_place() {
    let folder = TempDir::new().unwrap();
    let session = session(folder.path());
    append(&session, &[1, 2]).await;
    append(&session, &[3]).await;
    let place = folder.path().join("house/default/events");
    for (table, from) in [
        ("by_name", "STREAM events".to_owned()),
        ("by_place", format!("STREAM delta.`{}`", place.display())),
    ] {
        let script = format!("CREATE STREAMING TABLE {table} AS SELECT page FROM {from}");
        let options = ScriptOptions {
            checkpoints: Some("checkpoints".into()),
            trigger: Some(Trigger::AvailableNow),
        };
        for statement in parse_script(&script).unwrap() {
            match session.execute(&statement, &options).await.unwrap() {
                Executed::Query(_, query) => query.await_termination().await.unwrap(),
                _ => unreachable!("it starts a query"),
            }
        }
        assert_eq!(sql(&session, &format!("SELECT count(*) FROM {table}")).await, [["3"]]);
    }
    let all = format!("SELECT count(*) FROM delta.`{}`", place.display());
    assert_eq!(sql(&session, &all).await, [["3"]]);
}

#[tokio::test]
async fn what_is_no_delta_table_or_no_option_is_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let session = session(folder.path());
    append(&session, &[1]).await;
    let condition = |result: fluvial::Result<DataFrame>| {
        result.err().and_then(|e| e.condition().map(str::to_owned)).unwrap_or_default()
    };
    let stream = || session.read_stream();
    assert_eq!(condition(stream().table("event").await), "TABLE_OR_VIEW_NOT_FOUND");
    let typo = stream().option("startingVersoin", 1).table("events").await;
    assert_eq!(condition(typo), "UNKNOWN_OPTION");
    let frame = session.create_dataframe(vec![events(&[1])]).unwrap();
    frame.write().unwrap().format("parquet").save_as_table("files").await.unwrap();
    let files = stream().table("files").await;
    assert_eq!(condition(files), "STREAMING_TABLE_READ_NOT_SUPPORTED_YET");
    let nothing = stream().format("delta").load("nowhere").await;
    assert_eq!(condition(nothing), "DELTA_TABLE_NOT_FOUND");
}

#[tokio::test]
async fn an_older_version_is_read_by_number() {
    let folder = TempDir::new().unwrap();
    let session = session(folder.path());
    append(&session, &[1]).await;
    append(&session, &[2]).await;
    let place = "house/default/events";
    for (version, rows) in [("0", 0), ("1", 1), ("2", 2)] {
        let reader = session.read().option("versionAsOf", version);
        assert_eq!(reader.delta(place).await.unwrap().count().await.unwrap(), rows);
    }
    let error = session.read().option("versionAsOf", 9).delta(place).await.unwrap_err();
    assert_eq!(error.condition(), Some("DELTA_VERSION_NOT_FOUND"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_track_their_columns_share_no_folder() {
    let folder = TempDir::new().unwrap();
    let session = session(folder.path());
    append(&session, &[1]).await;
    let one = "SELECT page FROM STREAM events WITH (schemaTrackingLocation = 'cp/a/schemas')";
    let two = format!("{one} UNION ALL {one}").replace("cp/a/", "cp/c/");
    let conflict = Some("DELTA_STREAMING_SCHEMA_LOCATION_CONFLICT");
    let elsewhere = Some("DELTA_STREAMING_SCHEMA_LOCATION_NOT_UNDER_CHECKPOINT");
    for (name, query, expected) in
        [("a", one, None), ("b", one, elsewhere), ("c", &two, conflict), ("a", one, None)]
    {
        let frame = session.sql(query).await.unwrap();
        let writer = frame.write_stream().unwrap().trigger(Trigger::AvailableNow);
        let writer = writer.option("checkpointLocation", format!("cp/{name}"));
        let ended = match writer.to_table(name).await {
            Ok(query) => query.await_termination().await,
            Err(error) => Err(error),
        };
        let condition = ended.as_ref().err().map(|error| error.condition().unwrap_or("none"));
        assert_eq!(condition, expected, "{name}: {ended:?}");
    }
}
