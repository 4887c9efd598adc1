//! Filters above a join of two streams are part of its condition, where that means the same.

use crate::plan::is_streaming;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan};
use std::sync::Arc;

use super::keys::of;

/// Moves conjuncts of filters into the joins of two streams below them: all of an inner join, and
/// below a side what concerns that side alone, where it is the one whose rows all come out.
pub(crate) fn filters_into_joins(plan: LogicalPlan) -> Result<LogicalPlan> {
    let merged = plan.transform_down(|node| {
        let LogicalPlan::Filter(filter) = &node else { return Ok(Transformed::no(node)) };
        let LogicalPlan::Join(join) = filter.input.as_ref() else {
            return Ok(Transformed::no(node));
        };
        if !is_streaming(&join.left) || !is_streaming(&join.right) {
            return Ok(Transformed::no(node));
        }
        Ok(match merge(filter.predicate.clone(), join)? {
            Some(merged) => Transformed::yes(merged),
            None => Transformed::no(node),
        })
    })?;
    Ok(merged.data)
}

/// The join with what can move into it or below it; `None` if that is nothing.
fn merge(predicate: Expr, join: &Join) -> Result<Option<LogicalPlan>> {
    let (mut into, mut left, mut right, mut above) = (vec![], vec![], vec![], vec![]);
    for conjunct in split_conjunction_owned(predicate) {
        let movable = !conjunct.is_volatile() && !conjunct.column_refs().is_empty();
        let of_left = of(&conjunct, join.left.schema());
        let of_right = of(&conjunct, join.right.schema());
        match join.join_type {
            JoinType::Inner if movable => into.push(conjunct),
            JoinType::Left | JoinType::LeftSemi if movable && of_left => left.push(conjunct),
            JoinType::Right | JoinType::RightSemi if movable && of_right => right.push(conjunct),
            _ => above.push(conjunct),
        }
    }
    if into.is_empty() && left.is_empty() && right.is_empty() {
        return Ok(None);
    }
    let filter = conjunction(join.filter.clone().into_iter().chain(into));
    let (left, right) = (filtered(&join.left, left)?, filtered(&join.right, right)?);
    let joined = Arc::new(LogicalPlan::Join(Join { left, right, filter, ..join.clone() }));
    filtered(&joined, above).map(|plan| Some(Arc::unwrap_or_clone(plan)))
}

fn filtered(input: &Arc<LogicalPlan>, conjuncts: Vec<Expr>) -> Result<Arc<LogicalPlan>> {
    let Some(predicate) = conjunction(conjuncts) else { return Ok(Arc::clone(input)) };
    let filter = Filter::try_new(predicate, Arc::clone(input))?;
    Ok(Arc::new(LogicalPlan::Filter(filter)))
}
