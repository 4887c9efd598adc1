//! Everything that must hold before a change lands.

use crate::{WORKSPACE, cargo, cargo_output, cargo_with, kafka, peers, s3, simulate, tidy};
use anyhow::{Result, bail};
use std::time::Instant;

/// Crates that people take alone, and what must not come with them.
const SMALL: &[&str] = &[
    "fluvial-core",
    "fluvial-checkpoint",
    "fluvial-state",
    "fluvial-state-lsm",
    "fluvial-state-memory",
];
const HEAVY: &[&str] = &["datafusion", "deltalake", "tokio"];
/// A program on a state store; its folder as an object store brings tokio.
const STORE_ALONE: &str = "own-store";

type Step = (&'static str, fn() -> Result<()>);

const STEPS: &[Step] = &[
    ("format", || cargo(&["fmt", "--all", "--check"])),
    ("tidy", tidy::check),
    ("small crates stay small", small_crates),
    ("lints", lints),
    ("documentation", documentation),
    ("features", features),
    ("tests", tests),
    ("kafka", kafka::check),
    ("a minute of simulation", || simulate(&["--minutes", "1"])),
    ("the Python reader of Delta", || peers::run(&["delta".to_owned()])),
    ("files of other implementations", || peers::run(&["files".to_owned()])),
];

/// Runs every step, the quick ones first, and stops at the first that fails.
pub(crate) fn run() -> Result<()> {
    for (name, step) in STEPS {
        println!("== {name}");
        let start = Instant::now();
        step()?;
        println!("== {name}: {:.0} s", start.elapsed().as_secs_f64());
    }
    Ok(())
}

/// The feature sets that people use, besides the default one.
fn features() -> Result<()> {
    for features in ["", "sql", "delta"] {
        let only = ["clippy", "--package", "fluvial", "--no-default-features", "--features"];
        cargo(&[only.as_slice(), &[features, "--", "--deny", "warnings"]].concat())?;
    }
    for package in ["fluvial-sources", "fluvial-sinks"] {
        cargo(&["test", "--package", package, "--features", "avro,orc", "--lib", "--test", "it"])?;
    }
    Ok(())
}

fn lints() -> Result<()> {
    let rest = ["--all-targets", "--", "--deny", "warnings"];
    cargo(&[["clippy"].as_slice(), WORKSPACE.as_slice(), rest.as_slice()].concat())
}

fn documentation() -> Result<()> {
    let command = [["doc"].as_slice(), WORKSPACE.as_slice(), &["--no-deps"]].concat();
    cargo_with(&[("RUSTDOCFLAGS", "--deny warnings")], &command)
}

/// All tests, with a hundred kills instead of ten, and on S3 if a server can be had.
fn tests() -> Result<()> {
    let server = s3::server()?;
    let address = server.as_ref().map(s3::Server::address);
    let mut variables = vec![("FLUVIAL_KILLS", "100"), ("FLUVIAL_KILLS_LSM", "10")];
    variables.extend(address.as_deref().map(|address| (s3::VARIABLE, address)));
    cargo_with(&variables, &[["test"].as_slice(), WORKSPACE.as_slice()].concat())
}

/// Each crate that is used alone is checked as it is used: alone.
pub(crate) fn small_crates() -> Result<()> {
    for package in SMALL {
        is_without(package, HEAVY)?;
    }
    is_without(STORE_ALONE, &HEAVY[..2])
}

fn is_without(package: &str, heavy: &[&str]) -> Result<()> {
    let tree =
        cargo_output(&["tree", "--package", package, "--edges", "normal", "--prefix", "none"])?;
    for line in tree.lines() {
        let name = line.split(' ').next().unwrap_or_default();
        if heavy.iter().any(|heavy| name == *heavy || name.starts_with(&format!("{heavy}-"))) {
            bail!("{package} has come to depend on {name}");
        }
    }
    Ok(())
}
