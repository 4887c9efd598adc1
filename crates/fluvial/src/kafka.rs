//! Topics of Kafka, as streams, as tables and as sinks.

use crate::session::Session;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use fluvial_core::options::Options;
use fluvial_core::{Clock, Result, Sink, Source};
use fluvial_datafusion::plan::{SourceFolder, StreamDefinition};
use fluvial_kafka::{
    Cluster, KafkaSink, KafkaSource, SinkOptions, SourceOptions, SourceOptionsKind,
};
use std::sync::Arc;

/// Topics that a query reads as they grow.
pub(crate) fn stream(session: &Session, options: Options) -> Result<Arc<dyn StreamDefinition>> {
    described(session, options, SourceOptionsKind::Stream)
}

/// What topics have now.
pub(crate) fn table(session: &Session, options: Options) -> Result<Arc<dyn StreamDefinition>> {
    described(session, options, SourceOptionsKind::Batch)
}

fn described(
    session: &Session,
    options: Options,
    kind: SourceOptionsKind,
) -> Result<Arc<dyn StreamDefinition>> {
    let options = SourceOptions::parse(options, kind)?;
    Ok(Arc::new(KafkaDefinition { options, clock: session.clock() }))
}

/// Topics to write to.
pub(crate) fn sink(options: Options) -> Result<Arc<dyn Sink>> {
    let options = SinkOptions::parse(options)?;
    let cluster = Arc::new(Cluster::new(options.client().clone()));
    Ok(Arc::new(KafkaSink::new(cluster, options)))
}

struct KafkaDefinition {
    options: SourceOptions,
    clock: Arc<dyn Clock>,
}

#[async_trait]
impl StreamDefinition for KafkaDefinition {
    fn schema(&self) -> SchemaRef {
        KafkaSource::schema_of(&self.options)
    }

    fn description(&self) -> String {
        KafkaSource::description_of(&self.options)
    }

    async fn open(&self, log: SourceFolder) -> Result<Arc<dyn Source>> {
        let cluster = Arc::new(Cluster::new(self.options.client().clone()));
        let source = KafkaSource::new(cluster, self.options.clone(), Arc::clone(&self.clock));
        Ok(Arc::new(source.with_folder(log.store, log.folder)))
    }
}
