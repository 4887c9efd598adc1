//! The physical plan of a join of two streams: two exchanges by key, and the operator.

use super::join::{Kept, Times, join_range};
use super::join_node::StreamJoinNode;
use super::physical::store_of;
use crate::exec::{BatchRun, ExchangeExec, KeyRoute, StatefulExec};
use datafusion::catalog::Session;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use datafusion::physical_plan::ExecutionPlan;
use fluvial_operators::{JoinEviction, JoinSide, OutputWatermark, Side, StreamJoin};
use std::sync::Arc;

/// What the physical planning of a join needs.
pub(super) struct JoinPlan<'a> {
    pub(super) session: &'a dyn Session,
    pub(super) planning: &'a PhysicalPlanningContext,
    pub(super) node: &'a StreamJoinNode,
}

impl JoinPlan<'_> {
    pub(super) fn exec(
        &self,
        inputs: &[Arc<dyn ExecutionPlan>],
        run: &BatchRun,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let node = self.node;
        let join = Arc::new(operator(node, self.session, self.planning)?);
        let mut exchanges: Vec<Arc<dyn ExecutionPlan>> = Vec::new();
        for (input, side) in inputs.iter().zip([Side::Left, Side::Right]) {
            let codec =
                join.key_codec(run.plan().settings.key_groups).map_err(crate::error::plan)?;
            let route = KeyRoute::by(codec, keys(node, side)?);
            let exchange = ExchangeExec::new(Arc::clone(input), Arc::new(route), run.partitions());
            exchanges.push(Arc::new(exchange));
        }
        let store = store_of(&node.operator)?;
        let schema = Arc::new(node.schema().as_arrow().clone());
        let width = |side| -> Result<_> { Ok(0..node.row_schema(side)?.fields().len()) };
        let rows = vec![width(Side::Left)?, width(Side::Right)?];
        let exec = StatefulExec::over(exchanges, run.partitions(), join, store, schema);
        Ok(Arc::new(exec.judging(rows)))
    }
}

/// The operator that a node stands for.
pub(super) fn operator(
    node: &StreamJoinNode,
    session: &dyn Session,
    planning: &PhysicalPlanningContext,
) -> Result<StreamJoin> {
    let times = node.times()?;
    let lower = |expr: &Option<Expr>, schema: &DFSchema| -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let plan = |expr| lowered(expr, schema, session, planning);
        expr.as_ref().map(plan).transpose()
    };
    let side = |side: Side| -> Result<JoinSide> {
        let rows = node.row_schema(side)?;
        let filter = match side {
            Side::Left => &node.conditions.left,
            Side::Right => &node.conditions.right,
        };
        let event_time = node.event_times(side).into_iter().next();
        let input = node.input(side).schema();
        Ok(JoinSide {
            input: Arc::new(input.as_arrow().clone()),
            width: rows.fields().len(),
            keys: keys(node, side)?,
            event_time: event_time.map(|time| input.index_of_column(&time)).transpose()?,
            filter: lower(filter, &rows)?,
            eviction: eviction(&times, side, input)?,
        })
    };
    let sides = [side(Side::Left)?, side(Side::Right)?];
    let condition = lower(&node.conditions.both, &node.pair_schema()?)?;
    let null_safe = node.keys.iter().map(|key| key.null_safe).collect();
    let range = join_range(node, &times)?;
    StreamJoin::new(node.kind, sides, null_safe, condition, range).map_err(crate::error::plan)
}

fn lowered(
    expr: &Expr,
    schema: &DFSchema,
    session: &dyn Session,
    planning: &PhysicalPlanningContext,
) -> Result<Arc<dyn PhysicalExpr>> {
    create_physical_expr(expr, schema, session.execution_props(), planning)
}

/// The positions of the keys of a side.
fn keys(node: &StreamJoinNode, side: Side) -> Result<Vec<usize>> {
    let column = |key: &super::join_node::JoinKey| -> Column {
        match side {
            Side::Left => key.left.clone(),
            Side::Right => key.right.clone(),
        }
    };
    let schema = node.input(side).schema();
    node.keys.iter().map(|key| schema.index_of_column(&column(key))).collect()
}

fn eviction(times: &Times, side: Side, input: &DFSchema) -> Result<JoinEviction> {
    let at = if side == Side::Left { 0 } else { 1 };
    Ok(match &times.kept[at] {
        Kept::ForEver => JoinEviction::Never,
        Kept::ByKey(key) => JoinEviction::Key(*key),
        Kept::ByTime(column, offset) => {
            JoinEviction::Time { column: input.index_of_column(column)?, offset: *offset }
        }
    })
}

/// How the watermark of its inputs passes a join.
pub(super) fn output_watermark(node: &StreamJoinNode) -> OutputWatermark {
    let evictions = node.times().and_then(|times| {
        let of = |side: Side| eviction(&times, side, node.input(side).schema());
        Ok([of(Side::Left)?, of(Side::Right)?])
    });
    // The times were found when the query was prepared: they are found again.
    evictions.map_or(OutputWatermark::Ends, fluvial_operators::join_output_watermark)
}
