//! The examples of parts of one's own do what they say.

use crate::golden::text;
use crate::own_sink_example::Objects;
use crate::own_source_example::LogTail;
use crate::own_state_backend_example::metered_session;
use fluvial::prelude::*;
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;
use object_store::path::Path;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

#[tokio::test]
async fn a_log_is_followed_over_restarts_line_by_line() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("app.log");
    File::create(&path).unwrap();
    let mut seen = Vec::new();
    for text in ["one\ntwo\nthr", "", "ee\n"] {
        let mut log = OpenOptions::new().append(true).open(&path).unwrap();
        write!(log, "{text}").unwrap();
        let session = Session::builder().base_dir(folder.path()).build().unwrap();
        let lines = session.read_stream().name("log").source(Arc::new(LogTail(path.clone())));
        let query = lines
            .unwrap()
            .write_stream()
            .unwrap()
            .format("json")
            .trigger(Trigger::AvailableNow)
            .option("checkpointLocation", "checkpoint")
            .start_at("out")
            .await
            .unwrap();
        query.await_termination().await.unwrap();
        seen.push(query.recent_progress().iter().map(|p| p.num_input_rows).sum::<u64>());
    }
    assert_eq!(seen, [2, 0, 1]);
}

#[tokio::test]
async fn a_sink_refuses_another_query_and_publishes_a_batch_once() {
    let store = Arc::new(InMemory::new());
    let start = |session: Session, checkpoint: &'static str, store: Arc<InMemory>| async move {
        let rows = session.read_stream().format("rate-micro-batch").option("rowsPerBatch", 2);
        let rows = rows.load_options().await.unwrap().write_stream().unwrap();
        let rows = rows.sink(Arc::new(Objects::new(store))).trigger(Trigger::Once);
        let query = rows.option("checkpointLocation", checkpoint).start().await.unwrap();
        query.await_termination().await
    };
    let session = Session::new().unwrap();
    start(session.clone(), "memory:///one", store.clone()).await.unwrap();
    start(session.clone(), "memory:///one", store.clone()).await.unwrap();
    for batch in ["0.json", "1.json"] {
        assert!(store.head(&Path::from(batch)).await.is_ok(), "{batch}");
    }
    let error = start(session, "memory:///two", store).await.unwrap_err();
    assert!(error.to_string().contains("belongs to query"), "{error}");
}

#[tokio::test]
async fn a_session_uses_its_own_state_backend() {
    let bytes = Arc::new(AtomicUsize::new(0));
    let session = metered_session(Arc::clone(&bytes)).unwrap();
    let counted = |session: Session, name: &'static str| async move {
        let rows = session.read_stream().format("rate-micro-batch").option("rowsPerBatch", 10);
        let rows = rows.load_options().await.unwrap();
        let counts = rows.group_by(vec![col("value") % lit(2_i64)]).count().unwrap();
        let query = counts.write_stream().unwrap().format("memory").query_name(name);
        let query = query.output_mode(OutputMode::Complete).trigger(Trigger::Once).start().await;
        query?.await_termination().await?;
        let counts = session.sql(&format!("SELECT count FROM {name}")).await?;
        assert_eq!(text(&counts.collect().await.unwrap()), [["5"], ["5"]]);
        Ok::<_, fluvial::Error>(())
    };
    counted(session.clone(), "own").await.unwrap();
    let written = bytes.load(Ordering::Relaxed);
    assert!(written > 0);

    session.set("state.backend", "memory").unwrap();
    counted(session, "ours").await.unwrap();
    assert_eq!(bytes.load(Ordering::Relaxed), written);

    let without = Session::builder().config("state.backend", "own").build().unwrap();
    let error = counted(without, "none").await.unwrap_err();
    assert!(error.to_string().contains("state_backend(..)"), "{error}");
}
