//! Arrays as sets: nulls are equal to each other, and the order is that of the first coming.

use super::list::{list, list_type, of_places, range};
use crate::functions::arithmetic::common_type;
use crate::functions::cast::{CastMode, cast_array};
use crate::functions::error::mismatch;
use crate::functions::function::{Call, Gives, Kind, Spec};
use arrow::array::{Array, ArrayRef, AsArray, BooleanBuilder, ListArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::Result;
use std::collections::BTreeSet;
use std::sync::Arc;

pub(super) fn functions() -> Vec<Spec> {
    const ONE: &[Kind] = &[Kind::Any];
    const TWO: &[Kind] = &[Kind::Any, Kind::Any];
    let both = || Gives::Of(common);
    vec![
        Spec::new(
            &["array_distinct"],
            ONE,
            Gives::Of(|t| list_type("array_distinct", &t[0])),
            |c| combined(c, |own, _, out| distinct(own, out)),
        ),
        Spec::new(&["array_union"], TWO, both(), |c| {
            combined(c, |a, b, out| distinct(&[a, b].concat(), out))
        }),
        Spec::new(&["array_intersect"], TWO, both(), |c| {
            combined(c, |a, b, out| {
                let others: BTreeSet<&[u8]> = b.iter().map(|(key, _)| *key).collect();
                let shared: Vec<_> =
                    a.iter().filter(|(k, _)| others.contains(k)).copied().collect();
                distinct(&shared, out);
            })
        }),
        Spec::new(&["array_except"], TWO, both(), |c| {
            combined(c, |a, b, out| {
                let others: BTreeSet<&[u8]> = b.iter().map(|(key, _)| *key).collect();
                let rest: Vec<_> = a.iter().filter(|(k, _)| !others.contains(k)).copied().collect();
                distinct(&rest, out);
            })
        }),
        Spec::new(&["arrays_overlap"], TWO, Gives::Boolean, overlap).may_be_null(),
    ]
}

/// An element: its bytes, by which it is compared, and its place.
type Element<'a> = (&'a [u8], (usize, usize));

fn common(types: &[DataType]) -> Result<DataType> {
    match common_type(&types[0], &types[1]) {
        Some(common) => list_type("an array function", &common),
        None => Err(mismatch("an array function", &[&types[0], &types[1]])),
    }
}

fn distinct(elements: &[Element<'_>], out: &mut Vec<(usize, usize)>) {
    let mut seen = BTreeSet::new();
    out.extend(elements.iter().filter(|(key, _)| seen.insert(*key)).map(|(_, place)| *place));
}

/// The argument lists in the type that they have in common, with their elements as bytes.
fn sides(call: &Call<'_>, to: &DataType) -> Result<Vec<(ListArray, Rows)>> {
    let side = |i: usize| {
        list(call, i)?;
        let array = cast_array(&call.args[i], to, CastMode::Ansi, call.zone)?;
        let list = array.as_list::<i32>().clone();
        let converter = RowConverter::new(vec![SortField::new(list.value_type())])?;
        let rows = converter.convert_columns(std::slice::from_ref(list.values()))?;
        Ok((list, rows))
    };
    (0..call.count()).map(side).collect()
}

fn elements<'a>(sides: &'a [(ListArray, Rows)], i: usize, row: usize) -> Vec<Element<'a>> {
    let Some((list, rows)) = sides.get(i) else { return Vec::new() };
    let (start, end) = range(list, row);
    (start..end).map(|at| (rows.row(at).data(), (i, at))).collect()
}

fn combined(
    call: &Call<'_>,
    f: impl Fn(&[Element<'_>], &[Element<'_>], &mut Vec<(usize, usize)>),
) -> Result<ArrayRef> {
    let sides = sides(call, call.result)?;
    let (mut places, mut lengths) = (Vec::new(), Vec::with_capacity(call.rows));
    let mut valid = Vec::with_capacity(call.rows);
    for row in 0..call.rows {
        let before = places.len();
        let known = sides.iter().all(|(list, _)| list.is_valid(row));
        valid.push(known);
        if known {
            f(&elements(&sides, 0, row), &elements(&sides, 1, row), &mut places);
        }
        lengths.push(places.len() - before);
    }
    let values: Vec<&dyn Array> = sides.iter().map(|(list, _)| list.values().as_ref()).collect();
    of_places(call, &values, places, lengths, Some(NullBuffer::from(valid)))
}

/// Null if nothing is shared but one of them has a null.
fn overlap(call: &Call<'_>) -> Result<ArrayRef> {
    let types: Vec<DataType> = call.args.iter().map(|a| a.data_type().clone()).collect();
    let sides = sides(call, &common(&types)?)?;
    let mut found = BooleanBuilder::with_capacity(call.rows);
    for row in 0..call.rows {
        if sides.iter().any(|(list, _)| list.is_null(row)) {
            found.append_null();
            continue;
        }
        let is_valid = |(_, (i, at)): &Element<'_>| sides[*i].0.values().is_valid(*at);
        let (a, b) = (elements(&sides, 0, row), elements(&sides, 1, row));
        let others: BTreeSet<&[u8]> = b.iter().filter(|e| is_valid(e)).map(|(k, _)| *k).collect();
        if a.iter().any(|e| is_valid(e) && others.contains(e.0)) {
            found.append_value(true);
        } else if !a.is_empty() && !b.is_empty() && a.iter().chain(&b).any(|e| !is_valid(e)) {
            found.append_null();
        } else {
            found.append_value(false);
        }
    }
    Ok(Arc::new(found.finish()))
}
