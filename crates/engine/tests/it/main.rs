//! Whole queries in a simulated world: `cargo test -p fluvial-engine --test it`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod explore;
mod handle;
mod healthy;
mod idle;
mod late_rows;
mod over_memory;
mod parts;
mod queries;
mod recovery;
mod reports;
mod retention;
mod sabotage;
mod scenarios;
mod timers;
mod triggers;
mod watermark;
mod world;
mod zombie;
