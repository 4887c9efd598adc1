//! The micro-batch loop, triggers, query handles, progress and listeners; it knows traits, never
//! implementations.
//!
//! A [`QuerySpec`] says what to run: sources, a [`BatchRunner`] that turns their rows into
//! output, a sink, and the world they live in. [`Queries::start`] runs it in the background and
//! gives a [`StreamingQuery`]; [`Engine`] gives the bare future to those who have their own
//! executor.
//!
//! The loop plans, elects, commits and retains. It has no runtime, reads no clock but the one it
//! is given, and draws no random number: whole queries run in a simulated world.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod account;
mod batch;
mod coverage;
mod engine;
mod event;
mod event_time;
mod exchange;
mod fence;
mod idle;
mod inside;
mod late;
mod listener;
mod note;
mod operator_runner;
mod planning;
mod progress;
mod queries;
mod query;
mod recent;
mod recovery;
mod report;
mod retention;
mod retry;
mod run;
mod runner;
mod settings;
mod spawn;
mod spec;
mod status;
mod stopwatch;
#[cfg(test)]
mod testing;
mod timings;
mod trigger;
mod watch;
mod watermarks;

pub use account::check_account;
pub use engine::Engine;
pub use event::{
    Observe, QueryEvent, QueryFailure, QueryIdle, QueryStarted, QueryTerminated, Unobserved,
};
pub use event_time::EventTimeStats;
pub use idle::WatermarkInput;
pub use late::{Judged, LateOutput, LateRecords, LateWriter, RecordLate};
pub use listener::{ListenerId, StreamingQueryListener};
pub use operator_runner::{Input, InputWatermark, MapRows, OperatorRunner, RouteRows, Stateful};
pub use progress::{SinkProgress, SourceProgress, StateOperatorProgress, StreamingQueryProgress};
pub use queries::Queries;
pub use query::StreamingQuery;
pub use retry::Retry;
pub use runner::{BatchContext, BatchOutput, BatchRunner, OperatorReport, RunnerShape};
pub use settings::{CheckpointRules, CompareShapes, EmptyBatches, Pinned, RetainFrom, Settings};
pub use spawn::Spawn;
pub use spec::{Environment, QuerySpec};
pub use status::StreamingQueryStatus;
pub use stopwatch::Stopwatch;
pub use trigger::Trigger;
