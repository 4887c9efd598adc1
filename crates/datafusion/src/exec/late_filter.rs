//! `LateFilterExec`: drops rows that came too late for an operator, and counts them.
//!
//! It stands below partial aggregation, so that what is counted is rows of the input.

use super::batch_run::BatchRun;
use super::properties;
use arrow::compute::filter_record_batch;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use fluvial_core::OperatorId;
use fluvial_operators::{LateFilter, late_watermark};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// In which output modes rows can be late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Judged {
    /// Not in complete mode: everything is emitted again anyway.
    ByMode,
    /// In every mode: what has left is never emitted again.
    Always,
}

/// Judges rows by the time or window at `column` with the late watermark of `operator`.
#[derive(Debug)]
pub(crate) struct LateFilterExec {
    input: Arc<dyn ExecutionPlan>,
    column: usize,
    operator: OperatorId,
    judged: Judged,
    properties: Arc<PlanProperties>,
}

impl LateFilterExec {
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        column: usize,
        operator: OperatorId,
        judged: Judged,
    ) -> Self {
        let partitions = input.output_partitioning().partition_count();
        let properties = properties::of(input.schema(), partitions);
        Self { input, column, operator, judged, properties }
    }
}

impl DisplayAs for LateFilterExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let schema = self.schema();
        let name = schema.field(self.column).name();
        write!(f, "LateFilterExec: {name}, operator={}", self.operator)
    }
}

impl ExecutionPlan for LateFilterExec {
    fn name(&self) -> &str {
        "LateFilterExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    properties::no_expressions!();

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(input) = children.into_iter().next() else {
            return internal_err!("a late filter needs one input");
        };
        Ok(Arc::new(Self::new(input, self.column, self.operator.clone(), self.judged)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(run) = context.session_config().get_extension::<BatchRun>() else {
            return internal_err!("a late filter runs only inside a batch");
        };
        let input = self.input.execute(partition, context)?;
        let late = run.watermarks(&self.operator).late;
        let filter = LateFilter::new(match self.judged {
            Judged::ByMode => late_watermark(run.plan().shape.mode, late),
            Judged::Always => late,
        });
        let (schema, column, operator) = (self.schema(), self.column, self.operator.clone());
        let rows = input.map(move |batch| {
            let batch = batch?;
            let late = filter.judge(batch.column(column)).map_err(crate::error::plan)?;
            let Some(late) = late else { return Ok(batch) };
            let report = &mut run.report();
            let totals = report.operators.entry(operator.clone()).or_default();
            totals.counts.rows_dropped_by_watermark += late.count;
            Ok(filter_record_batch(&batch, &late.keep)?)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
