//! The source and the sink on a model of a broker, on librdkafka's mock cluster, and on a real
//! broker where there is one.

#![allow(clippy::unwrap_used)]

mod laws;
mod mock;
mod model;
mod reading;
mod real;
mod rows;
mod writing;
