//! What the simulated world promises to the tests that rely on it.

#![allow(clippy::unwrap_used)]

mod faults;
mod scheduling;
mod store;
