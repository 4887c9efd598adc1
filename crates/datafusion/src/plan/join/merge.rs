//! Filters above a join of two streams are part of its condition, where that means the same; and
//! where they take away what an outer join fills with nulls, the join need not be an outer one.

use crate::plan::is_streaming;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan};
use std::sync::Arc;

use super::compared;
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

/// The kind of a join whose rows a filter above it tests: rows that are filled with nulls where the
/// filter needs a value do not pass it.
fn kind_below(predicate: &Expr, join: &Join) -> JoinType {
    let conjuncts = split_conjunction_owned(predicate.clone());
    let needed = compared(&conjuncts);
    let present = conjuncts.iter().filter_map(|conjunct| match conjunct {
        Expr::IsNotNull(inner) => inner.try_as_col(),
        _ => None,
    });
    let needed: Vec<_> = needed.iter().chain(present).collect();
    let needs = |side: &LogicalPlan| needed.iter().any(|c| side.schema().has_column(c));
    let (left, right) = (needs(&join.left), needs(&join.right));
    match join.join_type {
        JoinType::Full if left && right => JoinType::Inner,
        JoinType::Full if left => JoinType::Left,
        JoinType::Full if right => JoinType::Right,
        JoinType::Left if right => JoinType::Inner,
        JoinType::Right if left => JoinType::Inner,
        other => other,
    }
}

/// The join with what can move into it or below it; `None` if that is nothing.
fn merge(predicate: Expr, join: &Join) -> Result<Option<LogicalPlan>> {
    let join_type = kind_below(&predicate, join);
    let (mut into, mut left, mut right, mut above) = (vec![], vec![], vec![], vec![]);
    for conjunct in split_conjunction_owned(predicate) {
        let movable = !conjunct.is_volatile() && !conjunct.column_refs().is_empty();
        let of_left = of(&conjunct, join.left.schema());
        let of_right = of(&conjunct, join.right.schema());
        match join_type {
            JoinType::Inner if movable => into.push(conjunct),
            JoinType::Left | JoinType::LeftSemi if movable && of_left => left.push(conjunct),
            JoinType::Right | JoinType::RightSemi if movable && of_right => right.push(conjunct),
            _ => above.push(conjunct),
        }
    }
    if into.is_empty() && left.is_empty() && right.is_empty() && join_type == join.join_type {
        return Ok(None);
    }
    let filter = conjunction(join.filter.clone().into_iter().chain(into));
    let (left, right) = (filtered(&join.left, left)?, filtered(&join.right, right)?);
    let joined =
        Arc::new(LogicalPlan::Join(Join { left, right, filter, join_type, ..join.clone() }));
    filtered(&joined, above).map(|plan| Some(Arc::unwrap_or_clone(plan)))
}

fn filtered(input: &Arc<LogicalPlan>, conjuncts: Vec<Expr>) -> Result<Arc<LogicalPlan>> {
    let Some(predicate) = conjunction(conjuncts) else { return Ok(Arc::clone(input)) };
    let filter = Filter::try_new(predicate, Arc::clone(input))?;
    Ok(Arc::new(LogicalPlan::Filter(filter)))
}
