//! The program itself, as people run it.

#![allow(clippy::unwrap_used)]

mod ad_clicks;
mod clickstream;
#[path = "../../../fluvial/tests/it/golden.rs"]
mod golden;
mod jobs;
#[cfg(feature = "kafka")]
mod kafka;
mod kills;
mod lifecycle;
mod mistakes;
mod program;
mod s3;
