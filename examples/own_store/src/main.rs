//! Counts words: `cargo run -p own-store -- FOLDER word word ...` counts them and shows all counters;
//! `--at VERSION` shows how they were.

use fluvial_core::{Result, RunId, StateVersion};
use own_store::Counters;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

const USAGE: &str = "own-store FOLDER [--at VERSION | WORD...]";

fn main() -> std::process::ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        [folder, "--at", version] => match version.parse() {
            Ok(version) => futures::executor::block_on(show(folder, Some(StateVersion(version)))),
            Err(_) => return usage(),
        },
        [folder] => futures::executor::block_on(show(folder, None)),
        [folder, words @ ..] => futures::executor::block_on(count(folder, words)),
        [] => return usage(),
    };
    if let Err(error) = done {
        eprintln!("{error}");
        return std::process::ExitCode::FAILURE;
    }
    std::process::ExitCode::SUCCESS
}

fn usage() -> std::process::ExitCode {
    eprintln!("{USAGE}");
    std::process::ExitCode::from(2)
}

/// The folder as an object store. It does not sync; `fluvial-local-store` has one that does.
fn open(folder: &str) -> Result<Counters> {
    std::fs::create_dir_all(folder)
        .map_err(|error| fluvial_core::Error::invalid(format!("{folder}: {error}")))?;
    let objects = object_store::local::LocalFileSystem::new_with_prefix(folder)?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let run = RunId::new(format!("{:x}-{:x}", since.as_nanos(), std::process::id()))?;
    Counters::new(Arc::new(objects), run)
}

async fn show(folder: &str, version: Option<StateVersion>) -> Result<()> {
    for (name, count) in open(folder)?.all(version).await? {
        println!("{count} {name}");
    }
    Ok(())
}

async fn count(folder: &str, words: &[&str]) -> Result<()> {
    let version = open(folder)?.add(words).await?;
    println!("version {version}");
    show(folder, None).await
}
