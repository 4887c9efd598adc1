//! `WatermarkExec`: passes rows through and observes how far event time has come.

use super::batch_run::BatchRun;
use super::properties;
use arrow::array::RecordBatch;
use arrow::array::{Array, AsArray};
use arrow::datatypes::SchemaRef;
use arrow::datatypes::TimestampMicrosecondType;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use fluvial_core::WatermarkId;
use fluvial_engine::EventTimeStats;
use fluvial_operators::window_time;
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;

/// Observes the column at `column`; its schema carries the event-time mark.
#[derive(Debug)]
pub(crate) struct WatermarkExec {
    input: Arc<dyn ExecutionPlan>,
    column: usize,
    id: WatermarkId,
    properties: Arc<PlanProperties>,
}

impl WatermarkExec {
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        column: usize,
        id: WatermarkId,
        schema: SchemaRef,
    ) -> Self {
        let properties = properties::of(schema, input.output_partitioning().partition_count());
        Self { input, column, id, properties }
    }
}

impl DisplayAs for WatermarkExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let schema = self.schema();
        write!(f, "WatermarkExec: {}, id={}", schema.field(self.column).name(), self.id)
    }
}

impl ExecutionPlan for WatermarkExec {
    fn name(&self) -> &str {
        "WatermarkExec"
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
            return internal_err!("a watermark needs one input");
        };
        Ok(Arc::new(Self::new(input, self.column, self.id.clone(), self.schema())))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(run) = context.session_config().get_extension::<BatchRun>() else {
            return internal_err!("a watermark is observed only inside a batch");
        };
        let input = self.input.execute(partition, context)?;
        let (schema, column, id) = (self.schema(), self.column, self.id.clone());
        let out = Arc::clone(&schema);
        let rows = input.map(move |batch| {
            let batch = batch?;
            // A window is as late as its last microsecond.
            let last = match batch.column(column).as_struct_opt() {
                Some(windows) => Some(window_time(windows).map_err(crate::error::plan)?),
                None => None,
            };
            let times = match &last {
                Some(last) => Some(last),
                None => batch.column(column).as_primitive_opt::<TimestampMicrosecondType>(),
            };
            let Some(times) = times else {
                return internal_err!("event time is {}", batch.column(column).data_type());
            };
            if let Some(stats) = EventTimeStats::of(times) {
                let seen = &mut run.report().event_times;
                seen.entry(id.clone()).and_modify(|all| all.merge(stats)).or_insert(stats);
            }
            Ok(RecordBatch::try_new_with_options(
                Arc::clone(&out),
                batch.columns().to_vec(),
                &arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows())),
            )?)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
