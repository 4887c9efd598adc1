//! `LateFilterExec`: counts the rows that come to an operator, and drops those that came too late.
//!
//! It stands below partial aggregation, so that what is counted is rows of the input.

use super::batch_run::{BatchRun, Judge};
use super::properties;
use arrow::array::RecordBatch;
use arrow::compute::{filter_record_batch, not};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use fluvial_core::{LateBatch, OperatorId};
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

/// Judges rows by the time or window at `column` with the late watermark of `operator`. Without a
/// time no row is late.
#[derive(Debug)]
pub(crate) struct LateFilterExec {
    input: Arc<dyn ExecutionPlan>,
    column: Option<usize>,
    operator: OperatorId,
    judged: Judged,
    properties: Arc<PlanProperties>,
}

impl LateFilterExec {
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        column: Option<usize>,
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
        let name = self.column.map_or("no event time", |column| schema.field(column).name());
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
        let judging = Judging {
            run,
            filter,
            column: self.column,
            operator: self.operator.clone(),
            partition,
        };
        let rows = input.map(move |batch| judging.on_time(batch?));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

/// The filter at work on one partition.
struct Judging {
    run: Arc<BatchRun>,
    filter: LateFilter,
    column: Option<usize>,
    operator: OperatorId,
    partition: usize,
}

impl Judging {
    fn on_time(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let judged = self.column.map(|column| self.filter.judge(batch.column(column)));
        let late = judged.transpose().map_err(crate::error::plan)?.flatten();
        {
            let report = &mut self.run.report();
            let totals = report.operators.entry(self.operator.clone()).or_default();
            let below = totals.below.get_or_insert_default();
            below.came += batch.num_rows() as u64;
            below.late += late.as_ref().map_or(0, |late| late.count);
        }
        let Some(late) = late else { return Ok(batch) };
        if self.run.wants_late() {
            let rows = filter_record_batch(&batch, &not(&late.keep)?)?;
            let late = LateBatch { port: 0, rows };
            self.run.keep_late(&self.operator, Judge::Filter, self.partition, late);
        }
        Ok(filter_record_batch(&batch, &late.keep)?)
    }
}
