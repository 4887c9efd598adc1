//! The laws of sinks, on every sink of this crate.

#![allow(clippy::unwrap_used)]

#[cfg(all(feature = "avro", feature = "orc"))]
mod containers;
mod file_crashes;
mod file_laws;
mod file_output;
mod files;
mod in_process;
