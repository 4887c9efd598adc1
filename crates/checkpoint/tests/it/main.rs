//! The checkpoint in a world where everything fails.

#![allow(clippy::unwrap_used)]

mod cleaning;
mod fixtures;
mod laws;
mod local;
mod parsing;
mod recovery;
mod torn;
mod world;
