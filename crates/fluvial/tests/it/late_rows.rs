//! Rows that come too late go where the query says, from every kind of operator.

use crate::evolution::run;
use fluvial::{LateRows, Session, StreamingDataFrame, StreamingQuery, Trigger};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A file of one row `id, page, at`, so many seconds after ten o'clock.
fn event(folder: &Path, file: &str, id: u32, seconds: u32) {
    let path = folder.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let (minute, second) = (seconds / 60, seconds % 60);
    let at = format!("2026-06-10T10:{minute:02}:{second:02}Z");
    fs::write(path, format!("{{\"id\":{id},\"page\":\"/a\",\"at\":\"{at}\"}}\n")).unwrap();
}

const STREAM: &str = "STREAM read_files('in', format => 'json', maxFilesPerTrigger => 1, \
                      schema => 'id INT, page STRING, at TIMESTAMP') \
                      WATERMARK at DELAY OF INTERVAL 10 SECONDS";

/// In time, in time, late, late.
fn events(folder: &Path) {
    for (file, (id, seconds)) in [(1, 100), (2, 200), (3, 5), (4, 6)].into_iter().enumerate() {
        event(folder, &format!("in/{file}.json"), id, seconds);
    }
}

/// Runs a query with its late rows in a table of JSON files, and reads them.
async fn late_of(folder: &Path, mode: &str, select: &str) -> (StreamingQuery, Vec<String>) {
    let text = format!(
        "CREATE STREAMING TABLE t USING noop TBLPROPERTIES ('checkpointLocation' = 'cp', \
         'outputMode' = '{mode}', 'lateRowsTable' = 'late', 'lateRowsFormat' = 'json') \
         AS {select}"
    );
    let query = run(folder, &text, &[]).await.unwrap();
    (query, read(folder))
}

/// What lies in the files of the warehouse's table `late`.
fn read(folder: &Path) -> Vec<String> {
    let mut rows = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "json")
                && path.components().any(|part| part.as_os_str() == "late")
            {
                rows.extend(fs::read_to_string(&path).unwrap().lines().map(str::to_owned));
            }
        }
    }
    rows.sort();
    rows
}

fn dropped(query: &StreamingQuery) -> u64 {
    let batches = query.recent_progress();
    batches.iter().flat_map(|b| &b.state_operators).map(|o| o.num_rows_dropped_by_watermark).sum()
}

#[tokio::test]
async fn every_operator_hands_over_what_is_late() {
    let selects = [
        format!("SELECT window(at, '10 seconds') AS w, count(*) AS n FROM {STREAM} GROUP BY 1"),
        format!(
            "SELECT session_window(at, '10 seconds') AS w, page, count(*) AS n FROM {STREAM} \
             GROUP BY 1, 2"
        ),
        format!("SELECT DISTINCT id, at FROM {STREAM}"),
        format!("SELECT l.id FROM {STREAM} AS l JOIN {STREAM} AS r ON l.id = r.id AND l.at = r.at"),
    ];
    for select in selects {
        let folder = TempDir::new().unwrap();
        events(folder.path());
        let (query, late) = late_of(folder.path(), "append", &select).await;
        let count = dropped(&query);
        assert!(count >= 2, "{select}");
        assert_eq!(late.len() as u64, count, "{select}: {late:?}");
        for part in ["\"watermark\":", "\"operator\":", "\"batch_id\":", "10:00:0"] {
            assert!(late.iter().all(|row| row.contains(part)), "{part} in {late:?}");
        }
    }
}

/// A restart goes on behind what is published, and a query may get the side output later.
#[tokio::test]
async fn late_rows_are_there_once_over_restarts() {
    let folder = TempDir::new().unwrap();
    let select =
        format!("SELECT window(at, '10 seconds') AS w, count(*) AS n FROM {STREAM} GROUP BY 1");
    event(folder.path(), "in/0.json", 1, 300);
    run(
        folder.path(),
        &format!(
            "CREATE STREAMING TABLE t USING noop TBLPROPERTIES ('checkpointLocation' = 'cp') \
             AS {select}"
        ),
        &[],
    )
    .await
    .unwrap();
    for n in 1..4 {
        event(folder.path(), &format!("in/{n}.json"), n, n);
        let (_, late) = late_of(folder.path(), "append", &select).await;
        assert_eq!(late.len() as u32, n, "{late:?}");
    }
}

#[tokio::test]
async fn a_program_looks_at_late_rows_in_memory() {
    let folder = TempDir::new().unwrap();
    events(folder.path());
    let session = Session::builder().base_dir(folder.path()).build().unwrap();
    let schema = "id INT, page STRING, at TIMESTAMP";
    let rows = session.read_stream().format("json").schema(schema);
    let rows = rows.option("maxFilesPerTrigger", 1).load("in").await.unwrap();
    let once = rows.with_watermark("at", "10 seconds").unwrap();
    let once = once.drop_duplicates_within_watermark(&["id"]).unwrap().named("once").unwrap();
    let writer = once.write_stream().unwrap().format("noop").late_rows(LateRows::memory("late"));
    let query = writer.trigger(Trigger::AvailableNow).start().await.unwrap();
    query.await_termination().await.unwrap();
    let late = session.sql(
        "SELECT operator, get_json_object(record, '$.id') AS id FROM late \
                            WHERE watermark > TIMESTAMP '2026-06-10 10:00:00' ORDER BY id",
    );
    let late = late.await.unwrap().to_string().await.unwrap();
    assert!(late.contains("| once     | 3  |") && late.contains("| once     | 4  |"), "{late}");
    for progress in query.recent_progress() {
        let operator = &progress.state_operators[0];
        let custom: i64 = operator
            .custom_metrics
            .iter()
            .filter_map(|(name, rows)| (name != "numInputRows").then_some(*rows))
            .sum();
        let accounted = custom + operator.num_rows_dropped_by_watermark as i64;
        assert_eq!(operator.custom_metrics["numInputRows"], accounted);
    }
}
