//! The DataFusion front of Fluvial: streaming plans, Spark's functions and SQL, and the runner
//! that executes a batch as a DataFusion plan.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod dialect;
pub mod functions;
pub mod sql;
