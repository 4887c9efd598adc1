//! Delta tables written by this crate, read back with the Delta library.

#![allow(clippy::unwrap_used)]

mod laws;
mod many_writers;
mod schema;
mod table;
