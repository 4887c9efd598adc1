//! The micro-batch loop, triggers, query handles, progress and listeners; it knows traits, never
//! implementations.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod event_time;
mod runner;
mod stopwatch;

pub use event_time::EventTimeStats;
pub use runner::{BatchContext, BatchOutput, BatchRunner, OperatorReport, RunnerShape};
pub use stopwatch::Stopwatch;
