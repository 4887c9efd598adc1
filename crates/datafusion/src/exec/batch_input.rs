//! `BatchInputExec`: the rows that one batch takes from one source.

use super::batch_run::BatchRun;
use super::properties;
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, exec_err, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use fluvial_core::SourceId;
use futures::{StreamExt, TryStreamExt};
use std::fmt;
use std::sync::Arc;

/// A leaf: one partition per split of the planned range, empty if the source has nothing new.
#[derive(Debug)]
pub(crate) struct BatchInputExec {
    source: SourceId,
    projection: Option<Vec<usize>>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl BatchInputExec {
    pub(crate) fn new(
        run: &BatchRun,
        source: &SourceId,
        schema: SchemaRef,
        projection: Option<Vec<usize>>,
    ) -> Result<Self> {
        let schema = match &projection {
            Some(columns) => Arc::new(schema.project(columns)?),
            None => schema,
        };
        let splits = run.plan().ranges.get(source).map_or(1, |range| range.splits.len().max(1));
        let properties = properties::of(Arc::clone(&schema), splits);
        Ok(Self { source: source.clone(), projection, schema, properties })
    }
}

impl DisplayAs for BatchInputExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let names: Vec<_> = self.schema.fields().iter().map(|f| f.name().as_str()).collect();
        write!(f, "BatchInputExec: source={}, columns=[{}]", self.source, names.join(", "))
    }
}

impl ExecutionPlan for BatchInputExec {
    fn name(&self) -> &str {
        "BatchInputExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    properties::no_expressions!();

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(run) = context.session_config().get_extension::<BatchRun>() else {
            return internal_err!("a batch input runs only inside a batch");
        };
        let schema = Arc::clone(&self.schema);
        let Some(range) = run.plan().ranges.get(&self.source) else {
            let none = futures::stream::empty();
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, none)));
        };
        let Some(source) = run.source(&self.source) else {
            return exec_err!("the query has no source {}", self.source);
        };
        let Some(split) = range.splits.get(partition) else {
            let none = futures::stream::empty();
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, none)));
        };
        let rows =
            source.read(range, split, self.projection.as_deref()).map_err(crate::error::plan)?;
        let (run, id) = (Arc::clone(&run), self.source.clone());
        let rows = rows.map_err(crate::error::plan).inspect_ok(move |batch| {
            *run.report().source_rows.entry(id.clone()).or_default() += batch.num_rows() as u64;
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows.boxed())))
    }
}
