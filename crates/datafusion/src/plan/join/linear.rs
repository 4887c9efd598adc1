//! Times as sums: `t1 + interval 10 minutes` is `t1` and ten minutes.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{Column, ExprSchema};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};
use datafusion::scalar::ScalarValue;

const SECOND: i128 = 1_000_000;
const DAY: i128 = 86_400 * SECOND;

/// A sum of times and a constant, in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Linear {
    /// The times that are added, and those that are subtracted.
    pub(super) plus: Vec<Column>,
    pub(super) minus: Vec<Column>,
    /// What is added to them.
    pub(super) constant: i128,
    /// Whether a cast cut off fractions of a second.
    pub(super) cut: bool,
    /// Whether days are in it: in a time zone one may have an hour more or less.
    pub(super) days: bool,
}

impl Linear {
    fn constant(constant: i128) -> Self {
        Self { constant, ..Self::default() }
    }

    pub(super) fn add(self, other: Self) -> Self {
        Self {
            plus: [self.plus, other.plus].concat(),
            minus: [self.minus, other.minus].concat(),
            constant: self.constant.saturating_add(other.constant),
            cut: self.cut || other.cut,
            days: self.days || other.days,
        }
    }

    pub(super) fn negate(self) -> Self {
        let constant = self.constant.saturating_neg();
        Self { plus: self.minus, minus: self.plus, constant, ..self }
    }
}

/// An expression as a sum; `None` for anything else. Numbers are seconds, which is what a time is
/// as a number.
pub(super) fn linear(expr: &Expr, schema: &dyn ExprSchema) -> Option<Linear> {
    match expr {
        Expr::Alias(alias) => linear(&alias.expr, schema),
        Expr::Column(column) => {
            let found = schema.data_type(column).ok()?;
            let is_time = matches!(found, DataType::Timestamp(TimeUnit::Microsecond, _));
            is_time.then(|| Linear { plus: vec![column.clone()], ..Linear::default() })
        }
        Expr::Literal(value, _) => constant(value),
        Expr::Negative(inner) => linear(inner, schema).map(Linear::negate),
        Expr::Cast(cast) => converted(&cast.expr, expr, schema),
        Expr::TryCast(cast) => converted(&cast.expr, expr, schema),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus, right }) => {
            Some(linear(left, schema)?.add(linear(right, schema)?))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Minus, right }) => {
            Some(linear(left, schema)?.add(linear(right, schema)?.negate()))
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) => {
            match (func.name(), args.as_slice()) {
                ("cast" | "try_cast", [inner]) => converted(inner, expr, schema),
                ("add" | "try_add", [l, r]) => Some(linear(l, schema)?.add(linear(r, schema)?)),
                ("subtract" | "try_subtract", [l, r]) => {
                    Some(linear(l, schema)?.add(linear(r, schema)?.negate()))
                }
                ("negative", [inner]) => linear(inner, schema).map(Linear::negate),
                _ => None,
            }
        }
        _ => None,
    }
}

/// A cast: times stay what they are, as numbers they are seconds.
fn converted(inner: &Expr, cast: &Expr, schema: &dyn ExprSchema) -> Option<Linear> {
    let value = linear(inner, schema)?;
    let cut = match cast.get_type(schema).ok()? {
        DataType::Timestamp(..) | DataType::Duration(_) | DataType::Interval(_) => false,
        DataType::Float64 | DataType::Decimal128(..) => false,
        to if to.is_integer() => true,
        _ => return None,
    };
    Some(Linear { cut: value.cut || cut, ..value })
}

/// A constant; `None` if it has no fixed length, as a month.
fn constant(value: &ScalarValue) -> Option<Linear> {
    use ScalarValue as V;
    let micros = match value {
        V::IntervalMonthDayNano(Some(v)) if v.months == 0 => {
            let days = i128::from(v.days);
            let fixed = Linear::constant(days * DAY + i128::from(v.nanoseconds) / 1000);
            return Some(Linear { days: days != 0, ..fixed });
        }
        V::IntervalDayTime(Some(v)) => i128::from(v.days) * DAY + i128::from(v.milliseconds) * 1000,
        V::DurationSecond(Some(v)) => i128::from(*v) * SECOND,
        V::DurationMillisecond(Some(v)) => i128::from(*v) * 1000,
        V::DurationMicrosecond(Some(v)) => i128::from(*v),
        V::DurationNanosecond(Some(v)) => i128::from(*v) / 1000,
        V::TimestampMicrosecond(Some(v), _) => i128::from(*v),
        V::Int8(Some(v)) => i128::from(*v) * SECOND,
        V::Int16(Some(v)) => i128::from(*v) * SECOND,
        V::Int32(Some(v)) => i128::from(*v) * SECOND,
        V::Int64(Some(v)) => i128::from(*v) * SECOND,
        V::Float64(Some(v)) if v.is_finite() => (v * 1e6) as i128,
        V::Decimal128(Some(v), _, scale) => {
            let tens = 10i128.checked_pow((*scale).try_into().ok()?)?;
            v.checked_mul(SECOND)? / tens
        }
        _ => return None,
    };
    Some(Linear::constant(micros))
}
