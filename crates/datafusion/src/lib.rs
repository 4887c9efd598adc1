//! The DataFusion front of Fluvial: streaming plans, Spark's functions and SQL, and the runner
//! that executes a batch as a DataFusion plan.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod dialect;
mod error;
mod exec;
pub mod functions;
mod late;
pub mod plan;
mod runner;
pub mod sql;

/// Processors of the user, and what they are given.
pub mod transform {
    pub use fluvial_core::{BatchTime, EventTime};
    pub use fluvial_operators::transform::*;
}

/// The state of operators as tables.
pub mod inspect {
    pub use fluvial_operators::Side;
    pub use fluvial_operators::inspect::*;
}

pub use error::from_datafusion;
pub use late::late_schema;
pub use runner::DataFusionRunner;
