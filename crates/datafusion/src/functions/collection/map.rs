//! Maps.

use super::subscript::of_map;
use crate::functions::error::{spark, unexpected_type};
use crate::functions::function::{Call, Gives, Kind, Spec};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, MapArray, StructArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute;
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, internal_err};
use fluvial_core::ddl::{array_of, map_of};
use std::collections::BTreeSet;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Spec> {
    const ONE: &[Kind] = &[Kind::Any];
    const TWO: &[Kind] = &[Kind::Any, Kind::Any];
    vec![
        Spec::new(&["map_keys"], ONE, Gives::Of(|t| Ok(array_of(entry(&t[0], 0)?))), |c| {
            column_of(c, 0)
        }),
        Spec::new(&["map_values"], ONE, Gives::Of(|t| Ok(array_of(entry(&t[0], 1)?))), |c| {
            column_of(c, 1)
        }),
        Spec::new(&["map_entries"], ONE, Gives::Of(entries_type), entries),
        Spec::new(&["map_contains_key"], TWO, Gives::Boolean, contains_key),
        Spec::new(&["map_concat"], ONE, Gives::Of(|t| Ok(t[0].clone())), concat)
            .and_more(Kind::Any),
    ]
}

fn fields(t: &DataType) -> Result<[&FieldRef; 2]> {
    if let DataType::Map(entries, _) = t
        && let DataType::Struct(fields) = entries.data_type()
        && let [key, value] = fields.iter().as_slice()
    {
        return Ok([key, value]);
    }
    Err(unexpected_type("a map function", "a map", t))
}

/// The type of keys (0) or values (1).
fn entry(t: &DataType, i: usize) -> Result<DataType> {
    Ok(fields(t)?[i].data_type().clone())
}

fn entries_type(types: &[DataType]) -> Result<DataType> {
    let [key, value] = fields(&types[0])?;
    let fields = vec![
        Field::new("key", key.data_type().clone(), false),
        Field::new("value", value.data_type().clone(), true),
    ];
    Ok(array_of(DataType::Struct(fields.into())))
}

fn map<'a>(call: &'a Call<'_>, i: usize) -> Result<&'a MapArray> {
    match call.args[i].as_map_opt() {
        Some(map) => Ok(map),
        None => Err(unexpected_type(call.name, "a map", call.args[i].data_type())),
    }
}

fn listed(call: &Call<'_>, map: &MapArray, values: ArrayRef) -> Result<ArrayRef> {
    let DataType::List(item) = call.result else { return internal_err!("an array") };
    let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, nulls)?))
}

fn column_of(call: &Call<'_>, i: usize) -> Result<ArrayRef> {
    let map = map(call, 0)?;
    listed(call, map, Arc::clone(map.entries().column(i)))
}

fn entries(call: &Call<'_>) -> Result<ArrayRef> {
    let map = map(call, 0)?;
    let DataType::List(item) = call.result else { return internal_err!("an array") };
    let DataType::Struct(fields) = item.data_type() else { return internal_err!("entries") };
    let columns = map.entries().columns().to_vec();
    listed(call, map, Arc::new(StructArray::try_new(fields.clone(), columns, None)?))
}

fn contains_key(call: &Call<'_>) -> Result<ArrayRef> {
    let map = map(call, 0)?;
    let to = entry(map.data_type(), 0)?;
    let mode = crate::functions::cast::CastMode::Ansi;
    let wanted = crate::functions::cast::cast_array(&call.args[1], &to, mode, call.zone)?;
    let places = of_map(map, &wanted)?;
    let found = (0..call.rows)
        .map(|row| (map.is_valid(row) && wanted.is_valid(row)).then(|| places.is_valid(row)));
    Ok(Arc::new(found.collect::<BooleanArray>()))
}

/// `map(key, value, ...)`: keys of one type and values of one type.
pub(super) fn map_spec() -> Spec {
    Spec::new(&["map"], &[], Gives::Of(map_type), make_map).and_more(Kind::Any).never_null()
}

fn map_type(types: &[DataType]) -> Result<DataType> {
    match types {
        [key, value, ..] => Ok(map_of(key.clone(), value.clone())),
        _ => Ok(map_of(DataType::Utf8, DataType::Utf8)),
    }
}

fn make_map(call: &Call<'_>) -> Result<ArrayRef> {
    let DataType::Map(entries, ordered) = call.result else { return internal_err!("a map") };
    let DataType::Struct(fields) = entries.data_type() else { return internal_err!("entries") };
    let count = call.count() / 2;
    let side = |i: usize| -> Result<ArrayRef> {
        let columns: Vec<&dyn Array> =
            (0..count).map(|pair| call.args[2 * pair + i].as_ref()).collect();
        let places: Vec<(usize, usize)> =
            (0..call.rows).flat_map(|row| (0..count).map(move |pair| (pair, row))).collect();
        if places.is_empty() {
            return Ok(arrow::array::new_empty_array(fields[i].data_type()));
        }
        Ok(compute::interleave(&columns, &places)?)
    };
    let (keys, values) = (side(0)?, side(1)?);
    let offsets = OffsetBuffer::from_repeated_length(count, call.rows);
    check_keys(&keys, &offsets)?;
    let structs = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
    let map = MapArray::try_new(Arc::clone(entries), offsets, structs, None, *ordered)?;
    Ok(Arc::new(map))
}

/// Refuses keys that are null or come twice in a row.
pub(crate) fn check_keys(keys: &ArrayRef, offsets: &OffsetBuffer<i32>) -> Result<()> {
    if keys.null_count() > 0 || (*keys.data_type() == DataType::Null && !keys.is_empty()) {
        return Err(spark("NULL_MAP_KEY", "a key is null: the keys of a map have values"));
    }
    let converter = RowConverter::new(vec![SortField::new(keys.data_type().clone())])?;
    let rows = converter.convert_columns(std::slice::from_ref(keys))?;
    let mut seen = BTreeSet::new();
    for row in offsets.windows(2) {
        seen.clear();
        if !(row[0]..row[1]).all(|at| seen.insert(rows.row(at as usize).data())) {
            return Err(duplicate_key());
        }
    }
    Ok(())
}

fn duplicate_key() -> datafusion::common::DataFusionError {
    spark("DUPLICATED_MAP_KEY", "a key comes twice: the keys of a map are different")
}

/// Null if one of them is; a key must come once only.
fn concat(call: &Call<'_>) -> Result<ArrayRef> {
    let maps = (0..call.count()).map(|i| map(call, i)).collect::<Result<Vec<_>>>()?;
    let DataType::Map(entries, ordered) = call.result else { return internal_err!("a map") };
    let converter = RowConverter::new(vec![SortField::new(entry(call.result, 0)?)])?;
    let keys = maps
        .iter()
        .map(|map| Ok(converter.convert_columns(std::slice::from_ref(map.keys()))?))
        .collect::<Result<Vec<_>>>()?;
    let (mut places, mut lengths) = (Vec::new(), Vec::with_capacity(call.rows));
    let mut valid = Vec::with_capacity(call.rows);
    for row in 0..call.rows {
        let before = places.len();
        let known = maps.iter().all(|map| map.is_valid(row));
        valid.push(known);
        let mut seen = BTreeSet::new();
        for (i, map) in maps.iter().enumerate().filter(|_| known) {
            let offsets = map.value_offsets();
            for at in offsets[row] as usize..offsets[row + 1] as usize {
                if !seen.insert(keys[i].row(at).data()) {
                    return Err(duplicate_key());
                }
                places.push((i, at));
            }
        }
        lengths.push(places.len() - before);
    }
    let structs: Vec<&dyn Array> = maps.iter().map(|map| map.entries() as &dyn Array).collect();
    let taken = if places.is_empty() {
        arrow::array::new_empty_array(entries.data_type())
    } else {
        compute::interleave(&structs, &places)?
    };
    let map = MapArray::try_new(
        Arc::clone(entries),
        OffsetBuffer::from_lengths(lengths),
        taken.as_struct().clone(),
        Some(NullBuffer::from(valid)),
        *ordered,
    )?;
    Ok(Arc::new(map))
}
