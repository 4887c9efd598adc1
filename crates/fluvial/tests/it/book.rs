//! The SQL of the book and of the README, run; the Rust code in them are documentation tests.

use fluvial::prelude::*;
use fluvial::sql::{Command, parse_script};
use fluvial::{Executed, ScriptOptions};
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Every page, the README first.
fn pages() -> Vec<PathBuf> {
    let book = fs::read_dir(Path::new(ROOT).join("docs/src")).unwrap();
    let mut pages: Vec<_> = book
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    pages.insert(0, Path::new(ROOT).join("README.md"));
    pages
}

/// The blocks of a page that are marked as SQL.
fn blocks(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let block = |part: &str| part.split("\n```").next().unwrap_or_default().to_owned();
    text.split("```sql\n").skip(1).map(block).collect()
}

/// A folder with what the pages read.
fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    for (from, to) in [
        ("examples/clickstream/landing/clicks", "landing/clicks"),
        ("examples/event_totals/landing/events", "landing/events"),
        ("examples/ad_clicks/landing/impressions", "landing/impressions"),
        ("examples/ad_clicks/landing/clicks", "landing/ad_clicks"),
    ] {
        let to = folder.path().join(to);
        fs::create_dir_all(&to).unwrap();
        for file in fs::read_dir(Path::new(ROOT).join(from)).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
    fs::create_dir(folder.path().join("clicks")).unwrap();
    folder
}

/// Runs a script as the program does. A query that goes on for ever is stopped.
async fn run(session: &Session, script: &str) -> fluvial::Result<()> {
    let options = ScriptOptions {
        checkpoints: Some(".fluvial/checkpoints".into()),
        trigger: Some(Trigger::AvailableNow),
    };
    let mut running: Vec<StreamingQuery> = Vec::new();
    for statement in parse_script(script)? {
        let endless = matches!(&statement.command,
            Command::CreateStreamingTable(create) if create.properties.trigger.is_some());
        if matches!(statement.command, Command::Query(_)) {
            for query in running.drain(..) {
                query.await_termination().await?;
            }
        }
        match session.execute(&statement, &options).await? {
            Executed::Query(_, query) if endless => query.stop().await?,
            Executed::Query(_, query) => running.push(query),
            Executed::Rows(rows) if rows.is_streaming() => {
                let noop = rows.write_stream()?.format("noop").trigger(Trigger::AvailableNow);
                running.push(noop.start().await?);
            }
            Executed::Rows(rows) => drop(rows.collect().await.map_err(fluvial::from_datafusion)?),
            Executed::Done(_) => {}
        }
    }
    for query in running {
        query.await_termination().await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_sql_runs() {
    let mut run_blocks = 0;
    for page in pages() {
        for block in blocks(&page) {
            let folder = folder();
            let session = Session::builder().base_dir(folder.path()).build().unwrap();
            if let Err(error) = run(&session, &block).await {
                panic!("{}: {error}\n{block}", page.display());
            }
            run_blocks += 1;
        }
    }
    assert!(run_blocks >= 6, "{run_blocks}");
}

/// What the page shows beside PySpark is what the program runs.
#[test]
fn the_comparison_shows_the_example_files() {
    let shown = blocks(&Path::new(ROOT).join("docs/src/pyspark.md"));
    for example in ["clickstream", "event_totals", "rate_approx"] {
        let file = Path::new(ROOT).join("examples").join(example).join("pipeline.sql");
        let file = fs::read_to_string(file).unwrap();
        assert!(shown.iter().any(|block| file.contains(block.trim())), "{example}");
    }
}
