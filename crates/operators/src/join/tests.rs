//! Tests of the join: the kit's laws, a model that knows nothing of batches, and what went wrong
//! elsewhere.

mod harness;
mod laws;
mod model;
mod pages;
mod skew;
mod stories;
