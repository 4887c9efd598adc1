//! Two runs of one query, damaged checkpoints, and failures inside of a batch.

use super::entry::{Entry, ours, refused_because, sparks};
use super::world::{World, wait};
use fluvial::OutputMode::{Append, Update};
use fluvial::prelude::*;
use std::path::{Path, PathBuf};

const BY_KEY: &str = "SELECT k, count(*) AS n FROM events GROUP BY k";

pub(super) fn entries() -> Vec<Entry> {
    let mut all = damage();
    all.extend(running());
    all
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files_below(&path)),
            false => found.push(path),
        }
    }
    found
}

async fn one_run(world: &World) -> fluvial::Result<()> {
    world.first(world.run_sql(BY_KEY, Update).await)?;
    world.more_input();
    Ok(())
}

fn damage() -> Vec<Entry> {
    vec![
        sparks("corrupt_missing_delta", &["state/aggregate", "restore it"]).by(
            |world| async move {
                one_run(&world).await?;
                for file in files_below(&world.path("checkpoint/state")) {
                    std::fs::remove_file(file).unwrap();
                }
                world.run_sql(BY_KEY, Update).await
            },
        ),
        refused_because(
            "corrupt_garbage_offset",
            "CHECKPOINT_ENTRY_CORRUPT",
            &["offsets/0"],
            "what is no entry of ours is damage, whatever version it claims to have",
        )
        .by(|world| async move {
            one_run(&world).await?;
            world.put("checkpoint/offsets/0", "v9\ngarbage\n");
            world.run_sql(BY_KEY, Update).await
        }),
        refused_because(
            "corrupt_missing_metadata",
            "CHECKPOINT_METADATA_MISSING",
            &["metadata"],
            "without the query's id no sink can tell what it has been given already",
        )
        .by(|world| async move {
            one_run(&world).await?;
            std::fs::remove_file(world.path("checkpoint/metadata")).unwrap();
            world.run_sql(BY_KEY, Update).await
        }),
    ]
}

fn running() -> Vec<Entry> {
    vec![
        ours("same_query_name", "CONCURRENT_QUERY", &["twin", "stop it first"]).by(
            |world| async move {
                let writer = |checkpoint: &str, frame: DataFrame| {
                    Ok::<_, fluvial::Error>(
                        world
                            .writer(frame, Append)?
                            .query_name("twin")
                            .option("checkpointLocation", checkpoint),
                    )
                };
                writer("one", world.events().await?)?.start().await?;
                let second = writer("two", world.events().await?)?.start().await;
                world.session.stop().await?;
                second.map(drop)
            },
        ),
        ours("same_checkpoint_concurrent", "CONCURRENT_QUERY", &["stop it first"]).by(
            |world| async move {
                let first = world.writer(world.events().await?, Append)?.start().await?;
                let second = world.writer(world.events().await?, Append)?.start().await;
                assert!(first.is_active());
                world.session.stop().await?;
                second.map(drop)
            },
        ),
        sparks("runtime_failure", &["batch 0", "try_divide"]).by(|world| async move {
            let frame = world.frame("SELECT v DIV (v - v) AS x FROM events").await?;
            let writer = world.writer(frame, Append)?.trigger(Trigger::AvailableNow);
            wait(&writer.start().await?).await
        }),
    ]
}
