//! A rate source that comes to an end.

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use fluvial::{MemorySource, arrow};
use fluvial_core::{
    Frontier, Offset, Options, PlanRequest, ReadLimit, Result, RowStream, Source, SourceRange,
    Split,
};
use fluvial_sources::RateMicroBatchSource;
use std::sync::Arc;

/// Batches of ten rows, one for each row of another source that stands for time. A rate source
/// itself has a batch for each run, and the clocked one rows for each second: neither is the same
/// in two histories.
pub(crate) struct BoundedRate {
    rate: RateMicroBatchSource,
    time: Arc<MemorySource>,
}

impl BoundedRate {
    pub(crate) fn new(time: Arc<MemorySource>) -> Result<Self> {
        let options = Options::new([("rowsPerBatch", "10"), ("numPartitions", "2")]);
        Ok(Self { rate: RateMicroBatchSource::new(options)?, time })
    }

    /// How many rows there are by now.
    async fn rows(&self) -> Result<u64> {
        Ok(self.time.frontier().await?.0.as_u64().unwrap_or_default() * 10)
    }
}

#[async_trait]
impl Source for BoundedRate {
    fn description(&self) -> String {
        self.rate.description()
    }

    fn identity(&self) -> String {
        self.rate.identity()
    }

    fn kind(&self) -> &str {
        self.rate.kind()
    }

    fn schema(&self) -> SchemaRef {
        self.rate.schema()
    }

    fn read_limit(&self) -> ReadLimit {
        self.rate.read_limit()
    }

    async fn initial(&self) -> Result<Offset> {
        self.rate.initial().await
    }

    async fn frontier(&self) -> Result<Frontier> {
        Ok(Frontier(self.rows().await?.into()))
    }

    async fn plan(&self, request: PlanRequest<'_>) -> Result<Option<SourceRange>> {
        let offset = request.start.json().get("offset").and_then(serde_json::Value::as_u64);
        if offset.unwrap_or_default() >= self.rows().await? {
            return Ok(None);
        }
        self.rate.plan(PlanRequest { until: None, ..request }).await
    }

    async fn adopt(&self, range: &SourceRange) -> Result<()> {
        self.rate.adopt(range).await
    }

    fn read(
        &self,
        range: &SourceRange,
        split: &Split,
        projection: Option<&[usize]>,
    ) -> Result<RowStream> {
        self.rate.read(range, split, projection)
    }

    async fn release(&self, range: &SourceRange) -> Result<()> {
        self.rate.release(range).await
    }
}
