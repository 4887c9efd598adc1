//! Integers and floats.

use super::Op;
use crate::functions::cast::CastMode;
use crate::functions::error::{divide_by_zero, overflow, remainder_by_zero, spark};
use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, Datum, PrimitiveArray,
};
use arrow::compute::kernels::numeric;
use arrow::datatypes::{
    DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
};
use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result, internal_err};
use std::sync::Arc;

/// Applies `op` to two columns of one type, either of which may be a single value.
pub(super) fn apply(
    op: Op,
    mode: CastMode,
    left: &dyn Datum,
    right: &dyn Datum,
) -> Result<ArrayRef> {
    match left.get().0.data_type() {
        DataType::Int8 => integers::<Int8Type>(op, mode, left, right),
        DataType::Int16 => integers::<Int16Type>(op, mode, left, right),
        DataType::Int32 => integers::<Int32Type>(op, mode, left, right),
        DataType::Int64 => integers::<Int64Type>(op, mode, left, right),
        DataType::Float32 => floats::<Float32Type>(op, mode, left, right),
        DataType::Float64 => floats::<Float64Type>(op, mode, left, right),
        other => internal_err!("no arithmetic on {other}"),
    }
}

fn integers<T: ArrowPrimitiveType>(
    op: Op,
    mode: CastMode,
    left: &dyn Datum,
    right: &dyn Datum,
) -> Result<ArrayRef> {
    // Arrow's checked kernels are the fast path of what fails the query.
    let checked = match (op, mode) {
        (Op::Add, CastMode::Ansi) => Some(numeric::add(left, right)),
        (Op::Subtract, CastMode::Ansi) => Some(numeric::sub(left, right)),
        (Op::Multiply, CastMode::Ansi) => Some(numeric::mul(left, right)),
        (Op::IntegralDivide, CastMode::Ansi) => Some(numeric::div(left, right)),
        (Op::Remainder, CastMode::Ansi) => Some(numeric::rem(left, right)),
        _ => None,
    };
    if let Some(result) = checked {
        return result.map_err(|e| narrow_condition::<T>(op, e));
    }
    rows::<T>(mode, left, right, |l, r| match op {
        Op::Add => l.add_checked(r),
        Op::Subtract => l.sub_checked(r),
        Op::Multiply => l.mul_checked(r),
        Op::Divide | Op::IntegralDivide => l.div_checked(r),
        Op::Remainder | Op::PositiveRemainder if r.is_zero() => Err(ArrowError::DivideByZero),
        Op::Remainder => Ok(l.mod_wrapping(r)),
        Op::PositiveRemainder => Ok(positive(l, r)),
    })
    .map_err(|e| match e {
        DataFusionError::ArrowError(e, _) => narrow_condition::<T>(op, *e),
        other => other,
    })
}

/// Spark has a name of its own for the overflow of the two narrowest types.
fn narrow_condition<T: ArrowPrimitiveType>(op: Op, error: ArrowError) -> DataFusionError {
    let narrow = matches!(T::DATA_TYPE, DataType::Int8 | DataType::Int16);
    match error {
        ArrowError::ArithmeticOverflow(_) if narrow => spark(
            "BINARY_ARITHMETIC_OVERFLOW",
            format!("the result of `{}` is out of the range of its type", op.symbol()),
        ),
        other => condition(op, other),
    }
}

fn floats<T: ArrowPrimitiveType>(
    op: Op,
    mode: CastMode,
    left: &dyn Datum,
    right: &dyn Datum,
) -> Result<ArrayRef> {
    rows::<T>(mode, left, right, |l, r| match op {
        Op::Add => Ok(l.add_wrapping(r)),
        Op::Subtract => Ok(l.sub_wrapping(r)),
        Op::Multiply => Ok(l.mul_wrapping(r)),
        _ if r.is_zero() => Err(ArrowError::DivideByZero),
        Op::Divide | Op::IntegralDivide => Ok(l.div_wrapping(r)),
        Op::Remainder => Ok(l.mod_wrapping(r)),
        Op::PositiveRemainder => Ok(positive(l, r)),
    })
    .map_err(|e| match e {
        DataFusionError::ArrowError(e, _) => condition(op, *e),
        other => other,
    })
}

/// The remainder, moved up by the divisor if it is negative.
fn positive<N: ArrowNativeTypeOp>(l: N, r: N) -> N {
    let rest = l.mod_wrapping(r);
    if rest.is_lt(N::ZERO) { rest.add_wrapping(r).mod_wrapping(r) } else { rest }
}

fn rows<T: ArrowPrimitiveType>(
    mode: CastMode,
    left: &dyn Datum,
    right: &dyn Datum,
    f: impl Fn(T::Native, T::Native) -> Result<T::Native, ArrowError>,
) -> Result<ArrayRef> {
    let ((l, l_one), (r, r_one)) = (left.get(), right.get());
    let (l, r) = (l.as_primitive::<T>(), r.as_primitive::<T>());
    let array: PrimitiveArray<T> = match (l_one, r_one, mode) {
        (true, false, _) if l.is_null(0) => PrimitiveArray::new_null(r.len()),
        (false, true, _) if r.is_null(0) => PrimitiveArray::new_null(l.len()),
        (true, false, CastMode::Ansi) => r.try_unary(|r| f(l.value(0), r))?,
        (true, false, CastMode::Try) => r.unary_opt(|r| f(l.value(0), r).ok()),
        (false, true, CastMode::Ansi) => l.try_unary(|l| f(l, r.value(0)))?,
        (false, true, CastMode::Try) => l.unary_opt(|l| f(l, r.value(0)).ok()),
        (_, _, CastMode::Ansi) => arrow::compute::try_binary(l, r, f)?,
        (_, _, CastMode::Try) => {
            l.iter().zip(r).map(|(l, r)| l.zip(r).and_then(|(l, r)| f(l, r).ok())).collect()
        }
    };
    Ok(Arc::new(array))
}

/// Arrow's error under Spark's name.
pub(super) fn condition(op: Op, error: ArrowError) -> DataFusionError {
    match error {
        ArrowError::DivideByZero => match op {
            Op::Remainder | Op::PositiveRemainder => remainder_by_zero(),
            _ => divide_by_zero(),
        },
        ArrowError::ArithmeticOverflow(_) | ArrowError::ComputeError(_) => {
            overflow(&format!("the result of `{}`", op.symbol()))
        }
        other => other.into(),
    }
}
