//! `sequence`: arrays of equal steps. Days and months are those of the calendar, in the session's
//! time zone: a step of a day keeps the time of day where the clock is changed.

use crate::functions::arithmetic::{common_type, plus};
use crate::functions::calendar::MICROS_PER_DAY;
use crate::functions::cast::{CastMode, cast_array, local_day};
use crate::functions::error::{mismatch, overflow, spark, unexpected_type};
use crate::functions::function::{Call, Gives, Kind, Spec};
use crate::functions::zone::Zone;
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute;
use arrow::datatypes::{
    DataType, DurationMicrosecondType, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
};
use datafusion::common::{DataFusionError, Result, internal_err};
use fluvial_core::ddl::{array_of, ddl_name};
use std::sync::Arc;

const MAX_LENGTH: usize = 1 << 24;
/// What a month counts for where only the direction of a step matters.
const DAYS_OF_MONTH: i64 = 28;

pub(super) fn functions() -> Vec<Spec> {
    const THREE: &[Kind] = &[Kind::Any, Kind::Any, Kind::Any];
    vec![Spec::new(&["sequence"], THREE, Gives::Of(result_type), sequence).optional_from(2)]
}

fn is_interval(of: &DataType) -> bool {
    matches!(
        of,
        DataType::Interval(IntervalUnit::MonthDayNano) | DataType::Duration(TimeUnit::Microsecond)
    )
}

fn result_type(types: &[DataType]) -> Result<DataType> {
    let Some(common) = common_type(&types[0], &types[1]) else {
        return Err(mismatch("sequence", &[&types[0], &types[1]]));
    };
    let is_time =
        matches!(common, DataType::Date32 | DataType::Timestamp(TimeUnit::Microsecond, _));
    if !common.is_integer() && !is_time {
        return Err(unexpected_type("sequence", "whole numbers, dates or timestamps", &common));
    }
    match types.get(2) {
        Some(step) if is_interval(step) != is_time || (is_time && step.is_null()) => Err(spark(
            "DATATYPE_MISMATCH.SEQUENCE_WRONG_INPUT_TYPES",
            format!(
                "the step of a `sequence` of {} is {}, not {}",
                ddl_name(&common),
                if is_time { "an interval" } else { "a whole number" },
                ddl_name(step)
            ),
        )),
        _ => Ok(array_of(common)),
    }
}

/// From one element to the next.
#[derive(Debug, Clone, Copy)]
enum Step {
    Number(i64),
    /// Months, days and microseconds.
    Time(i64, i64, i64),
}

impl Step {
    /// A day has 24 hours here: hours that fill days are days.
    fn time(months: i64, days: i64, micros: i64) -> Result<Self> {
        if months != 0 {
            return Ok(Self::Time(months, days, micros));
        }
        let whole = days.checked_mul(MICROS_PER_DAY).and_then(|days| days.checked_add(micros));
        let whole = whole.ok_or_else(|| overflow("an interval"))?;
        Ok(Self::Time(0, whole / MICROS_PER_DAY, whole % MICROS_PER_DAY))
    }

    /// Its sign is the direction.
    fn length(self) -> i128 {
        match self {
            Self::Number(step) => step.into(),
            Self::Time(months, days, micros) => {
                let days = i128::from(months) * i128::from(DAYS_OF_MONTH) + i128::from(days);
                days * i128::from(MICROS_PER_DAY) + i128::from(micros)
            }
        }
    }

    /// The element `count` steps behind `start`.
    fn times(self, start: i64, count: i64, zone: Zone) -> Option<i64> {
        match self {
            Self::Number(step) => start.checked_add(step.checked_mul(count)?),
            Self::Time(months, days, micros) => plus(start, (months, days, micros), count, zone),
        }
    }
}

/// The steps of a call, a row each: `None` where there is none, or where it is null.
enum Steps<'a> {
    Default,
    Numbers(Int64Array),
    Times(&'a ArrayRef),
}

impl Steps<'_> {
    fn of(&self, row: usize, is_time: bool, forward: bool) -> Result<Option<Step>> {
        let sign = if forward { 1 } else { -1 };
        Ok(match self {
            Self::Default if is_time => Some(Step::Time(0, sign, 0)),
            Self::Default => Some(Step::Number(sign)),
            Self::Numbers(steps) => steps.is_valid(row).then(|| Step::Number(steps.value(row))),
            Self::Times(steps) if steps.is_null(row) => None,
            Self::Times(steps) => Some(match steps.data_type() {
                DataType::Duration(_) => {
                    Step::time(0, 0, steps.as_primitive::<DurationMicrosecondType>().value(row))?
                }
                _ => {
                    let by = steps.as_primitive::<IntervalMonthDayNanoType>().value(row);
                    Step::time(by.months.into(), by.days.into(), by.nanoseconds / 1000)?
                }
            }),
        })
    }
}

fn sequence(call: &Call<'_>) -> Result<ArrayRef> {
    let DataType::List(item) = call.result else { return internal_err!("an array") };
    let is_date = *item.data_type() == DataType::Date32;
    let zone = match item.data_type() {
        DataType::Timestamp(_, None) => Zone::UTC,
        _ => call.zone,
    };
    // Dates are the midnights with which they begin.
    let instants = |i: usize| -> Result<Int64Array> {
        let typed = cast_array(&call.args[i], item.data_type(), CastMode::Ansi, call.zone)?;
        if is_date {
            let days = compute::cast(&typed, &DataType::Int32)?;
            let days = compute::cast(&days, &DataType::Int64)?;
            let midnight = |day: i64| zone.to_utc(day * MICROS_PER_DAY);
            return Ok(days.as_primitive::<Int64Type>().unary(midnight));
        }
        Ok(compute::cast(&typed, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
    };
    let (starts, stops) = (instants(0)?, instants(1)?);
    let is_time = item.data_type().is_temporal();
    let steps = match call.args.get(2) {
        None => Steps::Default,
        Some(column) if is_time => Steps::Times(column),
        Some(column) => {
            let steps = compute::cast(column, &DataType::Int64)?;
            Steps::Numbers(steps.as_primitive::<Int64Type>().clone())
        }
    };
    let (mut values, mut lengths) = (Vec::new(), Vec::with_capacity(call.rows));
    let mut valid = Vec::with_capacity(call.rows);
    for row in 0..call.rows {
        let before = values.len();
        let ends = (starts.is_valid(row) && stops.is_valid(row))
            .then(|| (starts.value(row), stops.value(row)));
        let step = match ends {
            Some((start, stop)) => steps.of(row, is_time, start <= stop)?,
            None => None,
        };
        valid.push(step.is_some());
        if let Some(((start, stop), step)) = ends.zip(step) {
            if is_date && matches!(step, Step::Time(0, 0, _)) {
                return Err(short_step());
            }
            elements(start, stop, step, zone, &mut values)?;
        }
        lengths.push(values.len() - before);
    }
    let day = |at: i64| i64::from(local_day(zone.to_local(at)));
    let values: ArrayRef = match is_date {
        true => Arc::new(Int64Array::from_iter_values(values.into_iter().map(day))),
        false => Arc::new(Int64Array::from(values)),
    };
    let values = if is_date { compute::cast(&values, &DataType::Int32)? } else { values };
    let values = compute::cast(&values, item.data_type())?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    let nulls = Some(NullBuffer::from(valid));
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, nulls)?))
}

/// Adds the elements of one sequence.
fn elements(start: i64, stop: i64, step: Step, zone: Zone, out: &mut Vec<i64>) -> Result<()> {
    let length = step.length();
    let leads = match length.signum() {
        0 => start == stop,
        1 => start <= stop,
        _ => start >= stop,
    };
    if !leads {
        return Err(spark(
            "ILLEGAL_SEQUENCE_BOUNDARIES",
            format!("no steps of {} lead from {start} to {stop}", shown(step)),
        ));
    }
    out.push(start);
    for count in 1.. {
        // What cannot be counted any more lies behind the end.
        let Some(next) = step.times(start, count, zone) else { break };
        let is_over = if length > 0 { next > stop } else { next < stop };
        if is_over || length == 0 {
            break;
        }
        if out.len() >= MAX_LENGTH {
            return Err(spark(
                "COLLECTION_SIZE_LIMIT_EXCEEDED.PARAMETER",
                format!("a sequence of more than {MAX_LENGTH} elements is too long"),
            ));
        }
        out.push(next);
    }
    Ok(())
}

fn shown(step: Step) -> String {
    match step {
        Step::Number(step) => step.to_string(),
        Step::Time(months, days, micros) => {
            format!("{months} months, {days} days and {micros} microseconds")
        }
    }
}

fn short_step() -> DataFusionError {
    spark(
        "UNSUPPORTED_SEQUENCE_STEP",
        "the step of a `sequence` of dates is a day or more: cast the dates to timestamps",
    )
}
