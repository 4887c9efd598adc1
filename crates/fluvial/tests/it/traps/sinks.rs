//! Sinks: group D of the page on traps, where no other file has it.

use crate::golden::text;
use fluvial::prelude::*;
use fluvial::{BatchId, Error};
use std::path::Path;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

fn session(folder: &Path) -> Session {
    Session::builder().base_dir(folder).warehouse("house").build().unwrap()
}

async fn save(session: &Session, rows: &str) {
    let frame = session.sql(&format!("SELECT * FROM (VALUES {rows}) AS r(k, v)")).await.unwrap();
    frame.write().unwrap().save_as_table("rows").await.unwrap();
}

/// Trap D16.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_is_read_twice_is_computed_once() {
    let folder = TempDir::new().unwrap();
    let session = session(folder.path());
    save(&session, "('a', 1), ('a', 2), ('b', 3)").await;
    let seen: Arc<Mutex<Vec<Vec<Vec<String>>>>> = Arc::default();
    let known = Arc::clone(&seen);
    let rows = session.read_stream().table("rows").await.unwrap();
    let counted = rows.group_by(vec![col("k")]).agg(vec![sum(col("v")).alias("v")]).unwrap();
    let writer = counted.write_stream().unwrap().output_mode(OutputMode::Update);
    let writer = writer.foreach_batch(move |batch: DataFrame, _: BatchId| {
        let known = Arc::clone(&known);
        async move {
            let count = batch.clone().count().await.map_err(fluvial::from_datafusion)?;
            assert_eq!(count, 2);
            for _ in 0..2 {
                let sorted = batch.clone().sort_by(vec![col("k")]).unwrap();
                let rows = sorted.collect().await.map_err(fluvial::from_datafusion)?;
                known.lock().unwrap().push(text(&rows));
            }
            Ok(())
        }
    });
    let writer = writer.option("checkpointLocation", "cp").trigger(Trigger::AvailableNow);
    let query = writer.start().await.unwrap();
    query.await_termination().await.unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|rows| *rows == [["a", "3"], ["b", "3"]]), "{seen:?}");
    let progress = query.recent_progress();
    assert_eq!(progress.iter().map(|batch| batch.num_input_rows).sum::<u64>(), 3);
    let updated = progress.iter().flat_map(|batch| &batch.state_operators);
    assert_eq!(updated.map(|operator| operator.num_rows_updated).sum::<u64>(), 2);
}

/// Trap D19.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_goes_on_with_the_batch_that_its_sink_refused() {
    let folder = TempDir::new().unwrap();
    for batch in 1..=3 {
        save(&session(folder.path()), &format!("('a', {batch})")).await;
    }
    for refused in [Some(2), Some(2), None] {
        // Every turn is a process of its own.
        let session = session(folder.path());
        let rows = session.read_stream().option("maxFilesPerTrigger", 1).table("rows").await;
        let writer = rows.unwrap().write_stream().unwrap().foreach_batch(
            move |batch: DataFrame, id: BatchId| async move {
                if refused.is_some_and(|refused| refused == id.0 + 1) {
                    return Err(Error::invalid("not this one"));
                }
                batch.write()?.exactly_once("out").save_as_table("out").await
            },
        );
        let writer = writer.option("checkpointLocation", "cp").trigger(Trigger::AvailableNow);
        let ended = writer.start().await.unwrap().await_termination().await;
        assert_eq!(ended.is_err(), refused.is_some());
        let query = "SELECT v FROM out ORDER BY v";
        let found = session.sql(query).await.unwrap().collect().await.unwrap();
        let expected: &[[&str; 1]] =
            if refused.is_some() { &[["1"]] } else { &[["1"], ["2"], ["3"]] };
        assert_eq!(text(&found), expected);
    }
}

/// Trap D24.
#[tokio::test]
async fn append_mode_without_a_watermark_is_refused_at_the_start() {
    let folder = TempDir::new().unwrap();
    let session = session(folder.path());
    save(&session, "('a', 1)").await;
    let rows = session.read_stream().table("rows").await.unwrap();
    let counted = rows.group_by(vec![col("k")]).agg(vec![sum(col("v")).alias("v")]).unwrap();
    let started = counted.write_stream().unwrap().option("checkpointLocation", "cp");
    let error = started.to_table("out").await.err().unwrap();
    assert!(error.condition().unwrap().starts_with("STREAMING_OUTPUT_MODE"), "{error}");
    assert!(
        !folder.path().join("cp").exists() && !folder.path().join("house/default/out").exists()
    );
}
