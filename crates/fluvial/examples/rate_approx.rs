//! Viewers per title and minute, about right and in little memory.
//!
//! ```text
//! cargo run -p fluvial --example rate_approx
//! ```
//!
//! Two hundred heartbeats a second, made up: each says that a viewer watches a title, and comes up
//! to 90 seconds late. The watermark waits two minutes, so none of them is lost. Every 30 seconds
//! the minutes that are over are appended to the table; the first one comes after about three
//! minutes. It runs until Ctrl-C, and goes on from there the next time.
//!
//! To start over, remove `examples/rate_approx/out` and `examples/rate_approx/.fluvial`.

use fluvial::prelude::*;
use fluvial::{
    QueryIdle, QueryStarted, QueryTerminated, StreamingQueryListener, StreamingQueryProgress,
};
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

/// Relative paths start here.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/rate_approx");

/// Where the table is, and where the query remembers what it has done.
pub(crate) const TABLE: &str = "out/rust/viewers_per_minute";
const CHECKPOINT: &str = ".fluvial/rust/viewers_per_minute";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let session = Session::builder().base_dir(FOLDER).build()?;
    session.streams().add_listener(Arc::new(Print));
    let query = viewers_per_minute(&session).await?;
    tokio::select! {
        ended = query.await_termination() => ended?,
        signal = tokio::signal::ctrl_c() => signal?,
    }
    session.stop().await?;

    let table = session.read().delta(TABLE).await?;
    println!("stopped; the table has {} rows", table.count().await?);
    Ok(())
}

/// The heartbeats. Functions under Spark's names come from `session.expr`.
pub(crate) async fn heartbeats(session: &Session) -> fluvial::Result<DataFrame> {
    let rate =
        session.read_stream().format("rate").option("rowsPerSecond", 200).load_options().await?;
    let columns = [
        "timestamp - make_interval(0, 0, 0, 0, 0, 0, rand() * 90) AS event_time",
        "concat('title-', value % 240) AS title",
        "concat('viewer-', cast(rand() * 5000 AS bigint)) AS viewer",
    ];
    let columns = columns.iter().map(|sql| session.expr(sql, &rate));
    let columns = columns.collect::<fluvial::Result<Vec<_>>>()?;
    session.select(rate, columns)
}

/// Starts the query, which goes on until it is stopped.
pub(crate) async fn viewers_per_minute(session: &Session) -> fluvial::Result<StreamingQuery> {
    let beats = heartbeats(session).await?;
    let viewers = session.expr("approx_count_distinct(viewer) AS viewers", &beats)?;
    beats
        .with_watermark("event_time", "2 minutes")?
        .group_by(vec![window(col("event_time"), "1 minute").alias("w"), col("title")])
        .agg(vec![viewers])?
        .write_stream()?
        .format("delta")
        .output_mode(OutputMode::Append)
        .trigger(Trigger::ProcessingTime(Duration::from_secs(30)))
        .option("checkpointLocation", CHECKPOINT)
        .start_at(TABLE)
        .await
}

/// Prints what the query does. A listener has a task of its own: it cannot hold up the query.
struct Print;

impl StreamingQueryListener for Print {
    fn on_started(&self, event: &QueryStarted) {
        println!("query {} runs; Ctrl-C stops it", event.id);
    }

    fn on_progress(&self, progress: &StreamingQueryProgress) {
        println!(
            "batch {}: {} heartbeats in, {} rows out, watermark {}",
            progress.batch_id,
            progress.num_input_rows,
            progress.sink.num_output_rows,
            progress.event_time.get("watermark").map_or("none yet", String::as_str),
        );
    }

    fn on_idle(&self, _: &QueryIdle) {}

    fn on_terminated(&self, event: &QueryTerminated) {
        if let Some(failure) = &event.exception {
            println!("failed: {}", failure.message);
        }
    }
}
