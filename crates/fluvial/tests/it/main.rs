//! The library as a program uses it.

#![allow(clippy::unwrap_used)]

mod clock;
mod golden;
mod jobs;

// The examples, as people copy them; the tests have a main of their own.
#[expect(dead_code)]
#[path = "../../examples/clickstream.rs"]
mod clickstream_example;
#[expect(dead_code)]
#[path = "../../examples/event_totals.rs"]
mod event_totals_example;
#[expect(dead_code)]
#[path = "../../examples/rate_approx.rs"]
mod rate_approx_example;
