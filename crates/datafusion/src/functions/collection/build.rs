//! Arrays with elements put in, taken out or repeated.

use super::list::{list, list_type, of_places, range};
use crate::functions::cast::{CastMode, cast_array};
use crate::functions::error::spark;
use crate::functions::function::{Call, Gives, Kind, Spec};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Int32Type};
use datafusion::common::{Result, internal_err};

pub(super) fn functions() -> Vec<Spec> {
    use Kind::{Any, Int};
    const TWO: &[Kind] = &[Any, Any];
    let same = || Gives::Of(|types| list_type("an array function", &types[0]));
    vec![
        Spec::new(&["array_append"], TWO, same(), |c| inserted(c, |_, length| Ok(Some(length)))),
        Spec::new(&["array_prepend"], TWO, same(), |c| inserted(c, |_, _| Ok(Some(0)))),
        Spec::new(&["array_insert"], &[Any, Int, Any], same(), insert),
        Spec::new(&["slice"], &[Any, Int, Int], same(), slice),
        Spec::new(
            &["array_repeat"],
            &[Any, Int],
            Gives::Of(|types| Ok(fluvial_core::ddl::array_of(types[0].clone()))),
            repeat,
        ),
    ]
}

/// Arrays with the last argument put in at a place, counted from 0; further out are nulls.
fn inserted(
    call: &Call<'_>,
    place: impl Fn(usize, usize) -> Result<Option<usize>>,
) -> Result<ArrayRef> {
    let list = list(call, 0)?;
    let DataType::List(item) = call.result else { return internal_err!("an array") };
    let last = call.count() - 1;
    let extra = cast_array(&call.args[last], item.data_type(), CastMode::Ansi, call.zone)?;
    let values = cast_array(list.values(), item.data_type(), CastMode::Ansi, call.zone)?;
    let nothing = arrow::array::new_null_array(item.data_type(), 1);
    let (mut places, mut lengths) = (Vec::new(), Vec::with_capacity(list.len()));
    let mut valid = Vec::with_capacity(list.len());
    for row in 0..list.len() {
        let before = places.len();
        let (start, end) = range(list, row);
        let at = if list.is_valid(row) { place(row, end - start)? } else { None };
        valid.push(at.is_some());
        if let Some(at) = at {
            let split = (start + at).min(end);
            places.extend((start..split).map(|at| (0, at)));
            places.extend(std::iter::repeat_n((2, 0), (start + at).saturating_sub(end)));
            places.push((1, row));
            places.extend((split..end).map(|at| (0, at)));
        }
        lengths.push(places.len() - before);
    }
    let values: [&dyn Array; 3] = [&values, &extra, &nothing];
    of_places(call, &values, places, lengths, Some(NullBuffer::from(valid)))
}

const MAX_LENGTH: usize = 1 << 24;

fn insert(call: &Call<'_>) -> Result<ArrayRef> {
    let positions = call.args[1].as_primitive::<Int32Type>();
    inserted(call, |row, length| {
        if positions.is_null(row) {
            return Ok(None);
        }
        let at = match positions.value(row) {
            0 => {
                return Err(spark(
                    "INVALID_INDEX_OF_ZERO",
                    "positions of `array_insert` start at 1, or at -1 from the end",
                ));
            }
            n if n > 0 => n as usize - 1,
            n => (length + 1).saturating_sub(n.unsigned_abs() as usize),
        };
        if at > MAX_LENGTH {
            return Err(spark(
                "COLLECTION_SIZE_LIMIT_EXCEEDED.PARAMETER",
                format!("an array of {at} elements is too long"),
            ));
        }
        Ok(Some(at))
    })
}

fn slice(call: &Call<'_>) -> Result<ArrayRef> {
    let list = list(call, 0)?;
    let starts = call.args[1].as_primitive::<Int32Type>();
    let counts = call.args[2].as_primitive::<Int32Type>();
    let (mut places, mut lengths) = (Vec::new(), Vec::with_capacity(list.len()));
    let mut valid = Vec::with_capacity(list.len());
    for row in 0..list.len() {
        let before = places.len();
        let known = list.is_valid(row) && starts.is_valid(row) && counts.is_valid(row);
        valid.push(known);
        if known {
            let (first, end) = range(list, row);
            let (from, count) = (starts.value(row), counts.value(row));
            if from == 0 || count < 0 {
                return Err(spark(
                    "INVALID_PARAMETER_VALUE.START",
                    format!(
                        "`slice` takes a start other than 0 and a length from 0, not {from} and {count}"
                    ),
                ));
            }
            let start = if from > 0 {
                Some(first + from as usize - 1)
            } else {
                (end - first).checked_sub(from.unsigned_abs() as usize).map(|s| first + s)
            };
            if let Some(start) = start.filter(|start| *start < end) {
                let last = start.saturating_add(count as usize).min(end);
                places.extend((start..last).map(|at| (0, at)));
            }
        }
        lengths.push(places.len() - before);
    }
    let nulls = Some(NullBuffer::from(valid));
    of_places(call, &[list.values().as_ref()], places, lengths, nulls)
}

fn repeat(call: &Call<'_>) -> Result<ArrayRef> {
    let counts = call.args[1].as_primitive::<Int32Type>();
    let (mut places, mut lengths) = (Vec::new(), Vec::with_capacity(call.rows));
    for row in 0..call.rows {
        let count = if counts.is_valid(row) { counts.value(row).max(0) as usize } else { 0 };
        if places.len() + count > MAX_LENGTH {
            return Err(spark(
                "COLLECTION_SIZE_LIMIT_EXCEEDED.FUNCTION",
                format!("arrays of {count} elements are too long"),
            ));
        }
        places.extend(std::iter::repeat_n((0, row), count));
        lengths.push(count);
    }
    of_places(call, &[call.args[0].as_ref()], places, lengths, counts.nulls().cloned())
}
