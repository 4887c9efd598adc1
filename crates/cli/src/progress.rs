//! What people and programs see of running queries.
//!
//! [`Reporter`] listens to the session. On a terminal it keeps a few lines up to date
//! ([`live::Live`]); elsewhere it prints each batch as a line of JSON ([`json`]). What a query has
//! done so far is a [`view::View`]; turning views into text is pure.

mod json;
mod live;
mod numbers;
mod reporter;
#[cfg(test)]
mod testing;
mod view;

pub(crate) use live::Style;
pub(crate) use reporter::{Output, Reporter};
pub(crate) use view::{End, Pace};
