//! Page views per five minutes: two runs, four batches.

use crate::clickstream_example::page_views;
use crate::golden::{self, CLICKSTREAM, CLICKSTREAM_ROWS};
use fluvial::Session;
use serde_json::Value;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/clickstream");

fn land(folder: &Path, file: &str) {
    let landing = folder.join("landing/clicks");
    fs::create_dir_all(&landing).unwrap();
    let name = Path::new(file).file_name().unwrap();
    fs::copy(Path::new(EXAMPLE).join(file), landing.join(name)).unwrap();
}

/// One run in a process of its own, as far as the library is concerned; its progress.
async fn run(folder: &Path) -> Vec<Value> {
    let session = Session::builder().base_dir(folder).build().unwrap();
    let query = page_views(&session).await.unwrap();
    query.await_termination().await.unwrap();
    query.recent_progress().iter().map(|p| serde_json::from_str(&p.json()).unwrap()).collect()
}

#[tokio::test]
async fn batch_by_batch_as_spark() {
    let folder = TempDir::new().unwrap();
    let folder = folder.path();
    let rows = golden::recorded("clickstream_5m", "expected.json");
    let progress = golden::recorded("clickstream_5m", "progress.json");
    let expected = |run: &str| golden::batches(progress[run].as_array().unwrap());

    land(folder, "landing/clicks/part-0001.json");
    assert_eq!(golden::batches(&run(folder).await), expected("run1"));
    assert_eq!(golden::batches(&run(folder).await), Vec::<Value>::new(), "nothing new");
    land(folder, "later/part-0002.json");
    assert_eq!(golden::batches(&run(folder).await), expected("run2"));

    let table = folder.join("out/rust/page_views_5m");
    let published = golden::delta_batches(&table, CLICKSTREAM_ROWS).await;
    let batches: Vec<_> = published.into_values().collect();
    let expected = |rows| golden::rows(rows, &CLICKSTREAM);
    // Batches 0 and 2 take rows in, 1 and 3 close windows.
    let closed = [expected(&rows["run1_rows"]), expected(&rows["run2_new_rows"])];
    assert_eq!(batches, [vec![], closed[0].clone(), vec![], closed[1].clone()]);
}
