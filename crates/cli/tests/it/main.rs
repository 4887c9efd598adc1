//! The program itself, as people run it.

#![allow(clippy::unwrap_used)]

mod clickstream;
mod kills;
mod lifecycle;
mod mistakes;
mod program;
