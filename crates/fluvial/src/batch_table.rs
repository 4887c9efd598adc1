//! A stream's definition read once, as a table: batch reads go through the same code as streams,
//! so a file means the same to both.

use crate::storage::Storage;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::TableType;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use fluvial_core::{BatchId, PlanRequest, ReadLimit, RunId, Source, SourceRange, Split};
use fluvial_datafusion::plan::{SourceFolder, StreamDefinition};
use futures::{StreamExt, TryStreamExt};
use std::fmt;
use std::sync::Arc;

/// What is there when a query is planned.
pub(crate) struct BatchTable {
    definition: Arc<dyn StreamDefinition>,
}

impl BatchTable {
    pub(crate) fn new(definition: Arc<dyn StreamDefinition>) -> Self {
        Self { definition }
    }

    pub(crate) fn definition(&self) -> &Arc<dyn StreamDefinition> {
        &self.definition
    }

    async fn plan(
        &self,
        splits: usize,
    ) -> fluvial_core::Result<(Arc<dyn Source>, Option<SourceRange>)> {
        let folder = Storage::temporary("batch-read")?;
        let folder = SourceFolder { store: folder.store, folder: folder.path };
        let source = self.definition.open(folder).await?;
        let start = source.initial().await?;
        let run = RunId::new("batch-read")?;
        let request = PlanRequest {
            batch: BatchId::FIRST,
            run: &run,
            start: &start,
            limit: ReadLimit::NONE,
            until: None,
            splits,
        };
        let range = source.plan(request).await?;
        if let Some(range) = &range {
            source.adopt(range).await?;
        }
        Ok((source, range))
    }
}

impl fmt::Debug for BatchTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchTable({})", self.definition.description())
    }
}

fn external(error: fluvial_core::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

#[async_trait]
impl TableProvider for BatchTable {
    fn schema(&self) -> SchemaRef {
        self.definition.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let cores = state.config().target_partitions();
        let (source, range) = self.plan(cores).await.map_err(external)?;
        let schema = match projection {
            Some(columns) => Arc::new(self.schema().project(columns)?),
            None => self.schema(),
        };
        let parts: Vec<Arc<dyn PartitionStream>> = range
            .iter()
            .flat_map(|range| range.splits.iter().map(move |split| (range, split)))
            .map(|(range, split)| -> Arc<dyn PartitionStream> {
                Arc::new(Part {
                    source: Arc::clone(&source),
                    range: range.clone(),
                    split: split.clone(),
                    projection: projection.cloned(),
                    schema: Arc::clone(&schema),
                })
            })
            .collect();
        let exec = StreamingTableExec::try_new(schema, parts, None, None, false, None)?;
        Ok(Arc::new(exec))
    }
}

/// One split.
struct Part {
    source: Arc<dyn Source>,
    range: SourceRange,
    split: Split,
    projection: Option<Vec<usize>>,
    schema: SchemaRef,
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source.description())
    }
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let rows = match self.source.read(&self.range, &self.split, self.projection.as_deref()) {
            Ok(rows) => rows.map_err(external).boxed(),
            Err(error) => futures::stream::once(async { Err(external(error)) }).boxed(),
        };
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }
}
