//! Runs cases recorded from Spark against Fluvial and says what differs, batch by batch.
//!
//! ```
//! let case = fluvial_oracle::Case::parse(r#"{"name": "c", "category": "window",
//!     "output_mode": "append", "conf": {}, "sources": [], "steps": [],
//!     "plan": {"op": "source", "id": "s"}, "ordered": false, "expected": {"batches": []}}"#)?;
//! assert_eq!(case.name, "c");
//! # Ok::<(), anyhow::Error>(())
//! ```

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod build;
mod case;
mod compare;
mod differences;
mod feed;
mod gate;
mod plan;
mod processors;
mod run;
mod scope;
mod values;
mod verdict;

pub use case::Case;
pub use compare::{Verdict, judge};
pub use run::{Options, Outcome, run};
pub use scope::{Scope, scope_of};
pub use verdict::{error_of, verdict_of};
