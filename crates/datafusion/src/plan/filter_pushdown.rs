//! Moves deterministic filters as Spark does: below the watermark if they do not touch the event
//! time, below an aggregation if they touch only its groups.
//!
//! The first changes the watermark: rows that a filter removes do not advance it. The second
//! keeps groups out of the state that nobody would see.

use super::never::is_never;
use super::{StreamAggregateNode, WatermarkNode};
use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Extension, Filter, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use std::sync::Arc;

/// `Filter(Watermark(x))` becomes `Watermark(Filter(x))`, conjunct by conjunct.
#[derive(Debug)]
pub(crate) struct PushFilterBelowWatermark;

impl OptimizerRule for PushFilterBelowWatermark {
    fn name(&self) -> &str {
        "push_filter_below_watermark"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = &plan else { return Ok(Transformed::no(plan)) };
        let LogicalPlan::Extension(Extension { node }) = filter.input.as_ref() else {
            return Ok(Transformed::no(plan));
        };
        let Some(watermark) = node.as_any().downcast_ref::<WatermarkNode>() else {
            return Ok(Transformed::no(plan));
        };
        let (below, above): (Vec<Expr>, Vec<Expr>) =
            split_conjunction_owned(filter.predicate.clone())
                .into_iter()
                .partition(|part| may_move(part, watermark));
        let Some(below) = conjunction(below) else { return Ok(Transformed::no(plan)) };
        let input = LogicalPlan::Filter(Filter::try_new(below, Arc::new(watermark.input.clone()))?);
        let idle_after = watermark.idle_after;
        let watermark = WatermarkNode::try_new(
            input,
            watermark.column.clone(),
            watermark.delay,
            watermark.id.clone(),
        )?;
        let watermark = watermark.idle_after(idle_after);
        let moved = LogicalPlan::Extension(Extension { node: Arc::new(watermark) });
        Ok(Transformed::yes(match conjunction(above) {
            Some(above) => LogicalPlan::Filter(Filter::try_new(above, Arc::new(moved))?),
            None => moved,
        }))
    }
}

/// `Filter(Aggregate(x))` becomes `Aggregate(Filter(x))` for conjuncts over the groups alone: the
/// grouping columns have the same names below.
#[derive(Debug)]
pub(crate) struct PushFilterBelowAggregate;

impl OptimizerRule for PushFilterBelowAggregate {
    fn name(&self) -> &str {
        "push_filter_below_stream_aggregate"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = &plan else { return Ok(Transformed::no(plan)) };
        let LogicalPlan::Extension(Extension { node }) = filter.input.as_ref() else {
            return Ok(Transformed::no(plan));
        };
        let Some(aggregate) = node.as_any().downcast_ref::<StreamAggregateNode>() else {
            return Ok(Transformed::no(plan));
        };
        // A session is known only once its rows are merged. Spark moves filters on it all the same,
        // to the sessions of single rows, and loses rows.
        let is_fixed = |(at, _): &(usize, &Expr)| aggregate.session != Some(*at);
        let fixed: Vec<&Expr> =
            aggregate.group.iter().enumerate().filter(is_fixed).map(|(_, group)| group).collect();
        let of_groups = |part: &Expr| {
            let columns = part.column_refs();
            !part.is_volatile()
                && !columns.is_empty()
                && columns.into_iter().all(|column| fixed.contains(&&Expr::Column(column.clone())))
        };
        let (below, above): (Vec<Expr>, Vec<Expr>) =
            split_conjunction_owned(filter.predicate.clone()).into_iter().partition(of_groups);
        let Some(below) = conjunction(below) else { return Ok(Transformed::no(plan)) };
        let input = LogicalPlan::Filter(Filter::try_new(below, Arc::new(aggregate.input.clone()))?);
        let moved = aggregate.with_exprs_and_inputs(aggregate.expressions(), vec![input])?;
        let moved = LogicalPlan::Extension(Extension { node: Arc::new(moved) });
        Ok(Transformed::yes(match conjunction(above) {
            Some(above) => LogicalPlan::Filter(Filter::try_new(above, Arc::new(moved))?),
            None => moved,
        }))
    }
}

/// What never holds moves too, whatever it looks at.
fn may_move(predicate: &Expr, watermark: &WatermarkNode) -> bool {
    is_never(predicate)
        || !predicate.is_volatile() && !predicate.column_refs().contains(&watermark.column)
}
