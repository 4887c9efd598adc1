//! Stateful operators and the columnar kernels around them: aggregation, sessions, joins,
//! deduplication, processors, limit, windows and late rows.
//!
//! An operator is a pure function from (state, rows, batch) to rows and state; see the laws of
//! [`fluvial_core::Operator`]. Nothing here reads a clock, performs I/O or depends on the order
//! of a hash table. How rows come to an operator, and in which plan it stands, is the planner's
//! business.
//!
//! ```
//! use arrow::array::TimestampMicrosecondArray;
//! use fluvial_operators::{WindowSpec, window_time};
//!
//! let windows = WindowSpec::parse("10 seconds", None, None)?;
//! let times = TimestampMicrosecondArray::from(vec![12_000_000, -1]);
//! let assigned = windows.tumbling(&times);
//! assert_eq!(window_time(&assigned)?.values(), &[19_999_999, -1]);
//! # Ok::<(), fluvial_core::Error>(())
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod aggregation;
mod dedup;
mod entries;
mod error;
mod event_time;
pub mod inspect;
mod join;
mod late_gate;
mod limit;
mod numbers;
mod pages;
mod session;
pub mod transform;
mod watermark;
mod window;

pub use aggregation::{Aggregation, GroupKeys};
pub use dedup::Dedup;
pub use event_time::{EventTimeKey, LateFilter, LateRows, event_times, late_watermark};
pub use join::{
    JoinEviction, JoinKind, JoinRange, JoinSide, Side, StreamJoin, join_output_watermark,
};
pub use limit::Limit;
pub use session::{SessionAggregation, SessionTime};
pub use watermark::OutputWatermark;
pub use window::{WindowSpec, window_time, window_type};
