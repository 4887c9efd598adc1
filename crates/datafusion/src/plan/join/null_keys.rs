//! Joins of a stream with a table: rows of the stream that match nothing leave early.

use super::infer::known;
use super::keys::{Equality, split};
use super::{compared, filtered};
use crate::plan::{WatermarkNode, is_streaming};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinType, Result};
use datafusion::logical_expr::{Expr, Extension, Join, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use fluvial_operators::Side;
use std::sync::Arc;

/// Filters the stream of an inner or semi join with a table for keys that are null, as Spark does:
/// the filter moves below the watermark, which such rows then do not advance.
#[derive(Debug)]
pub(crate) struct FilterNullKeys;

impl OptimizerRule for FilterNullKeys {
    fn name(&self) -> &str {
        "filter_null_keys_of_streams"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Join(join) = &plan else { return Ok(Transformed::no(plan)) };
        let side = match (is_streaming(&join.left), is_streaming(&join.right)) {
            (true, false) => Side::Left,
            (false, true) => Side::Right,
            _ => return Ok(Transformed::no(plan)),
        };
        if !matches!(join.join_type, JoinType::Inner | JoinType::LeftSemi | JoinType::RightSemi) {
            return Ok(Transformed::no(plan));
        }
        let stream = match side {
            Side::Left => &join.left,
            Side::Right => &join.right,
        };
        if !has_watermark(stream) {
            return Ok(Transformed::no(plan));
        }
        let filtered = without_nulls(join, side, stream)?;
        if filtered == **stream {
            return Ok(Transformed::no(plan));
        }
        let mut join = join.clone();
        match side {
            Side::Left => join.left = Arc::new(filtered),
            Side::Right => join.right = Arc::new(filtered),
        }
        Ok(Transformed::yes(LogicalPlan::Join(join)))
    }
}

/// The stream without the rows that are known to match nothing, unless it is without them already.
fn without_nulls(join: &Join, side: Side, stream: &LogicalPlan) -> Result<LogicalPlan> {
    let known = known(stream)?;
    let (keys, others) = split(join);
    let tested = |key: &Equality| {
        let expr = match side {
            Side::Left => &key.left,
            Side::Right => &key.right,
        };
        known.contains(&expr.clone().is_not_null())
    };
    let keys: Vec<Equality> = keys.into_iter().filter(|key| !tested(key)).collect();
    let mut compared = compared(&others);
    compared.retain(|column| !known.contains(&Expr::Column(column.clone()).is_not_null()));
    filtered(stream.clone(), side, &keys, &compared, Vec::new())
}

/// Whether a watermark is defined where a filter may move to.
fn has_watermark(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Filter(_) | LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) => {
            plan.inputs().into_iter().all(has_watermark)
        }
        LogicalPlan::Extension(Extension { node }) => node.as_any().is::<WatermarkNode>(),
        _ => false,
    }
}
