//! Which types an operator brings its operands to, and the type of its result.

use super::Op;
use crate::functions::cast::is_string;
use crate::functions::error::{mismatch, spark};
use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use datafusion::common::Result;
use fluvial_core::ddl::{ddl_name, timestamp};
use std::sync::Arc;

/// The operands' types after coercion and the result's type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resolved {
    pub(crate) left: DataType,
    pub(crate) right: DataType,
    pub(crate) result: DataType,
}

const MAX_PRECISION: i32 = 38;
const MIN_KEPT_SCALE: i32 = 6;

/// The decimal type of an exact result, cut to 38 digits: of the fraction at most six digits are
/// kept for sure, the whole part is kept as far as possible.
pub(crate) fn decimal_type(precision: i32, scale: i32) -> DataType {
    if precision <= MAX_PRECISION {
        return DataType::Decimal128(precision as u8, scale as i8);
    }
    let whole = precision - scale;
    let kept = (MAX_PRECISION - whole).max(scale.min(MIN_KEPT_SCALE));
    DataType::Decimal128(MAX_PRECISION as u8, kept as i8)
}

/// The decimal that holds every value of an integer type.
pub(crate) fn decimal_of_integer(t: &DataType) -> Option<DataType> {
    Some(match t {
        DataType::Int8 => DataType::Decimal128(3, 0),
        DataType::Int16 | DataType::UInt8 => DataType::Decimal128(5, 0),
        DataType::Int32 | DataType::UInt16 => DataType::Decimal128(10, 0),
        DataType::Int64 | DataType::UInt32 | DataType::UInt64 => DataType::Decimal128(20, 0),
        _ => return None,
    })
}

fn is_numeric(t: &DataType) -> bool {
    t.is_integer() || is_fraction(t)
}

fn is_fraction(t: &DataType) -> bool {
    matches!(t, DataType::Float32 | DataType::Float64 | DataType::Decimal128(..))
}

fn is_interval(t: &DataType) -> bool {
    matches!(t, DataType::Interval(IntervalUnit::MonthDayNano) | DataType::Duration(_))
}

/// The types both operands of numbers are brought to; decimals keep their own.
fn numeric_operands(l: &DataType, r: &DataType) -> Option<(DataType, DataType)> {
    use DataType::{Decimal128, Float32, Float64, Int64, Null};
    let both = |t: DataType| Some((t.clone(), t));
    match (l, r) {
        (Null, Null) => both(Float64),
        (Null, t) | (t, Null) if is_numeric(t) => both(t.clone()),
        (Null, t) | (t, Null) if is_string(t) => both(Float64),
        (s, t) | (t, s) if is_string(s) && is_numeric(t) => {
            both(if is_fraction(t) { Float64 } else { Int64 })
        }
        (Float32, Float32) => both(Float32),
        (Float32 | Float64, t) | (t, Float32 | Float64) if is_numeric(t) => both(Float64),
        (Decimal128(..), Decimal128(..)) => Some((l.clone(), r.clone())),
        (Decimal128(..), t) => Some((l.clone(), decimal_of_integer(t)?)),
        (t, Decimal128(..)) => Some((decimal_of_integer(t)?, r.clone())),
        (l, r) if l.is_integer() && r.is_integer() => both(widest_integer(l, r)),
        _ => None,
    }
}

fn widest_integer(l: &DataType, r: &DataType) -> DataType {
    let rank = |t: &DataType| match t {
        DataType::Int8 => 0,
        DataType::Int16 | DataType::UInt8 => 1,
        DataType::Int32 | DataType::UInt16 => 2,
        _ => 3,
    };
    match rank(l).max(rank(r)) {
        0 => DataType::Int8,
        1 => DataType::Int16,
        2 => DataType::Int32,
        _ => DataType::Int64,
    }
}

fn duration() -> DataType {
    DataType::Duration(TimeUnit::Microsecond)
}

/// What `left op right` means.
///
/// # Errors
///
/// `DATATYPE_MISMATCH...` if Spark has no such operation.
pub(crate) fn resolve(op: Op, l: &DataType, r: &DataType) -> Result<Resolved> {
    if let Some(resolved) = resolve_time(op, l, r) {
        return Ok(resolved);
    }
    let Some((left, right)) = numeric_operands(l, r) else {
        return Err(refuse(op, l, r));
    };
    let (left, right, result) = match (op, &left, &right) {
        (_, DataType::Decimal128(p1, s1), DataType::Decimal128(p2, s2)) => {
            let result = decimal_result(op, [*p1, *p2], [*s1, *s2]);
            (left, right, result)
        }
        (Op::Divide, ..) => (DataType::Float64, DataType::Float64, DataType::Float64),
        (Op::IntegralDivide, l, _) if is_fraction(l) => return Err(refuse(op, l, r)),
        (Op::IntegralDivide, ..) => (DataType::Int64, DataType::Int64, DataType::Int64),
        _ => (left.clone(), right, left),
    };
    Ok(Resolved { left, right, result })
}

fn decimal_result(op: Op, precision: [u8; 2], scale: [i8; 2]) -> DataType {
    let [p1, p2] = precision.map(i32::from);
    let [s1, s2] = scale.map(i32::from);
    match op {
        Op::Add | Op::Subtract => {
            let scale = s1.max(s2);
            decimal_type((p1 - s1).max(p2 - s2) + scale + 1, scale)
        }
        Op::Multiply => decimal_type(p1 + p2 + 1, s1 + s2),
        Op::Divide => {
            let scale = MIN_KEPT_SCALE.max(s1 + p2 + 1);
            decimal_type(p1 - s1 + s2 + scale, scale)
        }
        Op::Remainder | Op::PositiveRemainder => {
            let scale = s1.max(s2);
            decimal_type((p1 - s1).min(p2 - s2) + scale, scale)
        }
        Op::IntegralDivide => DataType::Int64,
    }
}

/// Operations on dates, timestamps and intervals.
fn resolve_time(op: Op, l: &DataType, r: &DataType) -> Option<Resolved> {
    use DataType::{Date32, Int8, Int16, Int32, Int64, Null, Timestamp};
    let of = |left: &DataType, right: &DataType, result: &DataType| {
        Some(Resolved { left: left.clone(), right: right.clone(), result: result.clone() })
    };
    match (op, l, r) {
        (Op::Add, Date32, Int8 | Int16 | Int32) => of(l, &Int32, &Date32),
        (Op::Add, Int8 | Int16 | Int32, Date32) => of(&Int32, r, &Date32),
        (Op::Subtract, Date32, Int8 | Int16 | Int32) => of(l, &Int32, &Date32),
        (Op::Subtract, Date32, Date32) => of(l, r, &duration()),
        (Op::Subtract, Date32, s) if is_string(s) => of(l, &Date32, &duration()),
        (Op::Subtract, s, Date32) if is_string(s) => of(&Date32, r, &duration()),
        (Op::Subtract, Timestamp(..), Timestamp(..) | Date32 | Null) => of(l, l, &duration()),
        (Op::Subtract, Date32 | Null, Timestamp(..)) => of(r, r, &duration()),
        (Op::Subtract, Timestamp(..), s) if is_string(s) => of(l, l, &duration()),
        (Op::Subtract, s, Timestamp(..)) if is_string(s) => of(r, r, &duration()),
        (Op::Add | Op::Subtract, Timestamp(..), i) if is_interval(i) => of(l, i, l),
        (Op::Add, i, Timestamp(..)) if is_interval(i) => of(i, r, r),
        (Op::Add | Op::Subtract, Date32, i @ DataType::Interval(_)) => of(l, i, &Date32),
        (Op::Add, i @ DataType::Interval(_), Date32) => of(i, r, &Date32),
        (Op::Add | Op::Subtract, Date32, i @ DataType::Duration(_)) => {
            of(&timestamp(), i, &timestamp())
        }
        (Op::Add, i @ DataType::Duration(_), Date32) => of(i, &timestamp(), &timestamp()),
        (Op::Add | Op::Subtract, s, i) if is_string(s) && is_interval(i) => {
            of(&timestamp(), i, &timestamp())
        }
        (Op::Add | Op::Subtract, a, b) if is_interval(a) && a == b => of(a, a, a),
        (Op::Multiply, i, Int8 | Int16 | Int32 | Int64) if is_interval(i) => of(i, &Int64, i),
        (Op::Multiply, Int8 | Int16 | Int32 | Int64, i) if is_interval(i) => of(&Int64, i, i),
        _ => None,
    }
}

fn refuse(op: Op, l: &DataType, r: &DataType) -> datafusion::common::DataFusionError {
    if l == r || (is_numeric(l) == is_numeric(r)) {
        return spark(
            "DATATYPE_MISMATCH.BINARY_OP_WRONG_TYPE",
            format!(
                "`{}` takes numbers, intervals, dates or timestamps, not {} and {}",
                op.symbol(),
                ddl_name(l),
                ddl_name(r)
            ),
        );
    }
    mismatch(op.symbol(), &[l, r])
}

/// The type that two values are brought to where they stand for one: in a comparison, `coalesce`,
/// the branches of `case`, an `in` list.
pub(crate) fn common_type(l: &DataType, r: &DataType) -> Option<DataType> {
    use DataType::{Date32, Decimal128, List, Map, Null, Struct, Timestamp};
    match (l, r) {
        (l, r) if l == r => Some(l.clone()),
        (Null, t) | (t, Null) => Some(t.clone()),
        (Decimal128(p1, s1), Decimal128(p2, s2)) => Some(widest_decimal([*p1, *p2], [*s1, *s2])),
        (d @ Decimal128(..), t) | (t, d @ Decimal128(..)) if t.is_integer() => {
            common_type(d, &decimal_of_integer(t)?)
        }
        (l, r) if is_string(l) && is_string(r) => Some(DataType::Utf8),
        (s, t) | (t, s) if is_string(s) => match t {
            t if t.is_integer() => Some(DataType::Int64),
            t if is_fraction(t) => Some(DataType::Float64),
            List(_) | Struct(_) | Map(..) => None,
            t => Some(t.clone()),
        },
        (l, r) if is_numeric(l) && is_numeric(r) => numeric_operands(l, r).map(|(l, _)| l),
        (t @ Timestamp(_, Some(_)), Timestamp(..) | Date32)
        | (Timestamp(..) | Date32, t @ Timestamp(_, Some(_))) => Some(t.clone()),
        (t @ Timestamp(_, None), Date32) | (Date32, t @ Timestamp(_, None)) => Some(t.clone()),
        (List(a), List(b)) => {
            let item = common_type(a.data_type(), b.data_type())?;
            Some(List(Arc::new(Field::new("item", item, a.is_nullable() || b.is_nullable()))))
        }
        (Struct(a), Struct(b)) if a.len() == b.len() => {
            let fields = a.iter().zip(b).map(|(a, b)| {
                let t = common_type(a.data_type(), b.data_type())?;
                Some(Field::new(a.name(), t, a.is_nullable() || b.is_nullable()))
            });
            Some(Struct(fields.collect::<Option<Vec<_>>>()?.into()))
        }
        (Map(a, ordered), Map(b, _)) => {
            let entries = common_type(a.data_type(), b.data_type())?;
            Some(Map(Arc::new(Field::new(a.name(), entries, false)), *ordered))
        }
        _ => None,
    }
}

fn widest_decimal(precision: [u8; 2], scale: [i8; 2]) -> DataType {
    let [p1, p2] = precision.map(i32::from);
    let [s1, s2] = scale.map(i32::from);
    let (scale, whole) = (s1.max(s2), (p1 - s1).max(p2 - s2));
    if whole + scale <= MAX_PRECISION {
        return DataType::Decimal128((whole + scale) as u8, scale as i8);
    }
    DataType::Decimal128(MAX_PRECISION as u8, (MAX_PRECISION - whole).max(0) as i8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_core::ddl::parse_type;

    #[test]
    fn results_have_the_types_of_spark() {
        for (l, op, r, result) in [
            ("tinyint", Op::Add, "int", "INT"),
            ("int", Op::Add, "float", "DOUBLE"),
            ("float", Op::Add, "float", "FLOAT"),
            ("int", Op::Divide, "int", "DOUBLE"),
            ("float", Op::Divide, "float", "DOUBLE"),
            ("int", Op::IntegralDivide, "tinyint", "BIGINT"),
            ("decimal(10,2)", Op::Add, "int", "DECIMAL(13,2)"),
            ("decimal(10,2)", Op::Multiply, "bigint", "DECIMAL(31,2)"),
            ("decimal(10,2)", Op::Divide, "tinyint", "DECIMAL(14,6)"),
            ("tinyint", Op::Divide, "decimal(10,2)", "DECIMAL(16,11)"),
            ("decimal(10,2)", Op::Divide, "decimal(10,2)", "DECIMAL(23,13)"),
            ("decimal(38,18)", Op::Multiply, "decimal(38,18)", "DECIMAL(38,6)"),
            ("bigint", Op::Remainder, "decimal(10,2)", "DECIMAL(10,2)"),
            ("string", Op::Add, "int", "BIGINT"),
            ("string", Op::Add, "decimal(10,2)", "DOUBLE"),
            ("date", Op::Subtract, "timestamp", "INTERVAL DAY TO SECOND"),
            ("smallint", Op::Add, "date", "DATE"),
        ] {
            let (l, r) = (parse_type(l).unwrap(), parse_type(r).unwrap());
            assert_eq!(ddl_name(&resolve(op, &l, &r).unwrap().result), result, "{l} {op:?} {r}");
        }
        for (l, r) in [("string", "string"), ("boolean", "int"), ("date", "bigint")] {
            let (l, r) = (parse_type(l).unwrap(), parse_type(r).unwrap());
            assert!(resolve(Op::Add, &l, &r).is_err(), "{l} {r}");
        }
    }

    #[test]
    fn values_meet_in_the_types_of_spark() {
        for (l, r, common) in [
            ("tinyint", "bigint", Some("BIGINT")),
            ("int", "float", Some("DOUBLE")),
            ("decimal(10,2)", "int", Some("DECIMAL(12,2)")),
            ("string", "int", Some("BIGINT")),
            ("string", "boolean", Some("BOOLEAN")),
            ("date", "timestamp", Some("TIMESTAMP")),
            ("string", "date", Some("DATE")),
            ("boolean", "int", None),
            ("date", "int", None),
            ("array<int>", "array<bigint>", Some("ARRAY<BIGINT>")),
        ] {
            let (l, r) = (parse_type(l).unwrap(), parse_type(r).unwrap());
            for (l, r) in [(&l, &r), (&r, &l)] {
                let found = common_type(l, r).map(|t| ddl_name(&t));
                assert_eq!(found.as_deref(), common, "{l} {r}");
            }
        }
    }
}
