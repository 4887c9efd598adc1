//! Expressions as text, with Spark's meaning, for what plans nothing but them.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{EmptyRelation, Expr, LogicalPlan, LogicalPlanBuilder};
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
        state.create_physical_expr(expr, columns).map_err(from_datafusion)
    })
}
