//! The simulator for whole queries: runs any of them in a world that crashes, fails and races, and says what breaks.
//!
//! A [`Query`] is any query of Fluvial, in SQL or built in Rust, with sources, sinks, processors
//! and state backends of one's own. An [`Input`] is what arrives for it, wave after wave.
//! [`check`] runs the real engine over it: once without a fault, and then again and again in worlds
//! where processes die before and after every call to the store, calls fail and answers are lost,
//! disks are full, clocks jump, several runs work on one checkpoint at once and every restart has
//! other settings. After each the output must be that of the run without a fault.
//!
//! ```
//! use fluvial_testing::{Input, Query, check};
//!
//! let query = Query::sql(
//!     "views",
//!     "SELECT page, ms / 2 AS half FROM STREAM read_files('sim://world/in', format => 'json', \
//!      maxFilesPerTrigger => {limit}, schema => 'page string, ms int')",
//! );
//! let input = Input::new()
//!     .file("in/0.json", "{\"page\":\"/a\",\"ms\":4}\n")
//!     .then()
//!     .file("in/1.json", "{\"page\":\"/b\",\"ms\":6}\n");
//! check(&query, &input, 0..2).expect("every schedule gives the same output");
//! ```
//!
//! A failure prints one line that replays it: see [`Simulation::replay`].

#![cfg_attr(test, allow(clippy::unwrap_used))]

#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/testing.md")]
mod book {}
mod backend;
mod bounded_rate;
mod check;
mod coverage;
pub mod gallery;
mod garbage;
mod generate;
mod input;
pub mod kinds;
mod life;
mod oracle;
mod output;
mod parts;
mod query;
mod schedule;
mod shrink;
mod simulation;
mod trace;
mod world;

pub use backend::Backend;
pub use check::{Failure, Report, check};
pub use coverage::Coverage;
pub use fluvial_sim as sim;
pub use generate::random_query;
pub use input::Input;
pub use output::Output;
pub use parts::{Ground, Parts};
pub use query::{Cut, Query, Start};
pub use schedule::{Life, OldFiles, RunPlan, Schedule};
pub use simulation::{Outcome, Simulation, Violation, aside};
pub use world::World;
