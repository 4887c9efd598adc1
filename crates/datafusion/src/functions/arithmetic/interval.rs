//! Dates and timestamps plus and minus intervals, in the session's time zone: a day later is the
//! same time of day, also where the clock was changed between.

use super::Op;
use super::number::condition;
use crate::functions::calendar::{Civil, MICROS_PER_DAY, split_micros};
use crate::functions::cast::CastMode;
use crate::functions::error::{overflow, spark};
use crate::functions::zone::Zone;
use arrow::array::{Array, ArrayRef, AsArray, Datum, PrimitiveArray};
use arrow::compute::kernels::numeric;
use arrow::datatypes::{
    DataType, Date32Type, DurationMicrosecondType, Int32Type, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, TimestampMicrosecondType,
};
use datafusion::common::{DataFusionError, Result, internal_err};
use std::sync::Arc;

/// Whether the operands are of the kind that this module computes.
pub(super) fn applies(left: &DataType, right: &DataType) -> bool {
    let time = |t: &DataType| {
        matches!(
            t,
            DataType::Date32
                | DataType::Timestamp(..)
                | DataType::Interval(_)
                | DataType::Duration(_)
        )
    };
    time(left) || time(right)
}

pub(super) fn apply(
    op: Op,
    mode: CastMode,
    left: &dyn Datum,
    right: &dyn Datum,
    result: &DataType,
    zone: Zone,
) -> Result<ArrayRef> {
    use DataType::{Date32, Duration, Int32, Interval, Timestamp};
    let types = (left.get().0.data_type().clone(), right.get().0.data_type().clone());
    let sign = if op == Op::Subtract { -1 } else { 1 };
    match types {
        (Int32 | Interval(_) | Duration(_), Date32 | Timestamp(..)) => {
            apply(op, mode, right, left, result, zone)
        }
        (Date32, Int32) => pairs::<Date32Type, Int32Type, Date32Type>(
            mode,
            left,
            right,
            result,
            |days, n| days.checked_add(n.checked_mul(sign)?),
            || overflow("a date"),
        ),
        (Date32, Date32) => pairs::<Date32Type, Date32Type, DurationMicrosecondType>(
            mode,
            left,
            right,
            result,
            |a, b| (i64::from(a) - i64::from(b)).checked_mul(MICROS_PER_DAY),
            || overflow("an interval"),
        ),
        (Date32, Interval(_)) => pairs::<Date32Type, IntervalMonthDayNanoType, Date32Type>(
            mode,
            left,
            right,
            result,
            |days, by| date_plus(days, by, sign.into()),
            || {
                spark(
                    "INVALID_INTERVAL_WITH_MICROSECONDS_ADDITION",
                    "an interval with hours or less cannot be added to a date: cast the date to \
                     a timestamp",
                )
            },
        ),
        (Timestamp(_, has_zone), Interval(_)) => {
            let zone = if has_zone.is_some() { zone } else { Zone::UTC };
            pairs::<TimestampMicrosecondType, IntervalMonthDayNanoType, TimestampMicrosecondType>(
                mode,
                left,
                right,
                result,
                |at, by| {
                    let micros = by.nanoseconds / 1000;
                    let by = (by.months.into(), by.days.into(), micros);
                    plus(at, by, sign.into(), zone)
                },
                || overflow("a timestamp"),
            )
        }
        (Timestamp(_, has_zone), Duration(_)) => {
            let zone = if has_zone.is_some() { zone } else { Zone::UTC };
            pairs::<TimestampMicrosecondType, DurationMicrosecondType, TimestampMicrosecondType>(
                mode,
                left,
                right,
                result,
                |at, by| {
                    let (days, micros) = (by / MICROS_PER_DAY, by % MICROS_PER_DAY);
                    plus(at, (0, days, micros), sign.into(), zone)
                },
                || overflow("a timestamp"),
            )
        }
        (Timestamp(..), Timestamp(..)) => {
            pairs::<TimestampMicrosecondType, TimestampMicrosecondType, DurationMicrosecondType>(
                mode,
                left,
                right,
                result,
                i64::checked_sub,
                || overflow("an interval"),
            )
        }
        (Duration(_), DataType::Int64) => {
            pairs::<DurationMicrosecondType, Int64Type, DurationMicrosecondType>(
                mode,
                left,
                right,
                result,
                i64::checked_mul,
                || overflow("an interval"),
            )
        }
        (DataType::Int64, Duration(_)) => apply(op, mode, right, left, result, zone),
        _ => match op {
            Op::Add => numeric::add(left, right),
            Op::Subtract => numeric::sub(left, right),
            Op::Multiply => numeric::mul(left, right),
            _ => return internal_err!("no `{}` on intervals", op.symbol()),
        }
        .map_err(|e| condition(op, e)),
    }
}

/// A date some months and days later; `None` if the interval has a part smaller than a day.
fn date_plus(days: i32, by: IntervalMonthDayNano, sign: i64) -> Option<i32> {
    if by.nanoseconds != 0 {
        return None;
    }
    let moved = Civil::from_days(days.into()).plus_months(sign * i64::from(by.months)).days();
    i32::try_from(moved.checked_add(sign * i64::from(by.days))?).ok()
}

/// A timestamp some months, days and microseconds later, `times` times.
pub(crate) fn plus(at: i64, by: (i64, i64, i64), times: i64, zone: Zone) -> Option<i64> {
    let (months, days, micros) = by;
    let mut at = at;
    if months != 0 || days != 0 {
        let (day, of_day) = split_micros(zone.to_local(at));
        let day = Civil::from_days(day).plus_months(times.checked_mul(months)?).days();
        let day = day.checked_add(times.checked_mul(days)?)?;
        at = zone.to_utc(day.checked_mul(MICROS_PER_DAY)?.checked_add(of_day)?);
    }
    at.checked_add(times.checked_mul(micros)?)
}

fn pairs<A, B, O>(
    mode: CastMode,
    left: &dyn Datum,
    right: &dyn Datum,
    result: &DataType,
    f: impl Fn(A::Native, B::Native) -> Option<O::Native>,
    fail: impl Fn() -> DataFusionError,
) -> Result<ArrayRef>
where
    A: arrow::array::ArrowPrimitiveType,
    B: arrow::array::ArrowPrimitiveType,
    O: arrow::array::ArrowPrimitiveType,
{
    let ((l, l_one), (r, r_one)) = (left.get(), right.get());
    let (l, r) = (l.as_primitive::<A>(), r.as_primitive::<B>());
    let rows = if l_one && !r_one { r.len() } else { l.len() };
    let mut builder = PrimitiveArray::<O>::builder(rows);
    for row in 0..rows {
        let (a, b) = (if l_one { 0 } else { row }, if r_one { 0 } else { row });
        if l.is_null(a) || r.is_null(b) {
            builder.append_null();
            continue;
        }
        match f(l.value(a), r.value(b)) {
            Some(value) => builder.append_value(value),
            None if mode == CastMode::Try => builder.append_null(),
            None => return Err(fail()),
        }
    }
    Ok(Arc::new(builder.finish().with_data_type(result.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_later_is_the_same_time_of_day() {
        let zone = Zone::parse("America/New_York").unwrap();
        // 2026-03-07 12:00 EST and 2026-03-08 12:00 EDT are 23 hours apart.
        let noon = 1_772_902_800_000_000;
        assert_eq!(plus(noon, (0, 1, 0), 1, zone), Some(noon + 23 * 3_600_000_000));
        assert_eq!(plus(noon, (0, 1, 0), 1, Zone::UTC), Some(noon + MICROS_PER_DAY));
        assert_eq!(plus(i64::MAX, (0, 0, 1), 1, zone), None);
    }
}
