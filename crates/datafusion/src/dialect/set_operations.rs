//! `EXCEPT ALL`, which takes away as many rows as there are on the other side. DataFusion's takes
//! away all.

use datafusion::common::{Column, Result, plan_datafusion_err, plan_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Union, col, lit};
use datafusion::sql::sqlparser::ast::{Query, SetExpr, SetOperator, SetQuantifier};

/// Name of the column that counts rows up on the left side and down on the right.
const COUNT: &str = "__except_all_count";

/// Whether a union has the two sides of an `EXCEPT ALL`: a table may be one of them. As in Spark,
/// the table's rows are then taken away in every batch.
pub(crate) fn is_except_all(union: &Union) -> bool {
    union.schema.fields().last().is_some_and(|field| field.name() == COUNT)
}

/// The two sides, if the query is nothing but an `EXCEPT ALL`.
pub(super) fn sides_of_except_all(query: &Query) -> Option<(Query, Query)> {
    let SetExpr::SetOperation {
        op: SetOperator::Except,
        set_quantifier: SetQuantifier::All,
        left,
        right,
    } = query.body.as_ref()
    else {
        return None;
    };
    let plain = query.order_by.is_none() && query.limit_clause.is_none() && query.fetch.is_none();
    let side = |body: &SetExpr| Query { body: Box::new(body.clone()), ..query.clone() };
    plain.then(|| (side(left), side(right)))
}

/// The rows of the left side, each as often as it comes there more often than on the right.
///
/// Rows are counted by an aggregation, so that a stream can be on either side.
///
/// # Errors
///
/// If the sides have different numbers of columns.
pub(super) fn except_all(
    state: &SessionState,
    left: LogicalPlan,
    right: LogicalPlan,
) -> Result<LogicalPlan> {
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
    LogicalPlanBuilder::from(left)
        .union(right)?
        .aggregate(columns(), [sum.call(vec![col(COUNT)]).alias(COUNT)])?
        .filter(col(COUNT).gt(lit(0_i64)))?
        .project(with_repeats)?
        .unnest_column(Column::new_unqualified(COUNT))?
        .project(columns())?
        .build()
}
