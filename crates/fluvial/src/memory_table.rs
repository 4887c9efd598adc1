//! The table of a memory sink: what the query has put out so far.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{MemTable, Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use fluvial_sinks::MemorySink;
use std::fmt;
use std::sync::Arc;

/// Reads the committed rows of a [`MemorySink`], as they are when a query is planned.
pub(crate) struct MemorySinkTable {
    sink: Arc<MemorySink>,
    schema: SchemaRef,
}

impl MemorySinkTable {
    pub(crate) fn new(sink: Arc<MemorySink>, schema: SchemaRef) -> Self {
        Self { sink, schema }
    }
}

impl fmt::Debug for MemorySinkTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MemorySinkTable({})", self.sink.name())
    }
}

#[async_trait]
impl TableProvider for MemorySinkTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = self.sink.snapshot();
        // A batch may say less of nulls than the plan does, never more.
        let rows = rows.into_iter().map(|rows| {
            let (_, columns, _) = rows.into_parts();
            Ok(RecordBatch::try_new(self.schema(), columns)?)
        });
        let table = MemTable::try_new(self.schema(), vec![rows.collect::<Result<_>>()?])?;
        table.scan(state, projection, filters, limit).await
    }
}
