//! Auto Loaders of sessions: what the session gives them.

use crate::clock::ManualClock;
use crate::names::lines;
use fluvial::{NewsInProcess, Session, StreamingDataFrame, StreamingQuery, Trigger};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);

fn put(folder: &Path, n: i64) {
    fs::write(folder.join(format!("{n}.json")), format!("{{\"v\":{n}}}\n")).unwrap();
}

/// A query of an Auto Loader over `in`, into the table `rows` in memory or files in `out`.
async fn start(
    session: &Session,
    folder: &Path,
    sink: &str,
    options: &[(&str, &str)],
    trigger: Trigger,
) -> StreamingQuery {
    let mut reader = session.read_stream().format("cloudFiles").option("cloudFiles.format", "json");
    for (name, value) in options {
        reader = reader.option(format!("cloudFiles.{name}"), *value);
    }
    let stream = reader.schema("v BIGINT").load(folder.join("in").display().to_string());
    let writer = stream.await.unwrap().write_stream().unwrap().trigger(trigger);
    let checkpoint = folder.join("checkpoint").display().to_string();
    let out = folder.join("out").display().to_string();
    let started = match sink {
        "memory" => writer.format(sink).query_name("rows").start().await,
        _ => writer.format(sink).option("checkpointLocation", checkpoint).start_at(out).await,
    };
    started.unwrap()
}

async fn rows(session: &Session) -> Vec<String> {
    let frame = session.sql("SELECT v FROM rows").await.unwrap();
    lines(&frame.collect().await.unwrap())
}

#[tokio::test]
async fn files_that_are_told_of_are_read_and_others_at_the_next_backfill() {
    let (folder, other) = (tempfile::tempdir().unwrap(), Arc::new(NewsInProcess::default()));
    let input = folder.path().join("in");
    fs::create_dir(&input).unwrap();
    put(&input, 1);
    let (clock, news) = (Arc::new(ManualClock::at(0)), Arc::new(NewsInProcess::default()));
    let root = format!("file://{}", folder.path().display());
    let session = Session::builder()
        .clock(clock.clone())
        .file_notifications("file:///", other.clone())
        .file_notifications(root.clone(), news.clone())
        .build()
        .unwrap();
    let options = [("useNotifications", "true"), ("backfillInterval", "1 day")];
    let trigger = Trigger::ProcessingTime(Duration::from_secs(1));
    let query = start(&session, folder.path(), "memory", &options, trigger).await;
    clock.asleep().await;
    assert_eq!(rows(&session).await, ["1"], "a start looks at everything");
    put(&input, 2);
    put(&input, 3);
    other.tell(format!("{root}/in/3.json"));
    news.tell(format!("{root}/in/2.json"));
    clock.advance(Duration::from_secs(1)).await;
    clock.advance(Duration::from_secs(1)).await;
    assert_eq!(rows(&session).await, ["1", "2"], "nobody near told of the other");
    clock.advance(DAY).await;
    clock.advance(Duration::from_secs(1)).await;
    assert_eq!(rows(&session).await, ["1", "2", "3"]);
    query.stop().await.unwrap();
}

#[tokio::test]
async fn files_are_moved_when_they_were_kept_long_enough() {
    let folder = tempfile::tempdir().unwrap();
    let (input, done) = (folder.path().join("in"), folder.path().join("done"));
    fs::create_dir(&input).unwrap();
    let destination = done.display().to_string();
    let options = [
        ("cleanSource", "MOVE"),
        ("cleanSource.moveDestination", destination.as_str()),
        ("cleanSource.retentionDuration", "3 days"),
    ];
    // Each run has a batch of one file, and lets go of what is older than the batch before.
    for (day, left) in [(0, 1), (1, 2), (2, 3), (4, 2), (5, 2)] {
        put(&input, day);
        let clock = ManualClock::at(day * DAY.as_millis() as i64);
        let session = Session::builder().clock(Arc::new(clock)).build().unwrap();
        session.set("batches.retained", "2").unwrap();
        let query = start(&session, folder.path(), "json", &options, Trigger::AvailableNow).await;
        query.await_termination().await.unwrap();
        assert!(query.warnings().is_empty(), "{:?}", query.warnings());
        assert_eq!(fs::read_dir(&input).unwrap().count(), left, "day {day}");
    }
}

#[tokio::test]
async fn rows_of_parquet_know_their_number_in_their_file() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in");
    fs::create_dir(&input).unwrap();
    fs::write(input.join("a.json"), "{\"v\":7}\n{\"v\":8}\n{\"v\":9}\n").unwrap();
    let session = Session::new().unwrap();
    let query = start(&session, folder.path(), "parquet", &[], Trigger::AvailableNow).await;
    query.await_termination().await.unwrap();
    let out = folder.path().join("out").display().to_string();
    let source = format!("STREAM read_files('{out}', format => 'parquet', schema => 'v BIGINT')");
    let sql = format!("SELECT v, _metadata.row_index AS at FROM {source} WHERE v > 7");
    let query = session.sql(&sql).await.unwrap().write_stream().unwrap();
    let query = query.format("memory").query_name("rows").trigger(Trigger::AvailableNow);
    query.start().await.unwrap().await_termination().await.unwrap();
    let frame = session.sql("SELECT v, at FROM rows").await.unwrap();
    assert_eq!(lines(&frame.collect().await.unwrap()), ["8 1", "9 2"]);
    let lines = format!("STREAM read_files('{}', format => 'json')", input.display());
    let refused = session.sql(&format!("SELECT _metadata.row_index FROM {lines}")).await;
    let error = refused.err().unwrap();
    assert!(error.message().contains("row_index"), "lines are not numbered: {error}");
}
