//! `map_filter`, `transform_keys`, `transform_values` and `map_zip_with`.

use super::elements::{Elements, at, conditions};
use super::function::{Call, Spec, Takes, Types};
use crate::functions::collection::check_keys;
use crate::functions::error::unexpected_type;
use arrow::array::{Array, ArrayRef, MapArray, StructArray, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::interleave;
use arrow::datatypes::{DataType, Field};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, internal_err};
use fluvial_core::ddl::map_of;
use std::collections::HashMap;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Spec> {
    const ONE: &[Takes] = &[Takes::Map, Takes::Lambda];
    const TWO: &[Takes] = &[Takes::Map, Takes::Map, Takes::Lambda];
    let of_one = |names: &'static [&'static str], gives, run| Spec {
        names,
        takes: ONE,
        required: 2,
        parameters: |values| Ok(vec![entry(&values[0])?.to_vec()]),
        gives,
        run,
    };
    vec![
        of_one(&["map_filter"], filtered, map_filter),
        of_one(&["transform_keys"], with_keys, transform_keys),
        of_one(&["transform_values"], with_values, transform_values),
        Spec {
            names: &["map_zip_with"],
            takes: TWO,
            required: 3,
            parameters: zip_parameters,
            gives: with_values,
            run: map_zip_with,
        },
    ]
}

/// A key and its value.
fn entry(t: &DataType) -> Result<[Field; 2]> {
    if let DataType::Map(entries, _) = t
        && let DataType::Struct(fields) = entries.data_type()
        && let [key, value] = fields.iter().as_slice()
    {
        return Ok([key.as_ref().clone(), value.as_ref().clone()]);
    }
    internal_err!("{t} is no map")
}

fn zip_parameters(values: &[DataType]) -> Result<Vec<Vec<Field>>> {
    let [key, left] = entry(&values[0])?;
    let [other_key, right] = entry(&values[1])?;
    if !key.data_type().equals_datatype(other_key.data_type()) {
        return Err(unexpected_type(
            "map_zip_with",
            "maps with keys of one type",
            other_key.data_type(),
        ));
    }
    Ok(vec![vec![key, left.with_nullable(true), right.with_nullable(true)]])
}

fn filtered(types: &Types<'_>) -> Result<DataType> {
    types.conditions()?;
    Ok(types.values[0].clone())
}

fn with_keys(types: &Types<'_>) -> Result<DataType> {
    let [_, value] = entry(types.values[0])?;
    Ok(map_of(types.lambdas[0].data_type().clone(), value.data_type().clone()))
}

fn with_values(types: &Types<'_>) -> Result<DataType> {
    let [key, _] = entry(types.values[0])?;
    Ok(map_of(key.data_type().clone(), types.lambdas[0].data_type().clone()))
}

/// A map with these keys and values.
fn mapped(
    call: &Call<'_>,
    offsets: OffsetBuffer<i32>,
    columns: Vec<ArrayRef>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let DataType::Map(entries, ordered) = call.result else { return internal_err!("a map") };
    let DataType::Struct(fields) = entries.data_type() else { return internal_err!("entries") };
    let structs = StructArray::try_new(fields.clone(), columns, None)?;
    Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, structs, nulls, *ordered)?))
}

/// What the lambda gives for each entry.
fn each(call: &Call<'_>, entries: &Elements) -> Result<ArrayRef> {
    let column = |i: usize| Ok(Arc::clone(&entries.columns[i]));
    entries.evaluate(call.lambdas[0], &[&|| column(0), &|| column(1)])
}

fn map_filter(call: &Call<'_>) -> Result<ArrayRef> {
    let entries = Elements::of(&call.values[0])?;
    let kept = entries.filtered(&conditions(&each(call, &entries)?))?;
    mapped(call, kept.offsets, kept.columns, kept.nulls)
}

fn transform_keys(call: &Call<'_>) -> Result<ArrayRef> {
    let entries = Elements::of(&call.values[0])?;
    let keys = each(call, &entries)?;
    check_keys(&keys, &entries.offsets)?;
    let columns = vec![keys, Arc::clone(&entries.columns[1])];
    mapped(call, entries.offsets, columns, entries.nulls)
}

fn transform_values(call: &Call<'_>) -> Result<ArrayRef> {
    let entries = Elements::of(&call.values[0])?;
    let columns = vec![Arc::clone(&entries.columns[0]), each(call, &entries)?];
    mapped(call, entries.offsets, columns, entries.nulls)
}

/// The keys of the first map, then those that only the second has; a value that is not there is
/// null.
fn map_zip_with(call: &Call<'_>) -> Result<ArrayRef> {
    let sides = [Elements::of(&call.values[0])?, Elements::of(&call.values[1])?];
    let nulls = NullBuffer::union(sides[0].nulls.as_ref(), sides[1].nulls.as_ref());
    let keys = [&sides[0].columns[0], &sides[1].columns[0]];
    let converter = RowConverter::new(vec![SortField::new(keys[0].data_type().clone())])?;
    let coded = [
        converter.convert_columns(std::slice::from_ref(keys[0]))?,
        converter.convert_columns(std::slice::from_ref(keys[1]))?,
    ];
    let (mut chosen, mut lengths) = (Vec::new(), Vec::with_capacity(call.rows));
    let mut places: [Vec<Option<u32>>; 2] = [Vec::new(), Vec::new()];
    let mut known = HashMap::new();
    for row in 0..call.rows {
        let before = chosen.len();
        known.clear();
        let null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        for side in [0, 1].into_iter().filter(|_| !null) {
            for at in sides[side].range(row) {
                let place = *known.entry(coded[side].row(at)).or_insert_with(|| {
                    chosen.push((side, at));
                    places.iter_mut().for_each(|places| places.push(None));
                    chosen.len() - 1
                });
                places[side][place] = Some(at as u32);
            }
        }
        lengths.push(chosen.len() - before);
    }
    let key = if chosen.is_empty() {
        keys[0].slice(0, 0)
    } else {
        interleave(&[keys[0].as_ref(), keys[1].as_ref()], &chosen)?
    };
    let [lefts, rights] = places.map(UInt32Array::from);
    let columns = vec![key, at(&sides[0].columns[1], &lefts)?, at(&sides[1].columns[1], &rights)?];
    let union = Elements { offsets: OffsetBuffer::from_lengths(lengths), columns, nulls };
    let column = |i: usize| Ok(Arc::clone(&union.columns[i]));
    let given = union.evaluate(call.lambdas[0], &[&|| column(0), &|| column(1), &|| column(2)])?;
    mapped(call, union.offsets.clone(), vec![column(0)?, given], union.nulls.clone())
}
