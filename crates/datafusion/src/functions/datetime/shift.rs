//! Dates and times moved by whole units, and counted in them.

use super::pattern::DAYS;
use crate::functions::calendar::{
    Civil, MICROS_PER_DAY, MICROS_PER_SECOND, iso_weekday, split_micros,
};
use crate::functions::error::{overflow, spark};
use crate::functions::function::{Call, Gives, Kind, Spec};
use crate::functions::zone::Zone;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, PrimitiveArray};
use arrow::datatypes::{Date32Type, Int32Type, Int64Type, TimestampMicrosecondType};
use datafusion::common::Result;
use fluvial_core::ddl::timestamp;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Spec> {
    use Kind::{Date, Int, Long, Text, Timestamp};
    vec![
        Spec::new(&["date_add"], &[Date, Int], Gives::Date, |c| days(c, 1)),
        Spec::new(&["date_sub"], &[Date, Int], Gives::Date, |c| days(c, -1)),
        Spec::new(&["datediff", "date_diff"], &[Date, Date], Gives::Int, |c| {
            let (a, b) =
                (c.args[0].as_primitive::<Date32Type>(), c.args[1].as_primitive::<Date32Type>());
            let difference = arrow::compute::binary(a, b, |a, b| a.wrapping_sub(b))?;
            let difference: PrimitiveArray<Int32Type> = difference;
            Ok(Arc::new(difference))
        }),
        Spec::new(&["add_months"], &[Date, Int], Gives::Date, |c| {
            pairs(c, |day, months| Civil::from_days(day).plus_months(months).days())
        }),
        Spec::new(&["next_day"], &[Date, Text], Gives::Date, next_day),
        Spec::new(&["timestampadd"], &[Text, Long, Timestamp], Gives::Timestamp, timestamp_add),
        Spec::new(&["timestampdiff"], &[Text, Timestamp, Timestamp], Gives::Long, timestamp_diff),
        Spec::new(&["from_utc_timestamp"], &[Timestamp, Text], Gives::Timestamp, |c| {
            zoned(c, |zone, t| zone.to_local(t))
        }),
        Spec::new(&["to_utc_timestamp"], &[Timestamp, Text], Gives::Timestamp, |c| {
            zoned(c, |zone, t| zone.to_utc(t))
        }),
    ]
}

fn pairs(call: &Call<'_>, f: impl Fn(i64, i64) -> i64) -> Result<ArrayRef> {
    let dates = call.args[0].as_primitive::<Date32Type>();
    let counts = call.args[1].as_primitive::<Int32Type>();
    let one = |day: i32, count: i32| {
        i32::try_from(f(day.into(), count.into())).map_err(|_| {
            arrow::error::ArrowError::from_external_error(Box::new(overflow("a date")))
        })
    };
    let moved: PrimitiveArray<Date32Type> = arrow::compute::try_binary(dates, counts, one)?;
    Ok(Arc::new(moved))
}

fn days(call: &Call<'_>, sign: i64) -> Result<ArrayRef> {
    pairs(call, |day, count| day + sign * count)
}

/// The first date behind one that is a day of the week.
fn next_day(call: &Call<'_>) -> Result<ArrayRef> {
    let dates = call.args[0].as_primitive::<Date32Type>();
    let one = |(date, name): (Option<i32>, Option<&str>)| -> Result<Option<i32>> {
        let Some((date, name)) = date.zip(name) else { return Ok(None) };
        let wanted = weekday(name)?;
        let ahead = (wanted - iso_weekday(date.into()) - 1).rem_euclid(7) + 1;
        date.checked_add(ahead as i32).map(Some).ok_or_else(|| overflow("a date"))
    };
    let moved = dates.iter().zip(call.text(1)).map(one);
    Ok(Arc::new(moved.collect::<Result<PrimitiveArray<Date32Type>>>()?))
}

/// 1 is Monday; `MO`, `MON` and `MONDAY` are names of it.
fn weekday(name: &str) -> Result<i64> {
    let upper = name.to_ascii_uppercase();
    let named = |day: &&str| {
        let day = day.to_ascii_uppercase();
        upper == day || upper == day[..2] || upper == day[..3]
    };
    match (1..).zip(DAYS).find(|(_, day)| named(day)) {
        Some((day, _)) => Ok(day),
        None => Err(spark(
            "ILLEGAL_DAY_OF_WEEK",
            format!("`{name}` is no day of the week: there are MO, MON, MONDAY and so on"),
        )),
    }
}

fn zoned(call: &Call<'_>, f: impl Fn(Zone, i64) -> i64) -> Result<ArrayRef> {
    let times = call.args[0].as_primitive::<TimestampMicrosecondType>();
    let moved: PrimitiveArray<TimestampMicrosecondType> = match call.constant_text(1) {
        Some(name) => {
            let zone = Zone::resolve(name)?;
            times.unary(|t| f(zone, t))
        }
        None => {
            let names = call.text(1);
            let one = |row: usize| -> Result<Option<i64>> {
                if times.is_null(row) || names.is_null(row) {
                    return Ok(None);
                }
                Ok(Some(f(Zone::resolve(names.value(row))?, times.value(row))))
            };
            (0..call.rows).map(one).collect::<Result<_>>()?
        }
    };
    Ok(Arc::new(moved.with_data_type(timestamp())))
}

/// A unit as months, days or microseconds.
#[derive(Debug, Clone, Copy)]
enum Unit {
    Months(i64),
    Days(i64),
    Micros(i64),
}

fn unit(function: &str, name: &str) -> Result<Unit> {
    Ok(match name.to_ascii_uppercase().as_str() {
        "YEAR" => Unit::Months(12),
        "QUARTER" => Unit::Months(3),
        "MONTH" => Unit::Months(1),
        "WEEK" => Unit::Days(7),
        "DAY" | "DAYOFYEAR" => Unit::Days(1),
        "HOUR" => Unit::Micros(3_600 * MICROS_PER_SECOND),
        "MINUTE" => Unit::Micros(60 * MICROS_PER_SECOND),
        "SECOND" => Unit::Micros(MICROS_PER_SECOND),
        "MILLISECOND" => Unit::Micros(1_000),
        "MICROSECOND" => Unit::Micros(1),
        _ => {
            return Err(spark(
                "INVALID_PARAMETER_VALUE.DATETIME_UNIT",
                format!("`{function}` has no unit `{name}`; there are YEAR to MICROSECOND"),
            ));
        }
    })
}

fn timestamp_add(call: &Call<'_>) -> Result<ArrayRef> {
    let counts = call.args[1].as_primitive::<Int64Type>();
    let times = call.args[2].as_primitive::<TimestampMicrosecondType>();
    let mut moved = PrimitiveArray::<TimestampMicrosecondType>::builder(call.rows);
    for row in 0..call.rows {
        if counts.is_null(row) || times.is_null(row) || call.text(0).is_null(row) {
            moved.append_null();
            continue;
        }
        let unit = unit("timestampadd", call.text(0).value(row))?;
        let value = add(times.value(row), counts.value(row), unit, call.zone);
        moved.append_value(value.ok_or_else(|| overflow("a timestamp"))?);
    }
    Ok(Arc::new(moved.finish().with_data_type(timestamp())))
}

fn add(time: i64, count: i64, unit: Unit, zone: Zone) -> Option<i64> {
    if let Unit::Micros(micros) = unit {
        return time.checked_add(count.checked_mul(micros)?);
    }
    let (day, of_day) = split_micros(zone.to_local(time));
    let day = match unit {
        Unit::Months(months) => {
            Civil::from_days(day).plus_months(count.checked_mul(months)?).days()
        }
        Unit::Days(days) => day.checked_add(count.checked_mul(days)?)?,
        Unit::Micros(_) => day,
    };
    Some(zone.to_utc(day.checked_mul(MICROS_PER_DAY)?.checked_add(of_day)?))
}

fn timestamp_diff(call: &Call<'_>) -> Result<ArrayRef> {
    let starts = call.args[1].as_primitive::<TimestampMicrosecondType>();
    let ends = call.args[2].as_primitive::<TimestampMicrosecondType>();
    let one = |row: usize| -> Result<Option<i64>> {
        if starts.is_null(row) || ends.is_null(row) || call.text(0).is_null(row) {
            return Ok(None);
        }
        let unit = unit("timestampdiff", call.text(0).value(row))?;
        let local = |t: i64| call.zone.to_local(t);
        let (start, end) = (local(starts.value(row)), local(ends.value(row)));
        Ok(Some(difference(start, end, unit)))
    };
    Ok(Arc::new((0..call.rows).map(one).collect::<Result<Int64Array>>()?))
}

/// Whole units from `start` to `end`.
fn difference(start: i64, end: i64, unit: Unit) -> i64 {
    match unit {
        Unit::Micros(micros) => end.saturating_sub(start) / micros,
        Unit::Days(days) => end.saturating_sub(start) / (days * MICROS_PER_DAY),
        Unit::Months(months) => {
            let ((d1, s1), (d2, s2)) = (split_micros(start), split_micros(end));
            let (a, b) = (Civil::from_days(d1), Civil::from_days(d2));
            let mut between = (b.year - a.year) * 12 + b.month - a.month;
            // The last month counts when it is over.
            if between > 0 && (b.day, s2) < (a.day, s1) {
                between -= 1;
            } else if between < 0 && (b.day, s2) > (a.day, s1) {
                between += 1;
            }
            between / months
        }
    }
}
