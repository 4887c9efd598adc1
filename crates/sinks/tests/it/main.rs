//! The laws of sinks, on every sink of this crate.

#![allow(clippy::unwrap_used)]

mod in_process;
