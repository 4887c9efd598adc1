//! The life of queries and of their session.

use fluvial::prelude::*;
use fluvial::{DataStreamWriter, Trigger};
use std::time::Duration;
use tempfile::TempDir;

/// A stream of its own to write.
async fn stream(session: &Session) -> DataStreamWriter {
    let rows = session.read_stream().format("rate-micro-batch").option("rowsPerBatch", 2);
    rows.load_options().await.unwrap().write_stream().unwrap()
}

#[tokio::test]
async fn a_query_runs_until_its_session_stops_whoever_holds_a_handle() {
    let session = Session::new().unwrap();
    let query = stream(&session).await.format("noop").query_name("ticks").start().await.unwrap();
    let id = query.id().clone();
    drop(query);
    let active = session.streams().active();
    assert_eq!(active.iter().map(StreamingQuery::id).collect::<Vec<_>>(), [&id]);
    let again = session.streams().get(&id).unwrap();
    let committed = |query: &StreamingQuery| query.last_progress().map(|p| p.batch_id.0);
    while committed(&again).is_none() {
        tokio::task::yield_now().await;
    }
    session.stop().await.unwrap();
    assert!(!again.is_active() && again.exception().is_none());
    assert!(session.streams().active().is_empty());
}

#[tokio::test]
async fn what_goes_with_the_process_needs_no_checkpoint() {
    let folder = TempDir::new().unwrap();
    let session = Session::builder().base_dir(folder.path()).build().unwrap();
    for format in ["memory", "noop"] {
        let query = stream(&session).await.format(format).query_name(format);
        query.trigger(Trigger::Once).start().await.unwrap().await_termination().await.unwrap();
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);

    let error = stream(&session).await.format("json").start_at("out").await.unwrap_err();
    assert_eq!(error.condition(), Some("CHECKPOINT_LOCATION_NOT_SPECIFIED"));

    session.set("checkpoint.location", "checkpoints").unwrap();
    let query = stream(&session).await.format("json").query_name("two words");
    let query = query.trigger(Trigger::Once).start_at("out").await.unwrap();
    query.await_termination().await.unwrap();
    assert!(folder.path().join("checkpoints/two_words/metadata").is_file());
}

/// Trap I4.
#[tokio::test]
async fn any_termination_is_told_until_it_is_reset() {
    let session = Session::new().unwrap();
    let streams = session.streams();
    let query = stream(&session).await.format("noop").trigger(Trigger::Once).start().await.unwrap();
    query.await_termination().await.unwrap();
    streams.await_any_termination().await.unwrap();
    streams.reset_terminated();
    assert!(!streams.await_any_termination_within(Duration::ZERO).await.unwrap());

    let failing = stream(&session).await.foreach_batch_rows(|_, _| async {
        Err(fluvial::Error::invalid("no room").with_condition("NO_ROOM"))
    });
    let failing = failing.option("checkpointLocation", "memory:///failing").start().await.unwrap();
    let error = streams.await_any_termination().await.unwrap_err();
    assert!(error.to_string().contains("no room"), "{error}");
    assert_eq!(error.condition(), Some("NO_ROOM"));
    assert_eq!(failing.exception().unwrap().condition(), Some("NO_ROOM"));
}

#[tokio::test]
async fn explain_shows_what_the_checkpoint_knows() {
    let session = Session::new().unwrap();
    let rows = session.read_stream().name("ticks").format("rate-micro-batch");
    let rows = rows.option("rowsPerBatch", 2).load_options().await.unwrap();
    let counts = rows
        .with_watermark("timestamp", "10 seconds")
        .unwrap()
        .group_by(vec![window(col("timestamp"), "2 seconds").alias("w")])
        .count()
        .unwrap()
        .named("views")
        .unwrap();
    let writer = counts.write_stream().unwrap().format("memory").query_name("views");
    let query = writer.trigger(Trigger::Once).start().await.unwrap();
    let shown = query.explain();
    for part in [
        "query views [id = ",
        "mode append, trigger once",
        "source ticks: RatePerMicroBatch",
        "sink sink-0: MemorySink",
        "StreamAggregate: operator=views",
        "Watermark: ",
        "delay=10000 ms",
    ] {
        assert!(shown.contains(part), "{part:?} is not in\n{shown}");
    }
    query.await_termination().await.unwrap();
}

#[tokio::test]
async fn continuous_is_refused_by_name() {
    let error = "continuous(1 second)".parse::<Trigger>().unwrap_err();
    assert_eq!(error.condition(), Some("STREAMING_TRIGGER.CONTINUOUS_NOT_SUPPORTED"));
}
