//! A pipeline with a processor and a sink of its own. See `tests/pipeline.rs` for how it is tested.

mod ledger;
mod streaks;

pub use ledger::{Ledger, Naming, read_rows};
pub use streaks::Streaks;
