//! What is done with a DataFrame: collecting, writing, triggers.

use super::entry::{Entry, ours, sparks};
use fluvial::OutputMode::Append;
use fluvial::prelude::*;
use fluvial::{Trigger, from_datafusion};

const NOT_STARTED: &str = "STREAMING_QUERY_NOT_STARTED";

pub(super) fn entries() -> Vec<Entry> {
    vec![
        ours("count_action", NOT_STARTED, &["write_stream"]).by(|world| async move {
            world.events().await?.count().await.map(drop).map_err(from_datafusion)
        }),
        ours("show_action", NOT_STARTED, &["write_stream"])
            .by(|world| async move { world.events().await?.show().await.map_err(from_datafusion) }),
        ours("toDF_cache", NOT_STARTED, &["write_stream"]).by(|world| async move {
            world.events().await?.cache().await.map(drop).map_err(from_datafusion)
        }),
        sparks("batch_write", &["write_stream"])
            .by(|world| async move { world.events().await?.write().map(drop) }),
        sparks("stream_write_of_batch", &["write_stream", "use write"]).by(|world| async move {
            world.frame("SELECT * FROM people").await?.write_stream().map(drop)
        }),
        ours(
            "continuous_file",
            "STREAMING_TRIGGER.CONTINUOUS_NOT_SUPPORTED",
            &["continuous", "available-now"],
        )
        .by(|world| async move {
            let trigger: Trigger = "continuous 1 second".parse()?;
            world.writer(world.events().await?, Append)?.trigger(trigger).start().await.map(drop)
        }),
    ]
}
