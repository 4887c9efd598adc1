//! `EXCEPT ALL`, which takes away as many rows as there are on the other side. DataFusion's takes
//! away all.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, NullEquality, Result, plan_datafusion_err, plan_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Union, col, lit};
use std::sync::Arc;

/// Name of the column that counts rows up on the left side and down on the right.
const COUNT: &str = "__except_all_count";

/// Whether a union has the two sides of an `EXCEPT ALL`: a table may be one of them. As in Spark,
/// the table's rows are then taken away in every batch.
pub(crate) fn is_except_all(union: &Union) -> bool {
    union.schema.fields().last().is_some_and(|field| field.name() == COUNT)
}

/// The plan with its `EXCEPT ALL`s, wherever they stand, by counting rows. DataFusion makes a join
/// of one that matches null to null, as no other anti join of a query does; `EXCEPT` has a left side
/// without duplicates, for which both mean the same.
///
/// # Errors
///
/// If the sides have different numbers of columns.
pub(super) fn counted(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    let counted = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join)
            if join.join_type == JoinType::LeftAnti
                && join.null_equality == NullEquality::NullEqualsNull
                && !matches!(join.left.as_ref(), LogicalPlan::Distinct(_)) =>
        {
            let (left, right) = (Arc::unwrap_or_clone(join.left), Arc::unwrap_or_clone(join.right));
            except_all(state, left, right).map(Transformed::yes)
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(counted.data)
}

/// The rows of the left side, each as often as it comes there more often than on the right.
///
/// Rows are counted by an aggregation, so that a stream can be on either side.
///
/// # Errors
///
/// If the sides have different numbers of columns.
fn except_all(state: &SessionState, left: LogicalPlan, right: LogicalPlan) -> Result<LogicalPlan> {
    let qualifiers: Vec<_> =
        left.schema().iter().map(|(qualifier, _)| qualifier.cloned()).collect();
    let names: Vec<String> = left.schema().fields().iter().map(|f| f.name().clone()).collect();
    if names.len() != right.schema().fields().len() {
        return plan_err!(
            "EXCEPT ALL takes two sides with as many columns, not {} and {}",
            names.len(),
            right.schema().fields().len()
        );
    }
    let counted = |side: LogicalPlan, count: i64| {
        let columns = side.schema().columns();
        let mut exprs: Vec<Expr> = columns
            .into_iter()
            .zip(&names)
            .map(|(column, name)| Expr::Column(column).alias(name))
            .collect();
        exprs.push(lit(count).alias(COUNT));
        LogicalPlanBuilder::from(side).project(exprs)?.build()
    };
    let (left, right) = (counted(left, 1)?, counted(right, -1)?);
    let sum = state
        .aggregate_functions()
        .get("sum")
        .ok_or_else(|| plan_datafusion_err!("EXCEPT ALL needs the function sum"))?;
    let sequence = state
        .scalar_functions()
        .get("sequence")
        .ok_or_else(|| plan_datafusion_err!("EXCEPT ALL needs the function sequence"))?;
    let columns = || names.iter().map(|name| Expr::Column(Column::new_unqualified(name)));
    let repeats = sequence.call(vec![lit(1_i64), col(COUNT)]);
    let with_repeats: Vec<Expr> = columns().chain([repeats.alias(COUNT)]).collect();
    let outputs = qualifiers.into_iter().zip(&names).map(|(qualifier, name)| {
        Expr::Column(Column::new_unqualified(name)).alias_qualified(qualifier, name)
    });
    LogicalPlanBuilder::from(left)
        .union(right)?
        .aggregate(columns(), [sum.call(vec![col(COUNT)]).alias(COUNT)])?
        .filter(col(COUNT).gt(lit(0_i64)))?
        .project(with_repeats)?
        .unnest_column(Column::new_unqualified(COUNT))?
        .project(outputs)?
        .build()
}
