//! The vocabulary and the contracts of Fluvial: sources, sinks, operators, state, batch logs,
//! ids and times.
//!
//! Everything here is small on purpose. A trait in this crate is a *contract*: its doc comment
//! lists numbered laws, and `fluvial-conformance` has one executable check per law. Nothing in
//! this crate performs I/O of its own, reads a clock, or draws a random number.
//!
//! # The life of batch `n`
//!
//! ```text
//!  plan(n)    offsets/n, create-if-absent: durable before anything runs; the winner is the truth
//!  run(n)     a pure function of (plan n, state version n)
//!  state      snapshots of version n + 1; unreferenced until the commit names them
//!  sink       commit(n), idempotent
//!  commit(n)  commits/n, create-if-absent: names the elected snapshots and the next watermarks
//! ```
//!
//! # Example
//!
//! Recovery is one pure function over the newest plan and the newest commit:
//!
//! ```
//! use fluvial_core::protocol::{Resume, resume};
//!
//! assert_eq!(resume(None, None)?, Resume::Fresh);
//! # Ok::<(), fluvial_core::Error>(())
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod account;
pub mod date_pattern;
pub mod ddl;
pub mod error;
pub mod frame;
pub mod ids;
pub mod interval;
pub mod key_group;
pub mod key_ranges;
pub mod late;
pub mod layout;
pub mod log;
pub mod name_case;
pub mod operator;
pub mod options;
pub mod protocol;
pub mod sink;
pub mod source;
pub mod source_log;
pub mod state;
#[cfg(test)]
mod testing;
pub mod time;
pub mod verify;

pub use account::RowAccount;
pub use error::{Error, ErrorKind, Result, store_condition};
pub use ids::{
    BatchId, OperatorId, PartitionId, QueryId, RunId, SinkId, SourceId, StateVersion, StoreId,
    StoreName, WatermarkId,
};
pub use interval::{CalendarInterval, parse_duration};
pub use key_group::{KeyGroup, KeyGroupCount, KeyGroupRange};
pub use key_ranges::KeyRanges;
pub use late::{LateBatch, LateHandling};
pub use layout::{PageLayout, StateLayout, StateVariable, TimeColumn, TimeKind, VariableKind};
pub use log::{
    BatchLog, Commit, OperatorShape, PinnedSettings, Plan, Put, QueryShape, SourceShape,
    WatermarkPolicy, WatermarkScope, Watermarks,
};
pub use name_case::NameCase;
pub use operator::{BatchInfo, Operator, OperatorCounts, OperatorRun, StateField, StateSchema};
pub use options::Options;
pub use sink::{CommitOutcome, Note, OutputMode, Sink, SinkMemory, SinkSpec, SinkWriter, Staged};
pub use source::{
    Frontier, LogRef, Offset, PlanRequest, ReadLimit, RowStream, Source, SourceRange, Split,
};
pub use source_log::{SourceLog, SourceLogEntry};
pub use state::{
    Change, Entries, KeyRange, POINT_KEYS, Prefetch, SealedStore, Snapshot, StateBackend,
    StateStore, StoreSize,
};
pub use time::{BatchTime, Clock, EventDuration, EventTime, EvictWatermark, LateWatermark};
pub use verify::{Damage, Verification};
