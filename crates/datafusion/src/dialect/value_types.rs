//! The columns of VALUES have one type each, by Spark's rules: DataFusion makes times without a
//! zone of a date beside a timestamp, and numbers of text.

use super::extension::{Node, text};
use crate::functions::arithmetic::common_type;
use crate::functions::cast::is_string;
use crate::functions::error::spark;
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::ExprSchemable;
use datafusion::sql::sqlparser::ast::{
    Expr, ExprWithAlias, Query, SetExpr, Value, Values, VisitMut, VisitorMut,
};
use fluvial_core::ddl::ddl_name;
use std::ops::ControlFlow;

/// Casts the values of columns that have several types to the one that fits all. The query is
/// lowered already.
///
/// # Errors
///
/// `INVALID_INLINE_TABLE` if rows have other lengths than the first, or values no common type.
pub(super) fn unify(state: &SessionState, query: &mut Query) -> Result<()> {
    match query.visit(&mut Tables { state }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

struct Tables<'a> {
    state: &'a SessionState,
}

impl VisitorMut for Tables<'_> {
    type Break = DataFusionError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<DataFusionError> {
        match of_body(self.state, &mut query.body) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn of_body(state: &SessionState, body: &mut SetExpr) -> Result<()> {
    match body {
        SetExpr::Values(values) => of_values(state, values),
        SetExpr::SetOperation { left, right, .. } => {
            of_body(state, left)?;
            of_body(state, right)
        }
        _ => Ok(()),
    }
}

fn of_values(state: &SessionState, values: &mut Values) -> Result<()> {
    let Some(first) = values.rows.first() else { return Ok(()) };
    let columns = first.content.len();
    if let Some((at, row)) =
        values.rows.iter().enumerate().find(|(_, row)| row.content.len() != columns)
    {
        return Err(spark(
            "INVALID_INLINE_TABLE.NUM_COLUMNS_MISMATCH",
            format!(
                "row {} of VALUES has {} columns, and the first has {columns}",
                at + 1,
                row.content.len()
            ),
        ));
    }
    for at in 0..columns {
        let kinds = values.rows.iter().map(|row| kind(&row.content[at]));
        let mut kinds = kinds.filter(|kind| *kind != Kind::Null);
        let first = kinds.next().unwrap_or(Kind::Null);
        if first != Kind::Other && kinds.all(|kind| kind == first) {
            continue;
        }
        of_column(state, values, at)?;
    }
    Ok(())
}

/// What is seen of a value without planning it: most columns have literals of one kind.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Null,
    Text,
    /// A whole number without a suffix.
    Whole,
    Other,
}

fn kind(expr: &Expr) -> Kind {
    match (expr, Node::read(expr)) {
        (Expr::Value(value), _) => match &value.value {
            Value::Null => Kind::Null,
            Value::SingleQuotedString(_) | Value::DoubleQuotedString(_) => Kind::Text,
            _ => Kind::Other,
        },
        (_, Some((Node::Number, parts))) => {
            let [digits, suffix] = parts.as_slice() else { return Kind::Other };
            let part = |expr| super::extension::text_of(expr).unwrap_or_default();
            let whole = part(suffix).is_empty() && !part(digits).contains(['.', 'e', 'E']);
            if whole { Kind::Whole } else { Kind::Other }
        }
        _ => Kind::Other,
    }
}

fn of_column(state: &SessionState, values: &mut Values, at: usize) -> Result<()> {
    let nothing = DFSchema::empty();
    let mut types = Vec::with_capacity(values.rows.len());
    for row in &values.rows {
        let expr = ExprWithAlias { expr: row.content[at].clone(), alias: None };
        // What cannot be planned alone is refused where the query is.
        let Ok(planned) = state.create_logical_expr_from_sql_expr(expr, &nothing) else {
            return Ok(());
        };
        types.push(planned.get_type(&nothing)?);
    }
    let mut common = DataType::Null;
    for (row, of) in types.iter().enumerate() {
        let known = !common.is_null() && !of.is_null();
        common = fitting(&common, of)
            .filter(|_| !known || is_string(&common) == is_string(of))
            .ok_or_else(|| {
                spark(
                    "INVALID_INLINE_TABLE.INCOMPATIBLE_TYPES_IN_INLINE_TABLE",
                    format!(
                        "column {} of VALUES is {} before row {}, which has {}: cast one of them",
                        at + 1,
                        ddl_name(&common),
                        row + 1,
                        ddl_name(of)
                    ),
                )
            })?;
    }
    for (row, of) in values.rows.iter_mut().zip(types) {
        if of != common && !of.is_null() {
            let value = std::mem::replace(&mut row.content[at], Expr::Value(Value::Null.into()));
            row.content[at] = Node::Cast.of([value, text(ddl_name(&common))]);
        }
    }
    Ok(())
}

/// The type of both: in VALUES a float takes whole numbers.
fn fitting(left: &DataType, right: &DataType) -> Option<DataType> {
    match (left, right) {
        (DataType::Float32, whole) | (whole, DataType::Float32) if whole.is_integer() => {
            Some(DataType::Float32)
        }
        _ => common_type(left, right),
    }
}
