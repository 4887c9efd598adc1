//! Sources and sinks of files: formats, schemas, paths, options.

use super::entry::{Draft, Entry, accepted, ours, refused_because, sparks};
use fluvial::OutputMode::Append;
use fluvial::prelude::*;

pub(super) fn entries() -> Vec<Entry> {
    let mut all = sources();
    all.extend(source_options());
    all.extend(sinks());
    all
}

fn sources() -> Vec<Entry> {
    vec![
        ours("no_schema_json", "SCHEMA_REQUIRED", &["schema(", "schema.inference"])
            .by(|world| async move { world.read_anything().json("in").await.map(drop) }),
        sparks("unknown_source", &["nosuch", "json"]).by(|world| async move {
            world.read("k string").format("nosuch").load("in").await.map(drop)
        }),
        ours("batch_only_source", "DATA_SOURCE_NOT_FOUND", &["jdbc", "json"]).by(
            |world| async move { world.read("k string").format("jdbc").load("in").await.map(drop) },
        ),
        ours("suite_source_single_file_path", "NOT_A_FOLDER", &["in/1.json", "folder"])
            .by(|world| async move { world.read("k string").json("in/1.json").await.map(drop) }),
        accepted("suite_source_glob_no_match").by(|world| async move {
            world.run(world.read("k string").json("in/*.nothing").await?, Append).await
        }),
        sparks("suite_source_duplicate_schema_columns", &["k"])
            .by(|world| async move { world.read("k string, k bigint").json("in").await.map(drop) }),
        ours("suite_source_text_two_columns", "TEXT_SINGLE_COLUMN", &["text", "k", "v"])
            .by(|world| async move { world.read("k string, v string").text("in").await.map(drop) }),
    ]
}

/// One option of a stream of files.
fn with(draft: Draft, name: &'static str, value: &'static str) -> Entry {
    draft.by(move |world| async move {
        world.read("k string").option(name, value).json("in").await.map(drop)
    })
}

fn source_options() -> Vec<Entry> {
    const VALUE: &str = "INVALID_OPTION_VALUE";
    vec![
        with(
            ours("suite_max_bytes_text", VALUE, &["maxBytesPerTrigger", "abc", "positive"]),
            "maxBytesPerTrigger",
            "abc",
        ),
        with(
            ours("suite_max_files_10.1", VALUE, &["maxFilesPerTrigger", "10.1", "positive"]),
            "maxFilesPerTrigger",
            "10.1",
        ),
        with(
            ours("suite_latest_first_text", VALUE, &["latestFirst", "maybe", "true"]),
            "latestFirst",
            "maybe",
        ),
        with(
            ours(
                "suite_clean_source_unknown",
                VALUE,
                &["cleanSource", "shred", "ARCHIVE, DELETE or OFF"],
            ),
            "cleanSource",
            "shred",
        ),
        with(
            ours(
                "suite_clean_source_archive_no_dir",
                "MISSING_OPTION",
                &["cleanSource", "sourceArchiveDir"],
            ),
            "cleanSource",
            "archive",
        ),
        with(
            ours("suite_source_time_travel_options", "OPTION_NOT_ALLOWED", &["modifiedAfter"]),
            "modifiedAfter",
            "2020-01-01T00:00:00",
        ),
    ]
}

fn sinks() -> Vec<Entry> {
    vec![
        sparks("unknown_sink", &["nosuch", "parquet"]).by(|world| async move {
            let writer = world.writer(world.events().await?, Append)?;
            world.end(writer.format("nosuch").option("path", "out")).await
        }),
        ours("no_checkpoint_parquet", "CHECKPOINT_LOCATION_NOT_SPECIFIED", &["checkpointLocation"])
            .by(|world| async move {
                let writer = world.events().await?.write_stream()?;
                world.end(writer.format("parquet").option("path", "out")).await
            }),
        ours("no_path_parquet", "PATH_NOT_SPECIFIED", &["path"]).by(|world| async move {
            let writer = world.writer(world.events().await?, Append)?;
            world.end(writer.format("parquet")).await
        }),
        ours("suite_sink_partition_missing_column", "PARTITION_COLUMN_NOT_FOUND", &["nope", "k"])
            .by(|world| async move {
                let writer = world.writer(world.frame("SELECT k, v FROM events").await?, Append)?;
                let writer = writer.format("parquet").option("path", "out");
                world.end(writer.partition_by(["nope"])).await
            }),
        ours("suite_sink_partition_all_columns", "ALL_PARTITION_COLUMNS_NOT_ALLOWED", &["column"])
            .by(|world| async move {
                let writer = world.writer(world.frame("SELECT k, v FROM events").await?, Append)?;
                let writer = writer.format("parquet").option("path", "out");
                world.end(writer.partition_by(["k", "v"])).await
            }),
        sparks("suite_sink_csv_struct", &["\"s\"", "CSV", "/out"]).by(|world| async move {
            let writer = world.writer(world.frame("SELECT k, s FROM events").await?, Append)?;
            world.end(writer.format("csv").option("path", "out")).await
        }),
        duplicate_columns("suite_sink_duplicate_columns", "parquet"),
        duplicate_columns("suite_sink_duplicate_columns_json", "json"),
    ]
}

fn duplicate_columns(name: &'static str, format: &'static str) -> Entry {
    refused_because(
        name,
        "COLUMN_ALREADY_EXISTS",
        &["k"],
        "a file with two columns of one name cannot be read back, by Spark neither",
    )
    .by(move |world| async move {
        let twice = world.frame("SELECT k, v AS k FROM events").await?;
        let writer = world.writer(twice, Append)?;
        world.end(writer.format(format).option("path", "out")).await
    })
}
