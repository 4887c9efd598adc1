//! What stands for topics of Kafka in a program that was built without: an error that says so.

use crate::session::Session;
use fluvial_core::options::Options;
use fluvial_core::{Error, Result, Sink};
use fluvial_datafusion::plan::StreamDefinition;
use std::sync::Arc;

pub(crate) fn stream(_: &Session, _: Options) -> Result<Arc<dyn StreamDefinition>> {
    Err(left_out())
}

pub(crate) fn table(_: &Session, _: Options) -> Result<Arc<dyn StreamDefinition>> {
    Err(left_out())
}

pub(crate) fn sink(_: Options) -> Result<Arc<dyn Sink>> {
    Err(left_out())
}

fn left_out() -> Error {
    Error::invalid("this program was built without Kafka: build it with the feature kafka")
        .with_condition("DATA_SOURCE_NOT_FOUND")
}
