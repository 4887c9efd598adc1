//! `aggregate` and `reduce`: an array put together, element after element.

use super::elements::{Elements, at, for_rows};
use super::function::{Call, Spec, Takes, Types};
use super::list::item;
use crate::functions::cast::{CastMode, cast_array};
use crate::functions::error::spark;
use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use fluvial_core::ddl::ddl_name;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Spec> {
    const TAKES: &[Takes] = &[Takes::Array, Takes::Any, Takes::Lambda, Takes::Lambda];
    vec![Spec {
        names: &["aggregate", "reduce"],
        takes: TAKES,
        required: 3,
        parameters,
        gives,
        run,
    }]
}

/// What was put together so far and an element; then, to finish, the whole.
fn parameters(values: &[DataType]) -> Result<Vec<Vec<Field>>> {
    let whole = Field::new("whole", values[1].clone(), true);
    Ok(vec![vec![whole.clone(), item(&values[0])?.as_ref().clone()], vec![whole]])
}

fn gives(types: &Types<'_>) -> Result<DataType> {
    let (start, merged) = (types.values[1], types.lambdas[0].data_type());
    if !fits(merged, start) {
        let message = format!(
            "`{}` starts with {} and its lambda gives {}: cast the start to the type of the lambda",
            types.name,
            ddl_name(start),
            ddl_name(merged)
        );
        return Err(spark("DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE", message));
    }
    Ok(types.lambdas.get(1).map_or(start, |finish| finish.data_type()).clone())
}

/// Whether what the lambda gives goes on as the type of the start without loss.
fn fits(merged: &DataType, start: &DataType) -> bool {
    let rank = |t: &DataType| match t {
        DataType::Int8 => Some(0),
        DataType::Int16 => Some(1),
        DataType::Int32 => Some(2),
        DataType::Int64 => Some(3),
        DataType::Float32 => Some(4),
        DataType::Float64 => Some(5),
        _ => None,
    };
    let wider = rank(merged).zip(rank(start)).is_some_and(|(from, to)| from <= to);
    merged.is_null() || merged.equals_datatype(start) || wider
}

/// Rows are taken by falling length, so that those that still have an element are always the
/// first ones: each round puts the next element of each to its whole.
fn run(call: &Call<'_>) -> Result<ArrayRef> {
    let elements = Elements::of(&call.values[0])?;
    let mut rows: Vec<u32> = (0..call.rows as u32).collect();
    let length = |row: &u32| elements.range(*row as usize).len();
    rows.sort_by_key(|row| std::cmp::Reverse(length(row)));
    let mut wholes = at(&call.values[1], &UInt32Array::from(rows.clone()))?;
    let mut ended: Vec<ArrayRef> = Vec::new();
    for round in 0.. {
        let going = rows.partition_point(|row| length(row) > round);
        let going = going.min(wholes.len());
        if going < wholes.len() {
            ended.push(wholes.slice(going, wholes.len() - going));
            wholes = wholes.slice(0, going);
        }
        if going == 0 {
            break;
        }
        let rows = UInt32Array::from(rows[..going].to_vec());
        let places =
            rows.values().iter().map(|row| (elements.range(*row as usize).start + round) as u32);
        let next = at(&elements.columns[0], &places.collect())?;
        let (so_far, element) = (|| Ok(Arc::clone(&wholes)), || Ok(Arc::clone(&next)));
        let merged = for_rows(call.lambdas[0], &rows, &[&so_far, &element])?;
        wholes = cast_array(&merged, call.values[1].data_type(), CastMode::Ansi, call.zone)?;
    }
    // Those of no element ended first and stand last.
    let pieces: Vec<&dyn Array> = ended.iter().rev().map(AsRef::as_ref).collect();
    let by_length = if pieces.is_empty() { wholes } else { concat(&pieces)? };
    let mut places = vec![0_u32; call.rows];
    for (place, row) in rows.iter().enumerate() {
        places[*row as usize] = place as u32;
    }
    let result = at(&by_length, &UInt32Array::from(places))?;
    let known = |row: &u32| elements.nulls.as_ref().is_none_or(|n| n.is_valid(*row as usize));
    let known: UInt32Array = (0..call.rows as u32).filter(known).collect();
    let result = match call.lambdas.get(1) {
        None => at(&result, &known)?,
        Some(finish) => {
            let wholes = at(&result, &known)?;
            for_rows(finish, &known, &[&|| Ok(Arc::clone(&wholes))])?
        }
    };
    // Nothing comes of an array that is null.
    let mut back = vec![None; call.rows];
    for (place, row) in known.values().iter().enumerate() {
        back[*row as usize] = Some(place as u32);
    }
    at(&result, &UInt32Array::from(back))
}
