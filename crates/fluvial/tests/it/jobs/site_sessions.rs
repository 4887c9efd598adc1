//! Visits of a site: the pipeline in `examples/site_sessions`, and a run that goes on.

use fluvial::arrow::util::pretty::pretty_format_batches;
use fluvial::sql::parse_script;
use fluvial::{Executed, ScriptOptions, Session, Trigger};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/site_sessions");
const FILE: &str = "landing/clicks/part-0001.json";

/// Runs the whole script and gives what its SELECT shows.
async fn visits(folder: &Path) -> Vec<String> {
    let session = Session::builder().base_dir(folder).build().unwrap();
    let script = fs::read_to_string(Path::new(EXAMPLE).join("pipeline.sql")).unwrap();
    let checkpoints = Some(folder.join("checkpoints").display().to_string());
    let options = ScriptOptions { checkpoints, trigger: Some(Trigger::AvailableNow) };
    let mut shown = Vec::new();
    for statement in parse_script(&script).unwrap() {
        match session.execute(&statement, &options).await.unwrap() {
            Executed::Query(_, query) => query.await_termination().await.unwrap(),
            Executed::Rows(rows) => {
                let rows = rows.collect().await.unwrap();
                let text = pretty_format_batches(&rows).unwrap().to_string();
                let inner = text.lines().skip(3).filter(|line| line.starts_with('|'));
                shown = inner.map(|line| line.replace([' ', '|'], "_")).collect();
            }
            Executed::Done(_) => {}
        }
    }
    shown
}

#[tokio::test]
async fn visits_are_written_once_they_are_over() {
    let folder = TempDir::new().unwrap();
    let landing = folder.path().join("landing/clicks");
    fs::create_dir_all(&landing).unwrap();
    fs::copy(Path::new(EXAMPLE).join(FILE), folder.path().join(FILE)).unwrap();
    let first = visits(folder.path()).await;
    assert_eq!(first.len(), 3, "u1's, and both of u2's: {first:#?}");
    assert!(first[0].contains("u1") && first[0].contains("_3_") && first[0].contains("440"));
    assert!(first[1].contains("u2") && first[1].contains("_1_"));
    assert_eq!(visits(folder.path()).await, first, "nothing new");
    let later = "{\"user_id\":\"u3\",\"page\":\"/docs\",\"event_time\":\"2026-06-10T12:50:00Z\",\
                 \"duration_s\":7}\n\
                 {\"user_id\":\"u4\",\"page\":\"/\",\"event_time\":\"2026-06-10T14:00:00Z\",\
                 \"duration_s\":1}\n";
    fs::write(landing.join("part-0002.json"), later).unwrap();
    let second = visits(folder.path()).await;
    assert_eq!(second.len(), 4, "the visit of u3 went on: {second:#?}");
    assert!(second[3].contains("u3") && second[3].contains("_2_") && second[3].contains("12"));
}
