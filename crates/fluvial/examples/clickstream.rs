//! Page views and time spent, per page and five minutes, appended to a Delta table.
//!
//! ```text
//! cargo run -p fluvial --example clickstream
//! ```
//!
//! Clicks land as files of JSON lines in `examples/clickstream/landing/clicks` and come up to ten
//! minutes late. A window is written once, when the watermark says that no click of it can come
//! any more. Run it again and there is nothing new; let two more clicks land, one of them too
//! late, and run it again:
//!
//! ```text
//! cp examples/clickstream/later/part-0002.json examples/clickstream/landing/clicks/
//! ```
//!
//! To start over, remove `examples/clickstream/out` and `examples/clickstream/.fluvial`.

use fluvial::prelude::*;
use std::error::Error;

/// Relative paths start here.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/clickstream");

/// Where the table is, and where the query remembers what it has done.
const TABLE: &str = "out/rust/page_views_5m";
const CHECKPOINT: &str = ".fluvial/rust/page_views_5m";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let session = Session::builder().base_dir(FOLDER).build()?;
    let query = page_views(&session).await?;
    query.await_termination().await?;
    report(&query);

    let table = session.read().delta(TABLE).await?;
    session.context().register_table("page_views_5m", table.into_view())?;
    let rows = session
        .sql(
            "SELECT w.start AS start, w.end AS `end`, page, views, total_duration_s
             FROM page_views_5m ORDER BY start, page",
        )
        .await?;
    rows.show().await?;
    Ok(())
}

/// Starts the query. It takes what has landed by now, at most ten files a batch, and ends.
pub(crate) async fn page_views(session: &Session) -> fluvial::Result<StreamingQuery> {
    let clicks = session
        .read_stream()
        .format("json")
        .schema("user_id STRING, page STRING, event_time TIMESTAMP, duration_s DOUBLE")
        .option("maxFilesPerTrigger", 10)
        .load("landing/clicks")
        .await?;
    clicks
        .with_watermark("event_time", "10 minutes")?
        .group_by(vec![window(col("event_time"), "5 minutes").alias("w"), col("page")])
        .agg(vec![count(lit(1)).alias("views"), sum(col("duration_s")).alias("total_duration_s")])?
        .write_stream()?
        .format("delta")
        .output_mode(OutputMode::Append)
        .trigger(Trigger::AvailableNow)
        .option("checkpointLocation", CHECKPOINT)
        .start_at(TABLE)
        .await
}

/// Says what each batch did. A batch without rows in closes windows: the watermark has moved.
fn report(query: &StreamingQuery) {
    let batches = query.recent_progress();
    if batches.iter().all(|batch| batch.state_operators.is_empty()) {
        println!("nothing new");
    }
    for batch in batches.iter().filter(|batch| !batch.state_operators.is_empty()) {
        let (state, watermark) = (&batch.state_operators[0], &batch.event_time["watermark"]);
        println!(
            "batch {}: {} rows in, {} too late, {} rows out; watermark {watermark}, {} groups kept",
            batch.batch_id,
            batch.num_input_rows,
            state.num_rows_dropped_by_watermark,
            batch.sink.num_output_rows,
            state.num_rows_total,
        );
    }
}
