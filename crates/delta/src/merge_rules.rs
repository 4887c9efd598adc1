//! Which rules of a table a MERGE keeps to.
//!
//! The library checks and computes them, as plain DataFusion, which knows other functions than
//! Spark, and others of the same name: `a / 2` of whole numbers is one, and not only there. What
//! means the same to both is little, and what is not known to is refused.

use crate::error::delta_error;
use crate::rules::{Rule, rules};
use crate::types::find;
use arrow::datatypes::{DataType, Schema};
use datafusion::sql::sqlparser::ast::{BinaryOperator as Op, Expr, UnaryOperator, Value};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;
use deltalake::DeltaTable;
use fluvial_core::{Error, Result};

/// Checks that a merge may write to a table.
///
/// # Errors
///
/// `Invalid` (`DELTA_FEATURE_NOT_SUPPORTED`) naming a rule that it might not keep.
pub(crate) fn check_merged(table: &DeltaTable) -> Result<()> {
    let state = table.snapshot().map_err(delta_error)?;
    let schema = state.snapshot().arrow_schema();
    for rule in rules(state)? {
        let (what, text) = match &rule {
            Rule::Check(name, text) => (format!("CHECK constraint {name}"), text),
            Rule::Invariant(name, text) => (format!("the invariant of column {name:?}"), text),
            Rule::Generated(name, text) => (format!("the value of column {name:?}"), text),
        };
        let found = parse(text).and_then(|expr| kind(&expr, &schema));
        let fits = match &rule {
            Rule::Generated(name, _) => found.is_some_and(|found| {
                let column = find(schema.fields(), name).map(|i| schema.field(i).data_type());
                column.is_some_and(|of| Kind::of(of) == found.of_column())
            }),
            _ => found.is_some_and(|found| truth(&found)),
        };
        if !fits {
            return Err(Error::invalid(format!(
                "{what} is {text}, and a merge knows only rules of columns and values with + - *, \
                 comparisons of one type, AND, OR, NOT and IS NULL: write to the table in append \
                 mode, or drop the rule"
            ))
            .with_condition("DELTA_FEATURE_NOT_SUPPORTED"));
        }
    }
    Ok(())
}

fn parse(text: &str) -> Option<Expr> {
    let mut parser = Parser::new(&GenericDialect {}).try_with_sql(text).ok()?;
    let expr = parser.parse_expr().ok()?;
    (parser.peek_token().token == Token::EOF).then_some(expr)
}

/// What values of an expression are.
#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Whole,
    /// A whole number that every type of numbers holds exactly.
    Small,
    Float,
    Double,
    /// A number with digits behind the point: a double to DataFusion, a decimal to Spark.
    Digits,
    Text,
    Truth,
    Null,
    /// Compared with nothing but the same.
    Other(DataType),
}

impl Kind {
    fn of(column: &DataType) -> Self {
        match column {
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => Self::Whole,
            DataType::Float32 => Self::Float,
            DataType::Float64 => Self::Double,
            DataType::Utf8 => Self::Text,
            DataType::Boolean => Self::Truth,
            other => Self::Other(other.clone()),
        }
    }

    /// What a column of such values is.
    fn of_column(self) -> Self {
        if self == Self::Small { Self::Whole } else { self }
    }

    fn is_whole(&self) -> bool {
        matches!(self, Self::Whole | Self::Small)
    }

    /// Numbers with which Spark and DataFusion both compute in doubles.
    fn is_double(&self) -> bool {
        matches!(self, Self::Double | Self::Digits)
    }
}

/// `None` if it may mean something else to Spark.
fn kind(expr: &Expr, schema: &Schema) -> Option<Kind> {
    let of = |expr: &Expr| kind(expr, schema);
    match expr {
        // In double quotes it is a text to Spark.
        Expr::Identifier(name) if name.quote_style != Some('"') => {
            Some(Kind::of(schema.field(find(schema.fields(), &name.value)?).data_type()))
        }
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => Some(match digits.parse::<i64>() {
                Ok(value) if value < 1 << f32::MANTISSA_DIGITS => Kind::Small,
                Ok(_) => Kind::Whole,
                Err(_) => Kind::Digits,
            }),
            // Spark takes backslashes in texts for escapes.
            Value::SingleQuotedString(text) => (!text.contains('\\')).then_some(Kind::Text),
            Value::Boolean(_) => Some(Kind::Truth),
            Value::Null => Some(Kind::Null),
            _ => None,
        },
        Expr::Nested(inner) => of(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => {
            of(expr).filter(|kind| kind.is_whole() || kind.is_double() || *kind == Kind::Float)
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => of(expr).filter(truth),
        Expr::IsNull(inner) | Expr::IsNotNull(inner) => of(inner).map(|_| Kind::Truth),
        Expr::Between { expr, low, high, .. } => {
            let value = of(expr)?;
            let fit = compared(&value, &of(low)?) && compared(&value, &of(high)?);
            fit.then_some(Kind::Truth)
        }
        Expr::InList { expr, list, .. } => {
            let value = of(expr)?;
            let fit = list.iter().all(|one| of(one).is_some_and(|one| compared(&value, &one)));
            fit.then_some(Kind::Truth)
        }
        Expr::BinaryOp { left, op, right } => binary(&of(left)?, op, &of(right)?),
        _ => None,
    }
}

fn binary(left: &Kind, op: &Op, right: &Kind) -> Option<Kind> {
    match op {
        Op::And | Op::Or => (truth(left) && truth(right)).then_some(Kind::Truth),
        Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq => {
            compared(left, right).then_some(Kind::Truth)
        }
        Op::Plus | Op::Minus | Op::Multiply => match (left, right) {
            (left, right) if left.is_whole() && right.is_whole() => Some(Kind::Whole),
            (Kind::Float, Kind::Float) => Some(Kind::Float),
            // A FLOAT beside a whole number is one to DataFusion, a DOUBLE to Spark.
            (Kind::Digits, Kind::Digits) => None,
            (Kind::Double, other) | (other, Kind::Double) => {
                (other.is_whole() || other.is_double() || *other == Kind::Float)
                    .then_some(Kind::Double)
            }
            (Kind::Float, Kind::Digits) | (Kind::Digits, Kind::Float) => Some(Kind::Double),
            _ => None,
        },
        _ => None,
    }
}

fn truth(kind: &Kind) -> bool {
    matches!(kind, Kind::Truth | Kind::Null)
}

fn compared(left: &Kind, right: &Kind) -> bool {
    let number = |kind: &Kind| match kind {
        Kind::Other(of) => of.is_numeric(),
        kind => kind.is_whole() || kind.is_double() || *kind == Kind::Float,
    };
    match (left, right) {
        (Kind::Null, _) | (_, Kind::Null) => true,
        (Kind::Float, Kind::Whole) | (Kind::Whole, Kind::Float) => false,
        (left, right) => left == right || (number(left) && number(right)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Field;

    #[test]
    fn what_may_mean_something_else_to_spark_is_not_plain() {
        let field = |name, of| Field::new(name, of, true);
        let schema = Schema::new(vec![
            field("a", DataType::Int32),
            field("d", DataType::Float64),
            field("s", DataType::Utf8),
            field("day", DataType::Date32),
            field("p", DataType::Decimal128(10, 2)),
            field("f", DataType::Float32),
        ]);
        let is_plain = |text: &str| parse(text).is_some_and(|e| kind(&e, &schema).is_some());
        for plain in [
            "a",
            "a * 2 + 1",
            "-A < 3 AND s = 'x'",
            "d * 0.5 >= a",
            "p > 0.5",
            "f > 16777215 AND f < 0.5",
            "f * f + 0.5 > d",
            "day = day",
            "s IN ('x', 'y') OR s IS NULL",
            "NOT (a BETWEEN 1 AND 5)",
        ] {
            assert!(is_plain(plain), "{plain}");
        }
        for other in [
            "a / 2",
            "a % 2",
            "CAST(a AS STRING)",
            "SUBSTRING(s, 1, 2)",
            "TRIM(s)",
            "CEIL(d)",
            "EXTRACT(YEAR FROM day)",
            "POSITION('x' IN s)",
            "length(s)",
            "s > 5",
            "a * 0.1",
            "p * 2",
            "f * 2",
            "f > a",
            "f > 16777216",
            "s LIKE 'x%'",
            r"s = 'a\tb'",
            "day = '2026-11-30'",
            "nobody",
            "s = \"s\"",
            "CASE WHEN a > 1 THEN 1 END",
            "a ||",
            "a div 2",
        ] {
            assert!(!is_plain(other), "{other}");
        }
    }
}
