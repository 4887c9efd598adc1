//! Kafka topics as sources and exactly-once sinks of Fluvial.
//!
//! [`KafkaSource`] reads topics: the query's checkpoint holds the offsets, so no consumer group is
//! joined and nothing that a group does can move them. [`KafkaSink`] writes each batch as one
//! transaction, which also records the batch and the note of the attempt: a batch that comes again
//! is recognised whoever brings it, and whoever was overtaken is fenced by the broker.
//!
//! Both speak to a [`Broker`], a small trait. [`Cluster`] is the one that people use, over
//! librdkafka; the tests of this crate have a model of a broker besides, with transactions,
//! fencing, retention and topics that are made again.
//!
//! Nothing here needs an async runtime: what blocks does so on a thread of its own.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod broker;
mod client_options;
mod librdkafka;
mod range_rows;
mod sink;
mod source;

pub use broker::Broker;
pub use client_options::ClientOptions;
pub use librdkafka::Cluster;
pub use range_rows::RangeRows;
pub use sink::{Delivery, KafkaSink, SinkOptions};
pub use source::{KafkaSource, Position, SourceOptions, SourceOptionsKind};
