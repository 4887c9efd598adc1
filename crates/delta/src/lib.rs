//! Delta Lake tables as sources and sinks of Fluvial, exactly once, and as tables to query.
//!
//! [`DeltaSink`] publishes each batch as one version of the table. The version names the query
//! and the batch (a `txn` action), so a batch that comes again is recognised whoever brings it,
//! and carries the note of the attempt in its commit info. Any number of queries, and other
//! engines, may write to one table. [`DeltaSource`] reads what a table has and then what is added
//! to it, one version after another.
//!
//! Everything here runs inside a tokio runtime: the Delta library needs one. Data files and the
//! log go through one object store; give [`TableLocation::with_store`] one that is durable when
//! a call returns.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod checkpoint;
mod commit;
mod conform;
mod create;
mod entry;
mod error;
mod fit;
mod form;
mod location;
mod maintain;
mod merge;
mod merge_arithmetic;
mod merge_evolution;
mod merge_rules;
mod options;
mod partition_text;
mod provider;
mod rules;
mod sink;
mod source;
mod supported;
mod types;
mod uploads;
mod writer;

pub use create::create_table;
pub use location::TableLocation;
pub use maintain::{OptimizeReport, VacuumMode, history, optimize, vacuum};
pub use merge::{
    Merge, MergeAction, MergeClause, MergeReport, MergeTransaction, MergeWhen, merge, table_schema,
};
pub use options::DeltaOptions;
pub use provider::{TableVersion, table_provider};
pub use rules::Compile;
pub use sink::DeltaSink;
pub use source::{
    DeltaChanges, DeltaLoss, DeltaReading, DeltaSource, DeltaSourceOptions, DeltaStart,
    DeltaTracking,
};
