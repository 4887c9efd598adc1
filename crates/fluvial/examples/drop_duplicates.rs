//! Drops events that came twice within two hours.
//!
//! ```text
//! cargo run -p fluvial --example drop_duplicates [folder [place [setting=value ..]]]
//! ```
//!
//! `folder` holds Parquet files of `id`, `event_time` and `v`; without one some are made. What is
//! left goes to `out`, here or below `place`, and the progress of every batch is printed.
//! `benches/beside_spark` measures this program, and `cargo xtask soak` kills it.

use fluvial::Result;
use fluvial::prelude::*;
use std::path::{Path, PathBuf};

/// The query, run to the end of its input: two files a batch, two partitions of state. Checkpoint
/// and output lie below `place`, a folder or a URL.
async fn drop_duplicates(
    folder: &Path,
    out: &Path,
    place: &str,
    settings: &[String],
) -> Result<StreamingQuery> {
    let mut builder = Session::builder().base_dir(out).config("state.partitions", 2);
    for (name, value) in settings.iter().filter_map(|setting| setting.split_once('=')) {
        builder = builder.config(name, value);
    }
    let session = builder.build()?;
    let events = session
        .read_stream()
        .format("parquet")
        .schema("id string, event_time timestamp, v bigint")
        .option("maxFilesPerTrigger", 2)
        .load(folder.display().to_string())
        .await?;
    let query = events
        .with_watermark("event_time", "2 hours")?
        .drop_duplicates_within_watermark(&["id"])?
        .write_stream()?
        .format("parquet")
        .trigger(Trigger::AvailableNow)
        .option("checkpointLocation", format!("{place}checkpoint"))
        .start_at(format!("{place}out"))
        .await?;
    query.await_termination().await?;
    Ok(query)
}

/// A few events, two of them the same.
async fn some_events(folder: &Path) -> Result<()> {
    let session = Session::builder().base_dir(folder).build()?;
    let events = session
        .sql(
            "SELECT concat('id-', i % 4) AS id, timestamp_seconds(1767225600 + i) AS event_time, \
             CAST(i AS BIGINT) AS v FROM (SELECT explode(sequence(1, 6)) AS i)",
        )
        .await?;
    events.write()?.format("parquet").mode(SaveMode::Append).save("in").await
}

#[tokio::main]
async fn main() -> Result<()> {
    let out = std::env::current_dir()
        .map_err(|e| fluvial::Error::invalid(format!("there is no folder to work in: {e}")))?;
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = match arguments.first() {
        Some(folder) => PathBuf::from(folder),
        None => {
            some_events(&out).await?;
            out.join("in")
        }
    };
    let place = arguments.get(1).map_or_else(String::new, |place| format!("{place}/"));
    let settings = arguments.get(2..).unwrap_or_default();
    let query = drop_duplicates(&folder, &out, &place, settings).await?;
    for progress in query.recent_progress() {
        println!("{}", progress.json());
    }
    Ok(())
}
