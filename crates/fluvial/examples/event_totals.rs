//! A running total per kind of event, in a table in memory that SQL reads while the query runs.
//!
//! ```text
//! cargo run -p fluvial --example event_totals
//! ```
//!
//! Two files arrive one after the other. In complete mode every batch gives the whole result
//! anew, so the table is always right up to the newest batch.

use fluvial::prelude::*;
use std::error::Error;
use std::fs;
use std::path::Path;

/// The files that arrive.
const EVENTS: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/event_totals/landing/events");

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let landing = folder.path().join(LANDING);
    fs::create_dir_all(&landing)?;
    let session = Session::builder().base_dir(folder.path()).build()?;
    let query = event_totals(&session).await?;

    for file in ["batch-001.json", "batch-002.json"] {
        arrive(&Path::new(EVENTS).join(file), &landing)?;
        // Until everything that is there by now has been counted.
        query.process_all_available().await?;
        println!("after {file}:");
        session.sql("SELECT event, total FROM event_totals ORDER BY event").await?.show().await?;
    }

    query.stop().await?;
    println!("stopped; the query is active: {}", query.is_active());
    Ok(())
}

/// Where the files land, relative to the session's folder.
pub(crate) const LANDING: &str = "landing/events";

/// Starts the query, which goes on until it is stopped. A checkpoint would not help: the table
/// goes with the process.
pub(crate) async fn event_totals(session: &Session) -> fluvial::Result<StreamingQuery> {
    let events = session
        .read_stream()
        .format("json")
        .schema("event STRING, amount INT")
        .option("maxFilesPerTrigger", 1)
        .load(LANDING)
        .await?;
    events
        .group_by(vec![col("event")])
        .agg(vec![sum(col("amount")).alias("total")])?
        .write_stream()?
        .format("memory")
        .query_name("event_totals")
        .output_mode(OutputMode::Complete)
        .start()
        .await
}

/// Lets a file arrive as a whole: written under a hidden name, which no source reads, then renamed.
pub(crate) fn arrive(file: &Path, landing: &Path) -> std::io::Result<()> {
    let name = file.file_name().unwrap_or_default();
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    fs::copy(file, landing.join(&hidden))?;
    fs::rename(landing.join(&hidden), landing.join(name))
}
