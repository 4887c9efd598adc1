//! The simulator over Fluvial's own queries: `cargo test -p fluvial-testing --test it`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

// The example's tests run here too: as a crate of its own it is built by `cargo xtask ci` only.
extern crate self as own_pipeline_test;

mod determinism;
#[path = "../../../../examples/own_pipeline_test/src/lib.rs"]
#[allow(unreachable_pub, reason = "it is the library of another crate")]
mod example;
mod gallery;
#[path = "../../../../examples/own_pipeline_test/tests/pipeline.rs"]
mod pipeline;
mod saboteurs;
mod shrinking;

use example::{Ledger, Naming, Streaks, read_rows};
