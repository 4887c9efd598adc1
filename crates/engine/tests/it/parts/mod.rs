//! The smallest honest parts that a query can be made of, and a builder that puts them together.

pub(crate) mod around;
pub(crate) mod operators;
pub(crate) mod query;
pub(crate) mod rows;
pub(crate) mod sink;
pub(crate) mod source;
pub(crate) mod spawner;
pub(crate) mod state;
