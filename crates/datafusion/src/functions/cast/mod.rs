//! `CAST` and `TRY_CAST` with Spark's ANSI meaning: which types convert into which, how text is
//! read and written, and what is refused rather than cut off.

mod decimal;
mod nested;
mod numeric;
mod parse;
mod temporal;
mod text;
mod udf;

pub(crate) use decimal::{
    decimal_text, div_half_up, fit as fit_decimal, parse_decimal, power_of_ten, rescale,
};
pub(crate) use parse::{parse_date, parse_double, parse_timestamp};
pub(crate) use temporal::local_day;
pub(crate) use text::{double_text, write_value};
pub(crate) use udf::{CastFunction, arrow_agrees, bad_literal, cast_expr, try_cast_expr};

use super::error::spark;
use super::zone::Zone;
use arrow::array::{Array, ArrayRef, AsArray, new_null_array};
use arrow::compute;
use arrow::datatypes::{DataType, Float64Type, Int64Type, TimeUnit};
use datafusion::common::{DataFusionError, Result};
use fluvial_core::ddl::ddl_name;
use std::sync::Arc;

/// What happens to a value that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum CastMode {
    /// The query fails.
    Ansi,
    /// The value becomes null.
    Try,
}

/// What a cast needs to know beside the values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CastContext<'a> {
    pub(crate) from: &'a DataType,
    pub(crate) to: &'a DataType,
    pub(crate) mode: CastMode,
    pub(crate) zone: Zone,
}

impl CastContext<'_> {
    /// The text is not a value of the type.
    pub(crate) fn malformed(&self, value: &str) -> DataFusionError {
        spark(
            "CAST_INVALID_INPUT",
            format!(
                "the value '{value}' of the type {} cannot be cast to {} because it is \
                 malformed; try_cast gives null instead",
                ddl_name(self.from),
                ddl_name(self.to)
            ),
        )
    }

    /// The number is outside the type's range.
    pub(crate) fn overflow(&self, value: &str) -> DataFusionError {
        spark(
            "CAST_OVERFLOW",
            format!(
                "the value {value} of the type {} cannot be cast to {}: it is out of range; \
                 try_cast gives null instead",
                ddl_name(self.from),
                ddl_name(self.to)
            ),
        )
    }
}

/// Whether Spark (ANSI) has a cast between the types at all.
pub(crate) fn can_cast(from: &DataType, to: &DataType) -> bool {
    use DataType::{
        Boolean, Date32, Decimal128, Duration, Float32, Float64, Interval, List, Map, Null, Struct,
        Timestamp,
    };
    if from == to || *from == Null {
        return true;
    }
    let numeric = |t: &DataType| t.is_integer() || matches!(t, Float32 | Float64 | Decimal128(..));
    match (from, to) {
        (List(a), List(b)) => can_cast(a.data_type(), b.data_type()),
        (Struct(a), Struct(b)) => {
            a.len() == b.len()
                && a.iter().zip(b).all(|(a, b)| can_cast(a.data_type(), b.data_type()))
        }
        (Map(a, _), Map(b, _)) => can_cast(a.data_type(), b.data_type()),
        (from, to) if is_string(to) => !is_binary(to) || is_string(from),
        (from, to) if is_binary(to) => is_string(from) || is_binary(from),
        (List(_) | Struct(_) | Map(..), _) | (_, List(_) | Struct(_) | Map(..)) => false,
        (from, Duration(_) | Interval(_)) => {
            is_string(from) || matches!(from, Duration(_) | Interval(_))
        }
        (from, _) if is_string(from) => true,
        (Boolean, to) => numeric(to) || *to == Boolean,
        (from, Boolean) => numeric(from),
        (from, to) if numeric(from) => numeric(to) || matches!(to, Timestamp(_, Some(_))),
        (Timestamp(_, zone), to) => {
            matches!(to, Timestamp(..) | Date32) || (zone.is_some() && numeric(to))
        }
        (Date32, to) => matches!(to, Timestamp(..)),
        _ => false,
    }
}

pub(crate) fn is_string(t: &DataType) -> bool {
    matches!(t, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

pub(crate) fn is_binary(t: &DataType) -> bool {
    matches!(
        t,
        DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
    )
}

/// Casts a column.
///
/// # Errors
///
/// In [`CastMode::Ansi`] for the first value that has no counterpart; a pair of types that
/// [`can_cast`] refuses.
pub(crate) fn cast_array(
    array: &ArrayRef,
    to: &DataType,
    mode: CastMode,
    zone: Zone,
) -> Result<ArrayRef> {
    let from = array.data_type();
    if from == to {
        return Ok(Arc::clone(array));
    }
    if *from == DataType::Null {
        return Ok(new_null_array(to, array.len()));
    }
    if !can_cast(from, to) {
        return Err(no_such_cast(from, to));
    }
    if is_string(to) {
        let strings = if is_string(from) || is_binary(from) {
            text::bytes_as_text(array)?
        } else {
            text::to_strings(array, zone)?
        };
        return Ok(if strings.data_type() == to { strings } else { compute::cast(&strings, to)? });
    }
    let context = CastContext { from, to, mode, zone };
    // What is stored in a form that Spark does not have is first brought into one that it has.
    let (array, from) = canonical(array)?;
    if array.data_type() == to {
        return Ok(array);
    }
    match &from {
        DataType::List(_) | DataType::Struct(_) | DataType::Map(..) => {
            nested::cast(&array, &context)
        }
        DataType::Utf8 => parse::from_strings(array.as_string::<i32>(), &context),
        DataType::Binary => Ok(compute::cast(&array, to)?),
        DataType::Int64 => numeric::from_integers(array.as_primitive::<Int64Type>(), &context),
        DataType::Float64 => numeric::from_doubles(array.as_primitive::<Float64Type>(), &context),
        DataType::Decimal128(..) => decimal::from_decimals(array.as_primitive(), &context),
        DataType::Boolean => numeric::from_booleans(array.as_boolean(), &context),
        DataType::Timestamp(..) => temporal::from_timestamps(array.as_primitive(), &context),
        DataType::Date32 => temporal::from_dates(array.as_primitive(), &context),
        _ => Ok(compute::cast(&array, to)?),
    }
}

/// Integers as 64-bit, floats as doubles (both exact), text as `Utf8`, times in microseconds.
fn canonical(array: &ArrayRef) -> Result<(ArrayRef, DataType)> {
    use DataType::{
        Binary, BinaryView, Date64, Decimal32, Decimal64, Dictionary, FixedSizeBinary,
        FixedSizeList, Float16, Float32, Float64, Int8, Int16, Int32, Int64, LargeBinary,
        LargeList, LargeUtf8, Timestamp, UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    let to = match array.data_type() {
        Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32 => Int64,
        UInt64 => DataType::Decimal128(20, 0),
        Float16 | Float32 => Float64,
        LargeUtf8 | Utf8View => Utf8,
        LargeBinary | BinaryView | FixedSizeBinary(_) => Binary,
        Date64 => DataType::Date32,
        Decimal32(p, s) | Decimal64(p, s) => DataType::Decimal128(*p, *s),
        Timestamp(unit, zone) if *unit != TimeUnit::Microsecond => {
            Timestamp(TimeUnit::Microsecond, zone.clone())
        }
        LargeList(item) | FixedSizeList(item, _) => DataType::List(Arc::clone(item)),
        Dictionary(_, value) => value.as_ref().clone(),
        other => return Ok((Arc::clone(array), other.clone())),
    };
    let array = compute::cast(array, &to)?;
    match to {
        DataType::List(_) | Float64 | Int64 | Utf8 => Ok((array, to)),
        _ => canonical(&array),
    }
}

pub(crate) fn no_such_cast(from: &DataType, to: &DataType) -> DataFusionError {
    let (condition, hint) = match (from, to) {
        (DataType::Date32, t) if t.is_numeric() => {
            ("DATATYPE_MISMATCH.CAST_WITH_FUNC_SUGGESTION", "; use unix_date")
        }
        (f, DataType::Date32) if f.is_numeric() => {
            ("DATATYPE_MISMATCH.CAST_WITH_FUNC_SUGGESTION", "; use date_from_unix_date")
        }
        (DataType::Timestamp(_, None), t) | (t, DataType::Timestamp(_, None)) if t.is_numeric() => {
            ("DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION", "")
        }
        (f, t) if f.is_nested() || t.is_nested() => {
            ("DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION", "")
        }
        _ => ("DATATYPE_MISMATCH.CAST_WITH_CONF_SUGGESTION", ""),
    };
    spark(condition, format!("cannot cast {} to {}{hint}", ddl_name(from), ddl_name(to)))
}
