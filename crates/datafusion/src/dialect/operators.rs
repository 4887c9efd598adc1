//! Operators of two operands: which function, or which DataFusion operator on which types.

use super::compare;
use crate::functions::arithmetic::{self, Op, chained, common_type, resolve};
use crate::functions::calendar::MICROS_PER_DAY;
use crate::functions::cast::{CastMode, cast_expr, is_string};
use crate::functions::typing::Typed;
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::{ExprSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{BinaryExpr, ScalarFunction};
use datafusion::logical_expr::{Expr, Operator, ScalarUDF};
use std::sync::Arc;

/// `left op right` with Spark's meaning; `None` if DataFusion's is the same.
///
/// # Errors
///
/// `DATATYPE_MISMATCH...` if Spark has no such operation.
pub(super) fn binary(
    op: Operator,
    left: &Expr,
    right: &Expr,
    schema: &dyn ExprSchema,
) -> Result<Option<Expr>> {
    let arithmetic = match op {
        Operator::Plus => Op::Add,
        Operator::Minus => Op::Subtract,
        Operator::Multiply => Op::Multiply,
        Operator::Divide => Op::Divide,
        Operator::Modulo => Op::Remainder,
        Operator::IntegerDivide => Op::IntegralDivide,
        Operator::StringConcat => return concat(left, right, schema),
        Operator::BitwiseAnd | Operator::BitwiseOr | Operator::BitwiseXor => {
            return bitwise(op, left, right, schema);
        }
        Operator::BitwiseShiftLeft => {
            return Ok(Some(call(datafusion_spark::function::bitwise::shiftleft(), left, right)));
        }
        Operator::BitwiseShiftRight => {
            return Ok(Some(call(datafusion_spark::function::bitwise::shiftright(), left, right)));
        }
        op if op.supports_propagation() => return compare::binary(op, left, right, schema),
        _ => return Ok(None),
    };
    arithmetic_expr(arithmetic, left, right, schema)
}

fn arithmetic_expr(
    op: Op,
    left: &Expr,
    right: &Expr,
    schema: &dyn ExprSchema,
) -> Result<Option<Expr>> {
    let (left, right) = (exact_literal(left, right, schema)?, exact_literal(right, left, schema)?);
    let (lt, rt) = (left.type_in(schema)?, right.type_in(schema)?);
    let resolved = resolve(op, &lt, &rt)?;
    let operand = cast_expr(right.clone(), &resolved.right, schema)?;
    if let Some(chain) = chained(op, &left, &operand, &resolved) {
        return Ok(Some(chain));
    }
    // Floats neither overflow nor fail; only division may.
    let native = matches!(op, Op::Add | Op::Subtract | Op::Multiply)
        && matches!(resolved.result, DataType::Float32 | DataType::Float64);
    if native {
        let left = cast_expr(left, &resolved.left, schema)?;
        let right = cast_expr(right, &resolved.right, schema)?;
        return Ok(Some(native_expr(op, left, right)));
    }
    if let Some(expr) = shifted_time(op, &left, &right, &lt, &rt) {
        return Ok(Some(expr));
    }
    // A date plus an interval with hours is a timestamp.
    let (left, right) = match (&lt, &rt) {
        (DataType::Date32, DataType::Interval(_)) => (left, day_time(right)),
        (DataType::Interval(_), DataType::Date32) => (day_time(left), right),
        (DataType::Duration(_), DataType::Interval(_)) => (left, as_duration(right)),
        (DataType::Interval(_), DataType::Duration(_)) => (as_duration(left), right),
        _ => (left, right),
    };
    let (lt, rt) = (left.type_in(schema)?, right.type_in(schema)?);
    let resolved = resolve(op, &lt, &rt)?;
    let left = cast_expr(left, &resolved.left, schema)?;
    let right = cast_expr(right, &resolved.right, schema)?;
    Ok(Some(arithmetic::call(op, CastMode::Ansi, left, right)))
}

fn native_expr(op: Op, left: Expr, right: Expr) -> Expr {
    let op = match op {
        Op::Add => Operator::Plus,
        Op::Subtract => Operator::Minus,
        _ => Operator::Multiply,
    };
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
}

/// A timestamp plus or minus a literal span without days or months, which no time zone changes:
/// DataFusion's own sum of microseconds, which join conditions can be read off.
fn shifted_time(op: Op, left: &Expr, right: &Expr, lt: &DataType, rt: &DataType) -> Option<Expr> {
    let is_time = |t: &DataType| matches!(t, DataType::Timestamp(TimeUnit::Microsecond, _));
    let operator = match op {
        Op::Add => Operator::Plus,
        Op::Subtract => Operator::Minus,
        _ => return None,
    };
    let (time, span) = match (is_time(lt), is_time(rt)) {
        (true, false) => (left, right),
        (false, true) if op == Op::Add => (right, left),
        _ => return None,
    };
    let micros = literal_micros(span)?;
    let span = Expr::Literal(ScalarValue::DurationMicrosecond(Some(micros)), None);
    // Whole days of such a span count as days, which time zones make longer or shorter.
    if micros.unsigned_abs() >= MICROS_PER_DAY.unsigned_abs() {
        return Some(arithmetic::call(op, CastMode::Ansi, time.clone(), span));
    }
    Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(time.clone()), operator, Box::new(span))))
}

/// The microseconds of a literal interval that has neither months nor days.
fn literal_micros(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(value)), _)
            if value.months == 0 && value.days == 0 =>
        {
            Some(value.nanoseconds / 1000)
        }
        _ => None,
    }
}

/// A literal interval with a part below a day, as a duration; others as they are.
fn day_time(interval: Expr) -> Expr {
    match &interval {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(v)), _) if v.nanoseconds != 0 => {
            as_duration(interval)
        }
        _ => interval,
    }
}

/// A literal interval without months as a duration; others as they are.
pub(super) fn as_duration(interval: Expr) -> Expr {
    match &interval {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(v)), _) if v.months == 0 => {
            let micros = i64::from(v.days) * MICROS_PER_DAY + v.nanoseconds / 1000;
            Expr::Literal(ScalarValue::DurationMicrosecond(Some(micros)), None)
        }
        _ => interval,
    }
}

/// An integer literal beside a decimal counts with as many digits as it has, not as its type.
fn exact_literal(expr: &Expr, other: &Expr, schema: &dyn ExprSchema) -> Result<Expr> {
    let Expr::Literal(value, metadata) = expr else { return Ok(expr.clone()) };
    let value = match value {
        ScalarValue::Int8(Some(v)) => i64::from(*v),
        ScalarValue::Int16(Some(v)) => i64::from(*v),
        ScalarValue::Int32(Some(v)) => i64::from(*v),
        ScalarValue::Int64(Some(v)) => *v,
        _ => return Ok(expr.clone()),
    };
    if !matches!(other.type_in(schema)?, DataType::Decimal128(..)) {
        return Ok(expr.clone());
    }
    let digits = value.unsigned_abs().checked_ilog10().unwrap_or(0) + 1;
    let decimal = ScalarValue::Decimal128(Some(value.into()), digits as u8, 0);
    Ok(Expr::Literal(decimal, metadata.clone()))
}

/// `||`: text of both, or one array of both.
fn concat(left: &Expr, right: &Expr, schema: &dyn ExprSchema) -> Result<Option<Expr>> {
    let (lt, rt) = (left.type_in(schema)?, right.type_in(schema)?);
    if matches!(lt, DataType::List(_)) || matches!(rt, DataType::List(_)) {
        return Ok(None);
    }
    let function = datafusion_spark::function::string::concat();
    let right = cast_expr(right.clone(), &DataType::Utf8, schema)?;
    // One call of many operators: calls within calls would be as deep.
    let arguments = match left {
        Expr::ScalarFunction(call) if call.func == function => {
            call.args.iter().cloned().chain([right]).collect()
        }
        _ => vec![cast_expr(left.clone(), &DataType::Utf8, schema)?, right],
    };
    Ok(Some(Expr::ScalarFunction(ScalarFunction::new_udf(function, arguments))))
}

fn bitwise(
    op: Operator,
    left: &Expr,
    right: &Expr,
    schema: &dyn ExprSchema,
) -> Result<Option<Expr>> {
    let (lt, rt) = (left.type_in(schema)?, right.type_in(schema)?);
    let fits = |t: &DataType| t.is_integer() || is_string(t) || *t == DataType::Null;
    match common_type(&lt, &rt).filter(|_| fits(&lt) && fits(&rt)) {
        Some(common) => {
            let common = if common.is_integer() { common } else { DataType::Int64 };
            let left = cast_expr(left.clone(), &common, schema)?;
            let right = cast_expr(right.clone(), &common, schema)?;
            let expr = BinaryExpr::new(Box::new(left), op, Box::new(right));
            Ok(Some(Expr::BinaryExpr(expr)))
        }
        None => Err(crate::functions::error::mismatch(&op.to_string(), &[&lt, &rt])),
    }
}

fn call(function: Arc<ScalarUDF>, left: &Expr, right: &Expr) -> Expr {
    let arguments = vec![left.clone(), right.clone()];
    Expr::ScalarFunction(ScalarFunction::new_udf(function, arguments))
}

/// Whether the type is an interval of either kind.
pub(super) fn is_interval(t: &DataType) -> bool {
    matches!(t, DataType::Interval(IntervalUnit::MonthDayNano) | DataType::Duration(_))
}
