//! Dates and times out of their parts.

use crate::functions::calendar::{Civil, MICROS_PER_DAY, MICROS_PER_SECOND};
use crate::functions::cast::rescale;
use crate::functions::error::{overflow, spark};
use crate::functions::function::{Call, Gives, Kind, Spec};
use crate::functions::zone::Zone;
use arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, Float64Array, IntervalMonthDayNanoArray, PrimitiveArray,
    TimestampMicrosecondArray,
};
use arrow::compute;
use arrow::datatypes::{
    DataType, Decimal128Type, DurationMicrosecondType, Int32Type, IntervalMonthDayNano,
    IntervalUnit, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::{DataFusionError, Result};
use fluvial_core::ddl::timestamp;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Spec> {
    use Kind::{Date, Int, Number, Text, Timestamp};
    vec![
        Spec::new(&["make_date"], &[Int, Int, Int], Gives::Date, make_date),
        Spec::new(
            &["make_timestamp", "make_timestamp_ltz"],
            &[Int, Int, Int, Int, Int, Number, Text],
            Gives::Timestamp,
            make_timestamp,
        )
        .optional_from(6),
        Spec::new(
            &["make_interval"],
            &[Int, Int, Int, Int, Int, Int, Number],
            Gives::Of(|_| Ok(DataType::Interval(IntervalUnit::MonthDayNano))),
            make_interval,
        )
        .optional_from(0),
        Spec::new(
            &["make_dt_interval"],
            &[Int, Int, Int, Number],
            Gives::Of(|_| Ok(DataType::Duration(TimeUnit::Microsecond))),
            make_dt_interval,
        )
        .optional_from(0),
        Spec::new(
            &["months_between"],
            &[Timestamp, Timestamp, Kind::Boolean],
            Gives::Double,
            months_between,
        )
        .optional_from(2),
        Spec::new(&["last_day"], &[Date], Gives::Date, |call| {
            dates(call, |date| Civil {
                day: crate::functions::calendar::days_in_month(date.year, date.month),
                ..date
            })
        }),
    ]
}

fn dates(call: &Call<'_>, f: impl Fn(Civil) -> Civil) -> Result<ArrayRef> {
    let days = call.args[0].as_primitive::<arrow::datatypes::Date32Type>();
    let moved = |d: i32| f(Civil::from_days(d.into())).days() as i32;
    Ok(Arc::new(days.unary::<_, arrow::datatypes::Date32Type>(moved)))
}

fn out_of_bounds(what: &str, value: &str) -> DataFusionError {
    spark(
        "DATETIME_FIELD_OUT_OF_BOUNDS.WITH_SUGGESTION",
        format!("there is no {what} {value}; the try_ function gives null instead"),
    )
}

fn ints(call: &Call<'_>, i: usize, row: usize) -> Option<i64> {
    let column = call.args[i].as_primitive::<Int32Type>();
    column.is_valid(row).then(|| column.value(row).into())
}

/// A column of numbers as microseconds.
fn micros(column: &ArrayRef) -> Result<Vec<Option<i64>>> {
    Ok(match column.data_type() {
        DataType::Decimal128(_, scale) => {
            let scale = *scale;
            let decimals = column.as_primitive::<Decimal128Type>().iter();
            let micros = |v: i128| {
                let micros = rescale(v, scale, 6, 38).and_then(|v| i64::try_from(v).ok());
                micros.ok_or_else(|| overflow("a time"))
            };
            decimals.map(|v| v.map(micros).transpose()).collect::<Result<_>>()?
        }
        _ => {
            let doubles = compute::cast(column, &DataType::Float64)?;
            let doubles: &Float64Array = doubles.as_primitive();
            let micros = |v: f64| (v * MICROS_PER_SECOND as f64).round() as i64;
            doubles.iter().map(|v| v.map(micros)).collect()
        }
    })
}

fn make_date(call: &Call<'_>) -> Result<ArrayRef> {
    let one = |row: usize| -> Result<Option<i32>> {
        let (Some(y), Some(m), Some(d)) =
            (ints(call, 0, row), ints(call, 1, row), ints(call, 2, row))
        else {
            return Ok(None);
        };
        let date = Civil::new(y, m, d).and_then(|date| i32::try_from(date.days()).ok());
        date.map(Some).ok_or_else(|| out_of_bounds("date", &format!("{y}-{m}-{d}")))
    };
    Ok(Arc::new((0..call.rows).map(one).collect::<Result<Date32Array>>()?))
}

fn make_timestamp(call: &Call<'_>) -> Result<ArrayRef> {
    let seconds = micros(&call.args[5])?;
    let mut times = TimestampMicrosecondArray::builder(call.rows);
    for (row, second) in seconds.into_iter().enumerate() {
        let parts: Option<Vec<i64>> = (0..5).map(|i| ints(call, i, row)).collect();
        let zone = match call.count() {
            7 if call.text(6).is_null(row) => None,
            7 => Some(Zone::resolve(call.text(6).value(row))?),
            _ => Some(call.zone),
        };
        let (Some(parts), Some(second), Some(zone)) = (parts, second, zone) else {
            times.append_null();
            continue;
        };
        let [year, month, day, hour, minute] = parts.as_slice() else {
            times.append_null();
            continue;
        };
        let wrong = || {
            out_of_bounds("time", &format!("{year}-{month}-{day} {hour}:{minute} and {second} µs"))
        };
        let date = Civil::new(*year, *month, *day).ok_or_else(wrong)?;
        // The 60th second is the first of the next minute.
        let fits = (0..24).contains(hour)
            && (0..60).contains(minute)
            && (0..=60 * MICROS_PER_SECOND).contains(&second);
        if !fits {
            return Err(wrong());
        }
        let of_day = (hour * 3600 + minute * 60) * MICROS_PER_SECOND + second;
        let midnight = date.days().checked_mul(MICROS_PER_DAY).ok_or_else(wrong)?;
        times.append_value(zone.to_utc(midnight.checked_add(of_day).ok_or_else(wrong)?));
    }
    Ok(Arc::new(times.finish().with_data_type(timestamp())))
}

/// Years, months, weeks, days, hours, minutes, seconds.
fn make_interval(call: &Call<'_>) -> Result<ArrayRef> {
    let seconds = match call.args.get(6) {
        Some(column) => micros(column)?,
        None => vec![Some(0); call.rows],
    };
    let one = |(row, second): (usize, Option<i64>)| -> Result<Option<IntervalMonthDayNano>> {
        let given = call.count().min(6);
        let parts: Option<Vec<i64>> = (0..given).map(|i| ints(call, i, row)).collect();
        let (Some(mut parts), Some(second)) = (parts, second) else { return Ok(None) };
        parts.resize(6, 0);
        let [years, months, weeks, days, hours, minutes] = parts.as_slice() else {
            return Ok(None);
        };
        let too_long = || overflow("the interval");
        let months = i32::try_from(years * 12 + months).map_err(|_| too_long())?;
        let days = i32::try_from(weeks * 7 + days).map_err(|_| too_long())?;
        let micros = (hours * 3600 + minutes * 60)
            .checked_mul(MICROS_PER_SECOND)
            .and_then(|m| m.checked_add(second))
            .ok_or_else(too_long)?;
        let nanos = micros.checked_mul(1000).ok_or_else(too_long)?;
        Ok(Some(IntervalMonthDayNano::new(months, days, nanos)))
    };
    let intervals = seconds.into_iter().enumerate().map(one);
    Ok(Arc::new(intervals.collect::<Result<IntervalMonthDayNanoArray>>()?))
}

/// Days, hours, minutes, seconds.
fn make_dt_interval(call: &Call<'_>) -> Result<ArrayRef> {
    let seconds = match call.args.get(3) {
        Some(column) => micros(column)?,
        None => vec![Some(0); call.rows],
    };
    let one = |(row, second): (usize, Option<i64>)| -> Result<Option<i64>> {
        let given = call.count().min(3);
        let parts: Option<Vec<i64>> = (0..given).map(|i| ints(call, i, row)).collect();
        let (Some(mut parts), Some(second)) = (parts, second) else { return Ok(None) };
        parts.resize(3, 0);
        let [days, hours, minutes] = parts.as_slice() else { return Ok(None) };
        let micros = days
            .checked_mul(MICROS_PER_DAY)
            .and_then(|d| d.checked_add((hours * 3600 + minutes * 60) * MICROS_PER_SECOND))
            .and_then(|m| m.checked_add(second));
        micros.map(Some).ok_or_else(|| overflow("the interval"))
    };
    let intervals = seconds.into_iter().enumerate().map(one);
    Ok(Arc::new(intervals.collect::<Result<PrimitiveArray<DurationMicrosecondType>>>()?))
}

/// Months between two times: whole if both are on the same day of the month or on last days,
/// else with a month of 31 days.
fn months_between(call: &Call<'_>) -> Result<ArrayRef> {
    let (a, b) = (
        call.args[0].as_primitive::<TimestampMicrosecondType>(),
        call.args[1].as_primitive::<TimestampMicrosecondType>(),
    );
    let rounds = call.args.get(2).map(|column| column.as_boolean());
    let one = |row: usize| -> Option<f64> {
        if a.is_null(row) || b.is_null(row) || rounds.is_some_and(|r| r.is_null(row)) {
            return None;
        }
        let split = |t: i64| {
            let (days, of_day) = crate::functions::calendar::split_micros(call.zone.to_local(t));
            (Civil::from_days(days), of_day / MICROS_PER_SECOND)
        };
        let ((d1, s1), (d2, s2)) = (split(a.value(row)), split(b.value(row)));
        let months = ((d1.year - d2.year) * 12 + d1.month - d2.month) as f64;
        let is_last =
            |d: Civil| d.day == crate::functions::calendar::days_in_month(d.year, d.month);
        if d1.day == d2.day || (is_last(d1) && is_last(d2)) {
            return Some(months);
        }
        let seconds = (d1.day - d2.day) * 86_400 + s1 - s2;
        let value = months + seconds as f64 / (31.0 * 86_400.0);
        let round = rounds.is_none_or(|r| r.value(row));
        Some(if round { (value * 1e8).round() / 1e8 } else { value })
    };
    Ok(Arc::new((0..call.rows).map(one).collect::<Float64Array>()))
}
