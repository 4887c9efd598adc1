//! Delta tables written by this crate, read back with the Delta library.

#![allow(clippy::unwrap_used)]

mod bad_log;
mod hand;
mod laws;
mod many_writers;
mod rules;
mod schema;
mod source;
mod source_laws;
mod table;
mod tracking;
mod traps;
