//! Turns an aggregation over a stream into a [`StreamAggregateNode`].
//!
//! Below it a projection computes the grouping columns, so that late rows can be judged before
//! anything is aggregated; above it another gives the columns the names that the query knows.

use super::StreamAggregateNode;
use super::grouping_sets;
use super::windows::{self, Assigned};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::utils::exprlist_to_fields;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, Extension, LogicalPlan, LogicalPlanBuilder,
};
use fluvial_core::{Error, OperatorId};
use std::sync::Arc;

/// The streaming form of an aggregation.
pub(crate) fn streaming(aggregate: Aggregate, operator: OperatorId) -> Result<LogicalPlan> {
    let Aggregate { input, group_expr, aggr_expr, schema, .. } = aggregate;
    let aggr_expr = called_what_they_are(aggr_expr, &input)?;
    let (group_expr, sets) = match grouping_sets::of(&group_expr)? {
        Some((exprs, sets)) => (exprs, Some(sets)),
        None => (group_expr, None),
    };
    let Assigned { mut input, mut exprs, meaning, session } =
        windows::assign(Arc::unwrap_or_clone(input), group_expr)?;
    let fields = exprlist_to_fields(&exprs, &input)?;
    let mut key_names: Vec<String> = fields.iter().map(|(_, field)| field.name().clone()).collect();
    let session = session.and_then(|column| exprs.iter().position(|e| is_column(e, &column)));
    if let Some(sets) = sets {
        if session.is_some() {
            return Err(crate::error::plan(
                Error::invalid(
                    "session windows have no ROLLUP, CUBE or GROUPING SETS: a set without the \
                     session would have no window to merge",
                )
                .with_condition("SESSION_WINDOW_IN_GROUPING_SETS_NOT_SUPPORTED"),
            ));
        }
        (input, exprs) = grouping_sets::expand(input, exprs, sets)?;
        key_names.push(Aggregate::INTERNAL_GROUPING_ID.to_owned());
    }

    let mut group = Vec::new();
    let mut columns: Vec<Expr> = Vec::new();
    for (i, expr) in exprs.into_iter().enumerate() {
        let column = match expr {
            Expr::Column(column) => {
                columns.push(Expr::Column(column.clone()));
                column
            }
            other => {
                let name = format!("__group_{i}");
                columns.push(other.alias(&name));
                Column::new_unqualified(name)
            }
        };
        group.push(Expr::Column(column));
    }
    for used in aggr_expr.iter().flat_map(Expr::column_refs) {
        let used = Expr::Column(used.clone());
        if !columns.contains(&used) {
            columns.push(used);
        }
    }
    let input = LogicalPlanBuilder::from(input).project(columns)?.build()?;
    let mut node =
        StreamAggregateNode::try_new(input, group, aggr_expr, operator, key_names, meaning)?;
    node.session = session;
    let inner = LogicalPlan::Extension(Extension { node: Arc::new(node) });
    let names: Vec<Expr> = inner
        .schema()
        .columns()
        .into_iter()
        .zip(schema.iter())
        .map(|(column, (qualifier, field))| {
            let unchanged = column.relation.as_ref() == qualifier && column.name == *field.name();
            let column = Expr::Column(column);
            match unchanged {
                true => column,
                false => column.alias_qualified(qualifier.cloned(), field.name()),
            }
        })
        .collect();
    LogicalPlanBuilder::from(inner).project(names)?.build()
}

/// Whether an expression is a column under whatever name.
fn is_column(expr: &Expr, column: &Column) -> bool {
    match expr {
        Expr::Alias(alias) => is_column(&alias.expr, column),
        Expr::Column(other) => other == column,
        _ => false,
    }
}

/// Aggregates without the names that the query gives to their results, which the projection above
/// gives back, and without those of the tables that their columns come from. State has their names:
/// `min(v) AS x` must not go on as `max(v) AS x`, and a result, or a table, may get another name.
fn called_what_they_are(aggregates: Vec<Expr>, input: &LogicalPlan) -> Result<Vec<Expr>> {
    let mut seen: Vec<String> = Vec::new();
    let plain = aggregates.into_iter().map(|aggregate| {
        let plain = aggregate.unalias();
        let mut name = without_tables(plain.clone(), input)?.schema_name().to_string();
        let before = seen.iter().filter(|other| **other == name).count();
        seen.push(name.clone());
        if before > 0 {
            // The same function twice, under two names.
            name = format!("{name} #{}", before + 1);
        }
        Ok(if plain.schema_name().to_string() == name { plain } else { plain.alias(name) })
    });
    plain.collect()
}

/// The expression with its columns' own names, where they say which column it is.
fn without_tables(expr: Expr, input: &LogicalPlan) -> Result<Expr> {
    let schema = input.schema();
    let plain = expr.transform(|part| match part {
        Expr::Column(column) if schema.fields_with_unqualified_name(&column.name).len() == 1 => {
            Ok(Transformed::yes(Expr::Column(Column::new_unqualified(column.name))))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(plain.data)
}

/// The aggregation that a `SELECT DISTINCT` is.
pub(crate) fn of_distinct(distinct: Distinct) -> Result<Aggregate> {
    let input = match distinct {
        Distinct::All(input) => input,
        Distinct::On(_) => {
            return Err(crate::error::plan(
                Error::invalid("DISTINCT ON is not supported on streams: use drop_duplicates")
                    .with_condition("DISTINCT_ON_NOT_SUPPORTED"),
            ));
        }
    };
    let group = input.schema().columns().into_iter().map(Expr::Column).collect();
    Aggregate::try_new(input, group, Vec::new())
}
