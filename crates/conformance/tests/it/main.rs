//! Each law of the kit passes an honest implementation and catches its saboteurs.

#![allow(clippy::unwrap_used)]

mod log;
mod operator;
mod sink;
mod source;
mod state;
