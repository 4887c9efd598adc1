//! The jobs of the examples, three of them against what Spark wrote and reported.
//!
//! The code of the examples is what runs here: its paths are relative to the session's folder.

mod clickstream;
mod event_totals;
mod rate_approx;
mod site_sessions;
