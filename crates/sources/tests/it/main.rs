//! What sources do, seen from outside: the laws, and the cases that Spark's behaviour pins.

#![allow(clippy::unwrap_used)]

mod auto;
mod bad_records;
mod cases;
mod cleaning;
#[cfg(all(feature = "avro", feature = "orc"))]
mod containers;
mod discovery;
mod evolution;
mod faults;
mod formats;
mod laws;
mod local;
mod messy;
mod mutations;
mod options;
mod query;
mod refusals;
