//! What DataFusion's planner refuses, under Spark's condition names.

use crate::functions::error::spark;
use crate::functions::unsupported_aggregates;
use datafusion::common::{Column, DataFusionError, Result, SchemaError};
use datafusion::sql::sqlparser::ast::{Expr, LimitClause, Query, UnaryOperator, Value};
use fluvial_core::options::nearest;

/// How names begin that stand for relations without one.
const RESERVED: &str = "__fluvial_";

/// The error with a condition, if it is one of those that Spark names.
pub(super) fn named(error: DataFusionError) -> DataFusionError {
    match condition(&error) {
        Some((condition, message)) => spark(condition, message),
        None => error,
    }
}

fn condition(error: &DataFusionError) -> Option<(&'static str, String)> {
    match error {
        DataFusionError::SchemaError(inner, _) => match inner.as_ref() {
            SchemaError::FieldNotFound { field, valid_fields } => {
                Some(("UNRESOLVED_COLUMN.WITH_SUGGESTION", no_column(field, valid_fields)))
            }
            // A result, not a reference, with one name twice: its columns are qualified or not.
            SchemaError::AmbiguousReference { field } if field.relation.is_some() => {
                Some(("COLUMN_ALREADY_EXISTS", name_twice(&field.name)))
            }
            SchemaError::DuplicateQualifiedField { name, .. }
            | SchemaError::DuplicateUnqualifiedField { name } => {
                Some(("COLUMN_ALREADY_EXISTS", name_twice(name)))
            }
            SchemaError::AmbiguousReference { .. } => {
                Some(("AMBIGUOUS_REFERENCE", inner.to_string()))
            }
        },
        DataFusionError::Plan(text) => of_text(text),
        DataFusionError::NotImplemented(text) => Some(("UNSUPPORTED_FEATURE", feature(text))),
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            condition(inner)
        }
        DataFusionError::Collection(all) => all.iter().find_map(condition),
        DataFusionError::Shared(inner) => condition(inner),
        _ => None,
    }
}

/// The names that a user may write: those of a relation that SQL left unnamed stand alone.
fn no_column(field: &Column, known: &[Column]) -> String {
    let shown = |column: &Column| match &column.relation {
        Some(relation) if !relation.table().starts_with(RESERVED) => column.flat_name(),
        _ => column.name.clone(),
    };
    let missing = shown(field);
    let known: Vec<String> = known.iter().map(shown).collect();
    let plain: Vec<&str> = known.iter().map(String::as_str).collect();
    let hint = match nearest(&missing, &plain) {
        Some(near) => format!("did you mean `{near}`? "),
        None => String::new(),
    };
    match known.is_empty() {
        true => format!("there is no column `{missing}`"),
        false => format!("there is no column `{missing}`: {hint}there are {}", known.join(", ")),
    }
}

fn name_twice(name: &str) -> String {
    format!("the result has two columns of the name `{name}`: give one of them another with AS")
}

/// What is not there. A part of SQL is shown without its tree, which fills pages.
fn feature(text: &str) -> String {
    match text.strip_prefix("Unsupported ast node ") {
        Some(node) => {
            let node = node.trim_start_matches("in sqltorel: ");
            let name = node.split([' ', '(', '{']).next().unwrap_or(node);
            format!("{} is not supported: rewrite the query without it", name.to_uppercase())
        }
        None => text.to_owned(),
    }
}

fn of_text(text: &str) -> Option<(&'static str, String)> {
    if let Some(rest) = text.strip_prefix("Invalid function '") {
        let name = rest.split('\'').next().unwrap_or_default();
        let message = if unsupported_aggregates().contains(&name) {
            format!("the aggregate function `{name}` of Spark is not supported")
        } else {
            let hint = rest.split_once(".\n").map_or("", |(_, hint)| hint);
            format!("there is no function `{name}`. {hint}").trim_end().to_owned()
        };
        return Some(("UNRESOLVED_ROUTINE", message));
    }
    if let Some(rest) = text.strip_prefix("Projections require unique expression names but ") {
        let name = rest.split('"').nth(1).unwrap_or_default();
        let name = name.rsplit(" AS ").next().unwrap_or_default();
        return Some(("COLUMN_ALREADY_EXISTS", name_twice(name)));
    }
    if let Some(rest) = text.strip_prefix("lambda defined ") {
        let numbers = rest.split(' ').filter(|word| word.parse::<usize>().is_ok());
        if let [written, most] = numbers.collect::<Vec<_>>().as_slice() {
            let message = format!("a lambda has {written} parameters: it gets {most} at most");
            return Some(("INVALID_LAMBDA_FUNCTION_CALL.NUM_ARGS_MISMATCH", message));
        }
    }
    if let Some((name, _)) =
        text.strip_prefix("The window ").and_then(|rest| rest.split_once(" is not defined"))
    {
        let message = format!("there is no window `{name}`: define it with WINDOW {name} AS (..)");
        return Some(("MISSING_WINDOW_SPECIFICATION", message));
    }
    let is_table = text.starts_with("table '") && text.ends_with("not found");
    is_table.then(|| ("TABLE_OR_VIEW_NOT_FOUND", text.to_owned()))
}

/// Refuses `LIMIT -1`.
///
/// # Errors
///
/// `INVALID_LIMIT_LIKE_EXPRESSION.IS_NEGATIVE`.
pub(super) fn check_limit(query: &Query) -> Result<()> {
    let counts: Vec<&Expr> = match &query.limit_clause {
        Some(LimitClause::LimitOffset { limit, offset, .. }) => {
            limit.iter().chain(offset.iter().map(|o| &o.value)).collect()
        }
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => vec![offset, limit],
        None => Vec::new(),
    };
    match counts.iter().find(|count| is_negative(count)) {
        Some(count) => Err(spark(
            "INVALID_LIMIT_LIKE_EXPRESSION.IS_NEGATIVE",
            format!("a limit is a number from 0, not {count}"),
        )),
        None => Ok(()),
    }
}

fn is_negative(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.starts_with('-'),
            _ => false,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, .. } => true,
        _ => false,
    }
}
