//! A running total per event: files arrive by rename, SQL reads the table while the query runs.

use crate::event_totals_example::{LANDING, arrive, event_totals};
use crate::golden;
use fluvial::Session;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const EXAMPLE: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/event_totals/landing/events");

async fn totals(session: &Session) -> BTreeMap<String, i64> {
    let rows = session.sql("SELECT event, total FROM event_totals").await.unwrap();
    let rows = golden::text(&rows.collect().await.unwrap());
    rows.into_iter().map(|row| (row[0].clone(), row[1].parse().unwrap())).collect()
}

#[tokio::test]
async fn totals_follow_the_files() {
    let folder = TempDir::new().unwrap();
    let landing = folder.path().join(LANDING);
    fs::create_dir_all(&landing).unwrap();
    let expected = golden::recorded("event_totals", "expected.json");
    let progress = golden::recorded("event_totals", "progress.json");

    let session = Session::builder().base_dir(folder.path()).build().unwrap();
    let query = event_totals(&session).await.unwrap();
    assert_eq!(query.name(), Some("event_totals"));
    for (file, after) in [("batch-001.json", "after_batch_1"), ("batch-002.json", "after_batch_2")]
    {
        arrive(&Path::new(EXAMPLE).join(file), &landing).unwrap();
        query.process_all_available().await.unwrap();
        let expected: BTreeMap<String, i64> =
            serde_json::from_value(expected[after].clone()).unwrap();
        assert_eq!(totals(&session).await, expected, "{after}");
        assert!(query.is_active());
    }
    let reported: Vec<Value> =
        query.recent_progress().iter().map(|p| serde_json::from_str(&p.json()).unwrap()).collect();
    assert_eq!(golden::batches(&reported), golden::batches(progress.as_array().unwrap()));
    let rows_out = |all: &[Value]| -> Vec<Value> {
        all.iter().map(|p| p["sink"]["numOutputRows"].clone()).filter(|n| *n != -1).collect()
    };
    assert_eq!(rows_out(&reported), rows_out(progress.as_array().unwrap()));

    query.stop().await.unwrap();
    assert!(!query.is_active());
    assert!(session.streams().active().is_empty());
    assert!(query.exception().is_none());
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(left, [folder.path().join("landing")], "a temporary checkpoint leaves nothing");
}
