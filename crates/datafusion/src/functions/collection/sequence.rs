//! `sequence`: arrays of equal steps.

use crate::functions::error::{overflow, spark, unexpected_type};
use crate::functions::function::{Call, Gives, Kind, Spec};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute;
use arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNanoType, IntervalUnit, TimeUnit};
use datafusion::common::{Result, internal_err};
use fluvial_core::ddl::array_of;
use std::sync::Arc;

const MAX_LENGTH: i64 = 1 << 24;

pub(super) fn functions() -> Vec<Spec> {
    const THREE: &[Kind] = &[Kind::Any, Kind::Any, Kind::Any];
    vec![Spec::new(&["sequence"], THREE, Gives::Of(result_type), sequence).optional_from(2)]
}

fn result_type(types: &[DataType]) -> Result<DataType> {
    let Some(common) = crate::functions::arithmetic::common_type(&types[0], &types[1]) else {
        return Err(crate::functions::error::mismatch("sequence", &[&types[0], &types[1]]));
    };
    let is_time =
        matches!(common, DataType::Date32 | DataType::Timestamp(TimeUnit::Microsecond, _));
    if common.is_integer() || is_time {
        return Ok(array_of(common));
    }
    Err(unexpected_type("sequence", "whole numbers, dates or timestamps", &common))
}

/// Steps as whole numbers of the type's unit: days, microseconds or ones.
fn steps(call: &Call<'_>, item: &DataType) -> Result<Option<Int64Array>> {
    let Some(column) = call.args.get(2) else { return Ok(None) };
    let per_day = match item {
        DataType::Date32 => 1,
        _ => 86_400_000_000,
    };
    Ok(Some(match column.data_type() {
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let intervals = column.as_primitive::<IntervalMonthDayNanoType>();
            intervals.try_unary::<_, Int64Type, _>(|i| {
                if i.months != 0 || (*item == DataType::Date32 && i.nanoseconds != 0) {
                    return Err(spark(
                        "UNSUPPORTED_SEQUENCE_STEP",
                        "the step of `sequence` is a number of days or less",
                    ));
                }
                Ok(i64::from(i.days) * per_day + i.nanoseconds / 1000)
            })?
        }
        _ => compute::cast(column, &DataType::Int64)?.as_primitive::<Int64Type>().clone(),
    }))
}

fn sequence(call: &Call<'_>) -> Result<ArrayRef> {
    let DataType::List(item) = call.result else { return internal_err!("an array") };
    let numbers = |i: usize| -> Result<Int64Array> {
        let typed = crate::functions::cast::cast_array(
            &call.args[i],
            item.data_type(),
            crate::functions::cast::CastMode::Ansi,
            call.zone,
        )?;
        let typed = match typed.data_type() {
            DataType::Date32 => compute::cast(&typed, &DataType::Int32)?,
            _ => typed,
        };
        Ok(compute::cast(&typed, &DataType::Int64)?.as_primitive::<Int64Type>().clone())
    };
    let (starts, stops, steps) = (numbers(0)?, numbers(1)?, steps(call, item.data_type())?);
    let unit = match item.data_type() {
        DataType::Timestamp(..) => 86_400_000_000,
        _ => 1,
    };
    let (mut values, mut lengths) = (Vec::new(), Vec::with_capacity(call.rows));
    let mut valid = Vec::with_capacity(call.rows);
    for row in 0..call.rows {
        let before = values.len();
        let known = starts.is_valid(row)
            && stops.is_valid(row)
            && steps.as_ref().is_none_or(|steps| steps.is_valid(row));
        valid.push(known);
        if known {
            let (start, stop) = (starts.value(row), stops.value(row));
            let step = match &steps {
                Some(steps) => steps.value(row),
                None if start <= stop => unit,
                None => -unit,
            };
            let forward = start == stop || (step > 0) == (start < stop);
            if !forward || (step == 0 && start != stop) {
                return Err(spark(
                    "ILLEGAL_SEQUENCE_BOUNDARIES",
                    format!("no steps of {step} lead from {start} to {stop}"),
                ));
            }
            let span = stop.checked_sub(start).ok_or_else(|| overflow("a sequence"))?;
            let count = if step == 0 { 1 } else { span / step + 1 };
            if count + values.len() as i64 > MAX_LENGTH {
                return Err(spark(
                    "COLLECTION_SIZE_LIMIT_EXCEEDED.PARAMETER",
                    format!("a sequence of {count} elements is too long"),
                ));
            }
            values.extend((0..count).map(|i| start + i * step));
        }
        lengths.push(values.len() - before);
    }
    let values: ArrayRef = Arc::new(Int64Array::from(values));
    let values = match item.data_type() {
        DataType::Date32 => compute::cast(&values, &DataType::Int32)?,
        _ => values,
    };
    let values = compute::cast(&values, item.data_type())?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    let nulls = Some(NullBuffer::from(valid));
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, nulls)?))
}
