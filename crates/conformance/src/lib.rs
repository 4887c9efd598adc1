//! One executable check per law of every Fluvial trait, to stamp on any implementation.
//!
//! Each trait has a macro that expands to one `#[test]` per law. The factory you pass receives
//! the object store, so the kit can crash, race and restart your implementation without its
//! help. Each law comes with a *saboteur*: a broken implementation that it must catch.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod log;
pub mod operator;
pub mod sink;
pub mod source;
pub mod state;
