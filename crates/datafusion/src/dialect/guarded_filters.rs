//! Filters that protect each other once DataFusion has merged them.
//!
//! `SELECT r FROM (SELECT a / b AS r FROM t WHERE b <> 0) WHERE r > 3` becomes one filter, `b <> 0
//! AND a / b > 3`, whose parts may be in any order and are evaluated for all rows. Spark evaluates
//! a part only for rows that the parts before it keep. So what can fail comes last, within a CASE,
//! once the optimizer has done its work.

use super::guard::{joined, may_fail, number};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, Result};
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Case, Expr, Filter, LogicalPlan, Operator, lit};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};
use std::sync::Arc;

/// DataFusion's planner, after [`guard_filters`].
#[derive(Debug)]
pub(super) struct GuardingPlanner;

#[async_trait]
impl QueryPlanner for GuardingPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        state: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = guard_filters(plan.clone())?;
        DefaultPhysicalPlanner::default().create_physical_plan(&plan, state).await
    }
}

/// The optimized plan, with filters and conditions of joins whose parts protect each other.
pub(crate) fn guard_filters(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Filter(filter) => match in_order(&filter.predicate, filter.input.schema()) {
            Some(predicate) => {
                let filter = Filter::try_new(predicate, filter.input)?;
                Ok(Transformed::yes(LogicalPlan::Filter(filter)))
            }
            None => Ok(Transformed::no(LogicalPlan::Filter(filter))),
        },
        LogicalPlan::Join(mut join) => {
            let guarded = match &join.filter {
                // Not the schema of its result: a semi join has the columns of one side.
                Some(filter) => in_order(filter, &join.left.schema().join(join.right.schema())?),
                None => None,
            };
            let changed = guarded.is_some();
            join.filter = guarded.or(join.filter);
            Ok(Transformed::new_transformed(LogicalPlan::Join(join), changed))
        }
        other => Ok(Transformed::no(other)),
    })
    .data()
}

/// The parts that cannot fail, and then the others for the rows that these keep. `None` where
/// nothing has to change.
fn in_order(predicate: &Expr, schema: &DFSchema) -> Option<Expr> {
    let parts = split_conjunction_owned(predicate.clone());
    let (mut risky, safe): (Vec<Expr>, Vec<Expr>) =
        parts.into_iter().partition(|part| may_fail(part, schema));
    if risky.len() + usize::from(!safe.is_empty()) < 2 {
        return None;
    }
    let last = number(risky.pop()?);
    let drops =
        |part: &Expr| (Box::new(Expr::IsNotTrue(Box::new(part.clone()))), Box::new(lit(0_i8)));
    let dropped = safe.iter().chain(&risky).map(drops).collect();
    let guard = Expr::Case(Case::new(None, dropped, Some(Box::new(last)))).eq(lit(1_i8));
    Some(match safe.is_empty() {
        true => guard,
        // Once more outside, where whoever prunes files and pages sees them.
        false => joined(Operator::And, safe).and(guard),
    })
}
