//! A process that is killed after a merge and before the commit of its batch.

use crate::golden::text;
use crate::processes::{again_with, runtime};
use fluvial::arrow::array::{ArrayRef, Int64Array, RecordBatch};
use fluvial::prelude::*;
use fluvial::{BatchId, Result};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

/// Where the process that is killed works, and after which step it says so and waits.
const FOLDER: &str = "FLUVIAL_MERGE_KILLS";
const STEP: &str = "FLUVIAL_MERGE_KILLS_STEP";
const STEPS: usize = 3;
/// What it says.
const READY: &str = "now";

fn session(folder: &Path) -> Session {
    Session::builder().base_dir(folder).warehouse("house").build().unwrap()
}

async fn save(session: &Session, table: &str, rows: &[(i64, i64)]) {
    let columns: [(&str, ArrayRef); 2] = [
        ("id", Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0)))),
        ("n", Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1)))),
    ];
    let rows = RecordBatch::try_from_iter(columns).unwrap();
    let frame = session.create_dataframe(vec![rows]).unwrap();
    frame.write().unwrap().save_as_table(table).await.unwrap();
}

/// Says that a step is done, and waits for the end if it is the one.
async fn after(step: usize) {
    if std::env::var(STEP).is_ok_and(|wanted| wanted == step.to_string()) {
        println!("\n{READY}");
        std::future::pending::<()>().await;
    }
}

/// Adds to the totals of two tables, and keeps the rows: nothing of it may happen twice.
async fn add(batch: DataFrame, _: BatchId) -> Result<()> {
    batch.create_or_replace_temp_view("batch")?;
    let session = batch.session()?;
    for (step, table) in ["totals", "others"].into_iter().enumerate() {
        let merge = format!(
            "MERGE INTO {table} AS t USING batch AS s ON t.id = s.id
             WHEN MATCHED THEN UPDATE SET n = t.n + s.n WHEN NOT MATCHED THEN INSERT *"
        );
        session.sql(&merge).await?;
        after(step).await;
    }
    batch.write()?.exactly_once("kept").save_as_table("kept").await?;
    after(STEPS - 1).await;
    Ok(())
}

async fn work(session: &Session) -> Result<()> {
    let rows = session.read_stream().option("maxFilesPerTrigger", 1).table("rows").await?;
    let writer = rows.write_stream()?.foreach_batch(add).trigger(Trigger::AvailableNow);
    writer.option("checkpointLocation", "cp").start().await?.await_termination().await
}

/// Starts the process, and kills it when it says so.
fn kill_when_ready(mut command: Command) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.map_while(std::result::Result::ok).any(|line| line == READY);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(ready, "it ended without a word");
}

/// Traps D1 and D3.
#[test]
fn a_process_killed_between_a_merge_and_its_commit_merges_once() {
    if let Ok(folder) = std::env::var(FOLDER) {
        let work = async { work(&session(Path::new(&folder))).await };
        return runtime().block_on(work).unwrap();
    }
    let test = "merge_kills::a_process_killed_between_a_merge_and_its_commit_merges_once";
    for step in 0..STEPS {
        let folder = TempDir::new().unwrap();
        runtime().block_on(async {
            let session = session(folder.path());
            save(&session, "totals", &[(1, 100)]).await;
            save(&session, "others", &[(9, 0)]).await;
            save(&session, "rows", &[(1, 1), (2, 2)]).await;
            save(&session, "rows", &[(1, 10)]).await;
        });
        // In the first batch, and then again in the first: it was not committed.
        for _ in 0..2 {
            let mut command = again_with(test, FOLDER, folder.path());
            command.env(STEP, step.to_string());
            kill_when_ready(command);
        }
        runtime().block_on(async {
            let session = session(folder.path());
            work(&session).await.unwrap();
            for (query, expected) in [
                ("SELECT id, n FROM totals ORDER BY id", vec![["1", "111"], ["2", "2"]]),
                ("SELECT id, n FROM others ORDER BY id", vec![["1", "11"], ["2", "2"], ["9", "0"]]),
                (
                    "SELECT id, n FROM kept ORDER BY id, n",
                    vec![["1", "1"], ["1", "10"], ["2", "2"]],
                ),
            ] {
                let found = session.sql(query).await.unwrap().collect().await.unwrap();
                assert_eq!(text(&found), expected, "killed after step {step}: {query}");
            }
        });
    }
}
