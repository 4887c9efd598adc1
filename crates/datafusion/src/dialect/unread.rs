//! Clauses that the parser reads and DataFusion's planner passes over, or means otherwise: a query
//! that has one would run and give something else, so it is refused.

use crate::functions::error::spark;
use datafusion::common::Result;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArgumentClause, FunctionArguments, GroupByExpr, GroupByWithModifier, Query,
    Select, TableFactor, Visit, Visitor,
};
use std::ops::ControlFlow;

/// Refuses a query with a clause that would be passed over.
///
/// # Errors
///
/// `UNSUPPORTED_FEATURE`, with the clause.
pub(super) fn check(query: &Query) -> Result<()> {
    match query.visit(&mut Clauses) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(clause) => {
            let message = format!("{clause} is not supported: write the query without it");
            Err(spark("UNSUPPORTED_FEATURE", message))
        }
    }
}

struct Clauses;

impl Visitor for Clauses {
    type Break = &'static str;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<&'static str> {
        of_query(query)
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<&'static str> {
        of_select(select)
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<&'static str> {
        match factor {
            TableFactor::Table {
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_hints,
                ..
            } => {
                refuse(version.is_some(), "a version of what is no table of the catalog")?;
                refuse(sample.is_some(), "TABLESAMPLE")?;
                refuse(!with_hints.is_empty(), "WITH (..) behind a table")?;
                refuse(*with_ordinality, "WITH ORDINALITY")?;
                refuse(!partitions.is_empty(), "PARTITION (..) behind a table")?;
                refuse(json_path.is_some(), "a path behind a table")?;
                refuse(!index_hints.is_empty(), "an index hint")
            }
            TableFactor::Derived { sample, .. } => refuse(sample.is_some(), "TABLESAMPLE"),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<&'static str> {
        // DataFusion makes times in nanoseconds of it; Spark has functions instead.
        let in_zone = matches!(expr, Expr::AtTimeZone { .. });
        refuse(in_zone, "AT TIME ZONE (from_utc_timestamp and to_utc_timestamp are there)")?;
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let FunctionArguments::List(list) = &function.args else {
            return ControlFlow::Continue(());
        };
        for clause in &list.clauses {
            match clause {
                FunctionArgumentClause::IgnoreOrRespectNulls(_) => {}
                FunctionArgumentClause::OrderBy(_) => {
                    refuse(true, "ORDER BY within the arguments of a function")?;
                }
                _ => refuse(true, "a clause within the arguments of a function")?,
            }
        }
        ControlFlow::Continue(())
    }
}

fn refuse(is_there: bool, clause: &'static str) -> ControlFlow<&'static str> {
    match is_there {
        true => ControlFlow::Break(clause),
        false => ControlFlow::Continue(()),
    }
}

fn of_query(query: &Query) -> ControlFlow<&'static str> {
    refuse(!query.locks.is_empty(), "FOR UPDATE")?;
    refuse(query.for_clause.is_some(), "FOR XML or FOR JSON")?;
    refuse(query.settings.is_some(), "SETTINGS")?;
    refuse(query.format_clause.is_some(), "FORMAT")
}

fn of_select(select: &Select) -> ControlFlow<&'static str> {
    refuse(select.top.is_some(), "TOP")?;
    refuse(select.into.is_some(), "INTO")?;
    refuse(select.prewhere.is_some(), "PREWHERE")?;
    refuse(!select.connect_by.is_empty(), "CONNECT BY")?;
    refuse(select.value_table_mode.is_some(), "SELECT AS")?;
    refuse(select.select_modifiers.is_some(), "a modifier of SELECT")?;
    let (is_all, modifiers) = match &select.group_by {
        GroupByExpr::All(modifiers) => (true, modifiers),
        GroupByExpr::Expressions(_, modifiers) => (false, modifiers),
    };
    let totals = |modifier: &GroupByWithModifier| matches!(modifier, GroupByWithModifier::Totals);
    refuse(modifiers.iter().any(totals), "WITH TOTALS")?;
    refuse(is_all && !modifiers.is_empty(), "GROUP BY ALL with a modifier")?;
    refuse(modifiers.len() > 1, "more than one modifier of GROUP BY")
}

/// Writes `GROUP BY a, b WITH ROLLUP` as `GROUP BY ROLLUP (a, b)`, and CUBE and GROUPING SETS
/// behind the groups likewise.
pub(super) fn write_modifiers(select: &mut Select) {
    let GroupByExpr::Expressions(groups, modifiers) = &mut select.group_by else { return };
    let sets = match modifiers.pop() {
        None => return,
        Some(GroupByWithModifier::GroupingSets(sets)) => sets,
        Some(modifier) => {
            let each = groups.drain(..).map(|group| vec![group]).collect();
            match modifier {
                GroupByWithModifier::Cube => Expr::Cube(each),
                _ => Expr::Rollup(each),
            }
        }
    };
    *groups = vec![sets];
}
