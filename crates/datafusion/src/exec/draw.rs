//! `DrawExec`: the bits that each row of a batch draws from.

use super::batch_run::BatchRun;
use super::properties;
use crate::functions::next_random;
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use fluvial_core::{BatchId, RunId};
use futures::StreamExt;
use std::fmt;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Appends a column of random bits for each seed: where in the query it is, and what the query
/// says. Bits are a function of the batch's plan, the partition and the position of the row in it.
#[derive(Debug)]
pub(crate) struct DrawExec {
    input: Arc<dyn ExecutionPlan>,
    seeds: Vec<(u64, Option<i64>)>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl DrawExec {
    pub(crate) fn new(
        input: Arc<dyn ExecutionPlan>,
        seeds: Vec<(u64, Option<i64>)>,
        schema: SchemaRef,
    ) -> Self {
        let partitions = input.output_partitioning().partition_count();
        let properties = properties::of(Arc::clone(&schema), partitions);
        Self { input, seeds, schema, properties }
    }
}

/// Where one partition's draws begin. Without a seed the plan is the seed: the run that made it
/// has a name that no other run of any query has. With one, every batch draws the same, as in
/// Spark.
fn start(run: &RunId, batch: BatchId, partition: usize, (place, seed): (u64, Option<i64>)) -> u64 {
    let own = match seed {
        Some(seed) => xxh3_64_with_seed(&seed.to_le_bytes(), 0),
        None => {
            let run = xxh3_64_with_seed(run.as_str().as_bytes(), batch.0);
            xxh3_64_with_seed(&place.to_le_bytes(), run)
        }
    };
    xxh3_64_with_seed(&(partition as u64).to_le_bytes(), own)
}

impl DisplayAs for DrawExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "DrawExec: {} places", self.seeds.len())
    }
}

impl ExecutionPlan for DrawExec {
    fn name(&self) -> &str {
        "DrawExec"
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
            return internal_err!("a draw needs one input");
        };
        Ok(Arc::new(Self::new(input, self.seeds.clone(), Arc::clone(&self.schema))))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(run) = context.session_config().get_extension::<BatchRun>() else {
            return internal_err!("a draw runs only inside a batch");
        };
        let plan = run.plan();
        let start = |seed: &(u64, Option<i64>)| start(&plan.run, plan.batch, partition, *seed);
        let mut states: Vec<u64> = self.seeds.iter().map(start).collect();
        let schema = Arc::clone(&self.schema);
        let rows = self.input.execute(partition, context)?.map(move |batch| {
            let batch = batch?;
            let mut columns = batch.columns().to_vec();
            for state in &mut states {
                let bits = (0..batch.num_rows()).map(|_| next_random(state) as i64);
                columns.push(Arc::new(Int64Array::from_iter_values(bits)) as ArrayRef);
            }
            Ok(RecordBatch::try_new(Arc::clone(&schema), columns)?)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_begin_elsewhere_in_every_place_partition_and_batch() {
        let start = |run: &str, batch, partition, seed| {
            start(&RunId::new(run).unwrap(), BatchId(batch), partition, seed)
        };
        let one = start("a", 1, 0, (1, None));
        assert_eq!(one, start("a", 1, 0, (1, None)));
        for other in [
            start("b", 1, 0, (1, None)),
            start("a", 2, 0, (1, None)),
            start("a", 1, 1, (1, None)),
            start("a", 1, 0, (2, None)),
            start("a", 1, 0, (1, Some(1))),
        ] {
            assert_ne!(one, other);
        }
        assert_eq!(start("a", 1, 0, (1, Some(5))), start("b", 2, 0, (9, Some(5))));
    }
}
