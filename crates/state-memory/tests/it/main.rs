//! The laws of state, stamped on the backend.

#![allow(clippy::unwrap_used)]

mod memory;
