//! Physical plans for processors.

use super::StreamTransformNode;
use super::physical::store_of;
use crate::exec::{BatchRun, ExchangeExec, KeyRoute, StatefulExec};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::UserDefinedLogicalNodeCore;
use datafusion::physical_plan::ExecutionPlan;
use fluvial_core::BatchId;
use std::sync::Arc;

/// Exchange by the grouping columns, then the processor. What its state begins with is read in
/// the first batch only.
pub(super) fn exec(
    node: &StreamTransformNode,
    inputs: &[Arc<dyn ExecutionPlan>],
    run: &BatchRun,
) -> Result<Arc<dyn ExecutionPlan>> {
    let operator = Arc::new(node.operator()?);
    let ports = if run.plan().batch == BatchId::FIRST { inputs.len() } else { 1 };
    let mut by_key: Vec<Arc<dyn ExecutionPlan>> = Vec::new();
    for input in &inputs[..ports.min(inputs.len())] {
        let codec = operator.key_codec(run.plan().settings.key_groups);
        let codec = codec.map_err(crate::error::plan)?;
        let route = KeyRoute::by(codec, (0..node.keys).collect());
        let exchange = ExchangeExec::new(Arc::clone(input), Arc::new(route), run.partitions());
        by_key.push(Arc::new(exchange));
    }
    if by_key.is_empty() {
        return internal_err!("a processor needs its input");
    }
    let store = store_of(&node.operator)?;
    let schema = Arc::new(node.schema().as_arrow().clone());
    // Keys stand in front of the columns.
    let rows = node.keys..inputs[0].schema().fields().len();
    let exec = StatefulExec::over(by_key, run.partitions(), operator, store, schema);
    Ok(Arc::new(exec.judging(vec![rows])))
}
