//! Expressions as text, with Spark's meaning, for what plans nothing but them.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan, LogicalPlanBuilder, Volatility};
use fluvial_core::{Error, Result};
use fluvial_datafusion::{dialect, from_datafusion};
use std::sync::Arc;

/// An expression over the columns of `schema`, its types made to fit. Who gets it may know nothing
/// of our dialect.
pub(crate) fn typed(state: &SessionState, text: &str, schema: &DFSchemaRef) -> Result<Expr> {
    let parsed = dialect::parse_expression(state, text, schema).map_err(from_datafusion)?;
    let nothing = EmptyRelation { produce_one_row: false, schema: Arc::clone(schema) };
    let plan = LogicalPlanBuilder::from(LogicalPlan::EmptyRelation(nothing))
        .project(vec![parsed.alias("value")])
        .and_then(LogicalPlanBuilder::build)
        .and_then(|plan| {
            state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})
        })
        .map_err(from_datafusion)?;
    let mut found = None;
    plan.apply_expressions(|expr| {
        found = Some(expr.clone().unalias_nested().data);
        Ok(TreeNodeRecursion::Stop)
    })
    .map_err(from_datafusion)?;
    found.ok_or_else(|| Error::invalid(format!("{text:?} is no expression")))
}

/// Reads the expressions of tables: their constraints and computed columns.
pub(crate) fn compile(state: SessionState) -> Arc<fluvial_delta::Compile> {
    Arc::new(move |text: &str, columns: &DFSchema| {
        let expr = typed(&state, text, &Arc::new(columns.clone()))?;
        refuse_unsteady(&expr)?;
        state.create_physical_expr(expr, columns).map_err(from_datafusion)
    })
}

/// A rule holds for a row whenever it is written, and a batch that is written again has to come out
/// the same.
fn refuse_unsteady(expr: &Expr) -> Result<()> {
    let mut found = None;
    expr.apply(|expr| {
        if let Expr::ScalarFunction(call) = expr
            && call.func.signature().volatility != Volatility::Immutable
        {
            found = Some(call.func.name().to_owned());
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .map_err(from_datafusion)?;
    match found {
        None => Ok(()),
        Some(name) => Err(Error::invalid(format!(
            "{name}() is not the same each time: compute it in the query instead"
        ))),
    }
}
