//! Whole queries in a simulated world: `cargo test -p fluvial-engine --test it`.

mod explore;
mod handle;
mod healthy;
mod parts;
mod queries;
mod recovery;
mod reports;
mod retention;
mod sabotage;
mod scenarios;
mod triggers;
mod watermark;
mod world;
