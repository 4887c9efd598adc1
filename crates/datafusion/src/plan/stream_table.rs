//! A stream as a table of DataFusion: what a `TableScan` of a streaming query points to.

use super::StreamDefinition;
use crate::exec::{BatchInputExec, BatchRun};
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{Result, internal_err, plan_err};
use datafusion::datasource::{TableType, source_as_provider};
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan};
use datafusion::physical_plan::ExecutionPlan;
use fluvial_core::SourceId;
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The unbounded table of one source.
///
/// A scan of it can be planned only inside a batch: outside of one (`collect`, `show`) there is
/// no end to read up to.
pub struct StreamTable {
    name: Option<SourceId>,
    definition: Arc<dyn StreamDefinition>,
}

impl StreamTable {
    /// A table over a source. Without a name a query calls it by its position in the plan.
    pub fn new(name: Option<SourceId>, definition: Arc<dyn StreamDefinition>) -> Self {
        Self { name, definition }
    }
}

impl fmt::Debug for StreamTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StreamTable({})", self.definition.description())
    }
}

#[async_trait]
impl TableProvider for StreamTable {
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
        let Some(run) = state.config().get_extension::<BatchRun>() else {
            return plan_err!(
                "[STREAMING_QUERY_NOT_STARTED] queries with streaming sources must be executed \
                 with write_stream().start(): {} has no end to read up to",
                self.definition.description()
            );
        };
        let Some(id) = &self.name else {
            return internal_err!("a prepared query names its sources");
        };
        let columns = projection.cloned();
        Ok(Arc::new(BatchInputExec::new(&run, id, self.definition.schema(), columns)?))
    }
}

/// The stream that a scan reads, if it reads one, and its name.
pub fn stream_of(scan: &TableScan) -> Option<(Option<SourceId>, Arc<dyn StreamDefinition>)> {
    let provider = source_as_provider(&scan.source).ok()?;
    let any: &dyn Any = provider.as_ref();
    let table = any.downcast_ref::<StreamTable>()?;
    Some((table.name.clone(), Arc::clone(&table.definition)))
}

/// Whether any leaf of the plan is a stream.
pub fn is_streaming(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::TableScan(scan) => stream_of(scan).is_some(),
        _ => plan.inputs().into_iter().any(is_streaming),
    }
}
