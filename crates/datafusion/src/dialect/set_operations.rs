//! `EXCEPT ALL`, which takes away as many rows as there are on the other side, and `INTERSECT ALL`,
//! which keeps as many. DataFusion's take away, or keep, all.

use crate::plan::{is_set_operation, is_streaming};
use arrow::datatypes::FieldRef;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, Result, TableReference, plan_datafusion_err, plan_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, ScalarUDF, Union, col, lit};
use std::sync::Arc;

/// Name of the column that counts rows up on the left side and down on the right.
const COUNT: &str = "__except_all_count";

/// Whether a union has the two sides of an `EXCEPT ALL`: a table may be one of them. As in Spark,
/// the table's rows are then taken away in every batch.
pub(crate) fn is_except_all(union: &Union) -> bool {
    union.schema.fields().last().is_some_and(|field| field.name() == COUNT)
}

/// How often a row of an `INTERSECT ALL` comes on each side.
const SIDES: [&str; 2] = ["__intersect_all_left", "__intersect_all_right"];

/// The plan with its `EXCEPT ALL`s and `INTERSECT ALL`s, wherever they stand, by counting rows.
/// `EXCEPT` and `INTERSECT` have a left side without duplicates, for which both mean the same.
///
/// # Errors
///
/// If the sides have different numbers of columns.
pub(super) fn counted(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    let counted = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join)
            if is_set_operation(&join)
                && !matches!(join.left.as_ref(), LogicalPlan::Distinct(_)) =>
        {
            // Refused later: counts would have to be taken back.
            if join.join_type == JoinType::LeftSemi
                && (is_streaming(&join.left) || is_streaming(&join.right))
            {
                return Ok(Transformed::no(LogicalPlan::Join(join)));
            }
            let (left, right) = (Arc::unwrap_or_clone(join.left), Arc::unwrap_or_clone(join.right));
            let counted = match join.join_type {
                JoinType::LeftSemi => intersect_all(state, left, right),
                _ => except_all(state, left, right),
            };
            counted.map(Transformed::yes)
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
    let rows = Rows::of(state, &left, &right)?;
    let (left, right) = (rows.with(left, &[(COUNT, 1)])?, rows.with(right, &[(COUNT, -1)])?);
    let summed = rows.sums(left.union(right.build()?)?, &[COUNT])?;
    rows.repeated(summed.filter(col(COUNT).gt(lit(0_i64)))?, col(COUNT))
}

/// The rows of both sides, each as often as it comes on either.
fn intersect_all(
    state: &SessionState,
    left: LogicalPlan,
    right: LogicalPlan,
) -> Result<LogicalPlan> {
    let rows = Rows::of(state, &left, &right)?;
    let [on_left, on_right] = SIDES;
    let left = rows.with(left, &[(on_left, 1), (on_right, 0)])?;
    let right = rows.with(right, &[(on_left, 0), (on_right, 1)])?;
    let summed = rows.sums(left.union(right.build()?)?, &SIDES)?;
    let is_there = |count| col(count).gt(lit(0_i64));
    let times = function(state, "least")?.call(vec![col(on_left), col(on_right)]);
    rows.repeated(summed.filter(is_there(on_left).and(is_there(on_right)))?, times)
}

fn function<'a>(state: &'a SessionState, name: &str) -> Result<&'a Arc<ScalarUDF>> {
    let found = state.scalar_functions().get(name);
    found.ok_or_else(|| plan_datafusion_err!("rows are counted with the function {name}"))
}

/// The columns of rows that are counted.
struct Rows<'a> {
    state: &'a SessionState,
    names: Vec<String>,
    /// What the columns are called when it is done.
    outputs: Vec<Expr>,
}

impl<'a> Rows<'a> {
    fn of(state: &'a SessionState, left: &LogicalPlan, right: &LogicalPlan) -> Result<Self> {
        let schema = left.schema();
        if schema.fields().len() != right.schema().fields().len() {
            return plan_err!(
                "EXCEPT ALL and INTERSECT ALL take two sides with as many columns, not {} and {}",
                schema.fields().len(),
                right.schema().fields().len()
            );
        }
        let names = schema.fields().iter().map(|f| f.name().clone()).collect();
        let output = |(qualifier, field): (Option<&TableReference>, &FieldRef)| {
            let column = Expr::Column(Column::new_unqualified(field.name()));
            column.alias_qualified(qualifier.cloned(), field.name())
        };
        Ok(Self { state, names, outputs: schema.iter().map(output).collect() })
    }

    fn columns(&self) -> Vec<Expr> {
        self.names.iter().map(|name| Expr::Column(Column::new_unqualified(name))).collect()
    }

    /// A side, under the names of the left one, with numbers beside each row.
    fn with(&self, side: LogicalPlan, counts: &[(&str, i64)]) -> Result<LogicalPlanBuilder> {
        let columns = side.schema().columns().into_iter().zip(&self.names);
        let columns = columns.map(|(column, name)| Expr::Column(column).alias(name));
        let counts = counts.iter().map(|(name, count)| lit(*count).alias(*name));
        let exprs: Vec<Expr> = columns.chain(counts).collect();
        LogicalPlanBuilder::from(side).project(exprs)
    }

    /// Each row once, with the sums of its numbers.
    fn sums(&self, rows: LogicalPlanBuilder, counts: &[&str]) -> Result<LogicalPlanBuilder> {
        let sum = self.state.aggregate_functions().get("sum");
        let sum =
            sum.ok_or_else(|| plan_datafusion_err!("rows are counted with the function sum"))?;
        let sums = counts.iter().map(|name| sum.call(vec![col(*name)]).alias(*name));
        rows.aggregate(self.columns(), sums)
    }

    /// Each row so many times.
    fn repeated(&self, rows: LogicalPlanBuilder, times: Expr) -> Result<LogicalPlan> {
        let repeats = function(self.state, "sequence")?.call(vec![lit(1_i64), times]);
        let mut with_repeats = self.columns();
        with_repeats.push(repeats.alias(COUNT));
        rows.project(with_repeats)?
            .unnest_column(Column::new_unqualified(COUNT))?
            .project(self.outputs.clone())?
            .build()
    }
}
