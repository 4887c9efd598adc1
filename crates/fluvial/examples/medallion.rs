//! Bronze, silver, gold: from files as they land to tables that people look at.
//!
//! ```text
//! cargo run -p fluvial --example medallion
//! ```
//!
//! - **bronze.events**: every record that lands, as it is, by Auto Loader. New fields become new
//!   columns: the query stops once for each, and goes on with it.
//! - **silver.events** and **silver.users**: each event once, and the latest status of each user.
//!   Two MERGEs for each batch, which happen once however often the batch comes.
//! - **gold.page_views**: views and time spent per page and five minutes, when they are over.
//! - **ops.metrics**: what each batch took in, written by a listener.
//!
//! Kill it wherever you like and run it again: bronze, silver and gold are as if nothing had been.
//! A listener hears of a batch after its commit, so that a kill in between costs its row of
//! ops.metrics, and nothing else.
//!
//! Run it again and there is nothing new; let more events land, and run it again:
//!
//! ```text
//! cp examples/medallion/later/part-0007.json examples/medallion/landing/
//! ```
//!
//! To start over, remove `examples/medallion/out/tables`. Another folder with a `landing` in it is an
//! argument.

use fluvial::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use fluvial::prelude::*;
use fluvial::{
    BatchId, DeltaTable, QueryIdle, QueryStarted, QueryTerminated, Result, StreamingQueryListener,
    StreamingQueryProgress,
};
use std::path::Path;
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Relative paths start here.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/medallion");

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| FOLDER.to_owned());
    let session = run(Path::new(&folder)).await?;
    for query in [
        "SELECT user_id, status, last_seen FROM silver.users ORDER BY user_id",
        "SELECT w.start AS start, page, views, seconds FROM gold.page_views ORDER BY start, page",
        "SELECT query, count(*) AS batches, sum(rows_in) AS rows_in FROM ops.metrics GROUP BY query
         ORDER BY query",
    ] {
        session.sql(query).await?.show().await?;
    }
    Ok(())
}

/// Takes what has landed through all tables.
pub(crate) async fn run(folder: &Path) -> Result<Session> {
    let session = Session::builder().base_dir(folder).warehouse("out/tables").build()?;
    let (sender, mut heard) = unbounded_channel();
    session.streams().add_listener(Arc::new(Listener(sender)));
    while let Err(error) = done(&session, &mut heard, bronze(&session).await?).await {
        // The new version of the schema is written, and the batch runs again with it.
        if error.condition() != Some("UNKNOWN_FIELD_EXCEPTION.NEW_FIELDS_IN_FILE") {
            return Err(error);
        }
    }
    done(&session, &mut heard, silver(&session).await?).await?;
    done(&session, &mut heard, gold(&session).await?).await?;
    Ok(session)
}

/// Every record that lands, with the file that it came in.
async fn bronze(session: &Session) -> Result<StreamingQuery> {
    let landed = session
        .read_stream()
        .format("cloudFiles")
        .option("cloudFiles.format", "json")
        .option("cloudFiles.schemaLocation", "out/tables/_schemas/events")
        .option("cloudFiles.inferColumnTypes", true)
        .option("cloudFiles.schemaHints", "event_time TIMESTAMP, duration_s DOUBLE")
        .option("cloudFiles.maxFilesPerTrigger", 1)
        .load("landing")
        .await?;
    landed
        .write_stream()?
        .option("mergeSchema", true)
        .option("checkpointLocation", "out/tables/_checkpoints/bronze")
        .trigger(Trigger::AvailableNow)
        .to_table("bronze.events")
        .await
}

/// Adds events that are new, and keeps the latest status of each user.
async fn silver(session: &Session) -> Result<StreamingQuery> {
    let events = "event_id STRING, user_id STRING, page STRING, status STRING, \
                  event_time TIMESTAMP, duration_s DOUBLE, country STRING";
    let users = "user_id STRING, status STRING, last_seen TIMESTAMP";
    DeltaTable::create_named_if_not_exists(session, "silver.events", events, &[]).await?;
    DeltaTable::create_named_if_not_exists(session, "silver.users", users, &[]).await?;
    session
        .read_stream()
        .option("maxFilesPerTrigger", 2)
        .table("bronze.events")
        .await?
        .write_stream()?
        .foreach_batch(merge)
        .query_name("silver")
        .option("checkpointLocation", "out/tables/_checkpoints/silver")
        .trigger(Trigger::AvailableNow)
        .start()
        .await
}

async fn merge(batch: DataFrame, _: BatchId) -> Result<()> {
    batch.create_or_replace_temp_view("batch")?;
    let session = batch.session()?;
    session.sql(EVENTS).await?;
    session.sql(USERS).await?;
    Ok(())
}

/// An event may come several times, in one batch and in several.
const EVENTS: &str = "
    MERGE INTO silver.events AS t USING (
      SELECT event_id, user_id, page, status, event_time, duration_s, country FROM (
        SELECT *, row_number() OVER (PARTITION BY event_id ORDER BY event_time) AS n FROM batch
      ) WHERE n = 1
    ) AS s ON t.event_id = s.event_id
    WHEN NOT MATCHED THEN INSERT *";

/// Events may come in another order than they happened in.
const USERS: &str = "
    MERGE INTO silver.users AS t USING (
      SELECT user_id, status, event_time AS last_seen FROM (
        SELECT *, row_number() OVER (PARTITION BY user_id ORDER BY event_time DESC) AS n FROM batch
      ) WHERE n = 1
    ) AS s ON t.user_id = s.user_id
    WHEN MATCHED AND s.last_seen > t.last_seen THEN UPDATE SET *
    WHEN NOT MATCHED THEN INSERT *";

/// Views and time spent, per page and five minutes.
async fn gold(session: &Session) -> Result<StreamingQuery> {
    let events = session.read_stream().table("silver.events").await?;
    let views = events
        .with_watermark("event_time", "10 minutes")?
        .group_by(vec![window(col("event_time"), "5 minutes").alias("w"), col("page")])
        .agg(vec![count(lit(1)).alias("views"), sum(col("duration_s")).alias("seconds")])?;
    views
        .write_stream()?
        .output_mode(OutputMode::Append)
        .option("checkpointLocation", "out/tables/_checkpoints/gold")
        .trigger(Trigger::AvailableNow)
        .to_table("gold.page_views")
        .await
}

/// What a listener passes on.
enum Heard {
    Batch(Box<StreamingQueryProgress>),
    End,
}

/// Passes on what it hears: a listener must not wait, and writing takes a while.
struct Listener(UnboundedSender<Heard>);

impl StreamingQueryListener for Listener {
    fn on_started(&self, _: &QueryStarted) {}

    fn on_progress(&self, progress: &StreamingQueryProgress) {
        if progress.num_input_rows > 0 {
            // Nobody listens once the program ends.
            let _ = self.0.send(Heard::Batch(Box::new(progress.clone())));
        }
    }

    fn on_idle(&self, _: &QueryIdle) {}

    fn on_terminated(&self, _: &QueryTerminated) {
        let _ = self.0.send(Heard::End);
    }
}

/// Waits for a query to end, and writes what was heard of it.
async fn done(
    session: &Session,
    heard: &mut UnboundedReceiver<Heard>,
    query: StreamingQuery,
) -> Result<()> {
    let ended = query.await_termination().await;
    while let Some(Heard::Batch(batch)) = heard.recv().await {
        let columns: [(&str, ArrayRef); 3] = [
            ("query", Arc::new(StringArray::from(vec![batch.name.clone()]))),
            ("batch", Arc::new(Int64Array::from_iter_values([batch.batch_id.0 as i64]))),
            ("rows_in", Arc::new(Int64Array::from_iter_values([batch.num_input_rows as i64]))),
        ];
        let row = session.create_dataframe(vec![RecordBatch::try_from_iter(columns)?])?;
        // Once for each batch, however often it is heard of.
        row.write()?
            .option("txnAppId", format!("{}/metrics", batch.id))
            .option("txnVersion", batch.batch_id.0)
            .save_as_table("ops.metrics")
            .await?;
    }
    ended
}
