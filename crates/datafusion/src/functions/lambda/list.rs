//! `transform`, `filter`, `exists`, `forall` and `zip_with`: a lambda for each element.

use super::elements::{Elements, at, conditions, for_rows};
use super::function::{Call, Spec, Takes, Types};
use arrow::array::{Array, ArrayRef, BooleanArray, ListArray, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, internal_err};
use std::sync::Arc;

pub(super) fn functions() -> Vec<Spec> {
    const ONE: &[Takes] = &[Takes::Array, Takes::Lambda];
    const TWO: &[Takes] = &[Takes::Array, Takes::Array, Takes::Lambda];
    let of_one = |name: &'static [&'static str], parameters, gives, run| Spec {
        names: name,
        takes: ONE,
        required: 2,
        parameters,
        gives,
        run,
    };
    vec![
        of_one(&["transform"], item_and_position, transformed, transform),
        of_one(&["filter"], item_and_position, same, filter),
        of_one(&["exists"], item_alone, truth, |call| quantified(call, true)),
        of_one(&["forall"], item_alone, truth, |call| quantified(call, false)),
        Spec {
            names: &["zip_with"],
            takes: TWO,
            required: 3,
            parameters: |values| {
                let items = [item(&values[0])?, item(&values[1])?];
                Ok(vec![items.map(|item| item.as_ref().clone().with_nullable(true)).to_vec()])
            },
            gives: transformed,
            run: zip_with,
        },
    ]
}

/// The element of an array.
pub(super) fn item(t: &DataType) -> Result<&FieldRef> {
    match t {
        DataType::List(item) => Ok(item),
        other => internal_err!("{other} is no array"),
    }
}

fn item_alone(values: &[DataType]) -> Result<Vec<Vec<Field>>> {
    Ok(vec![vec![item(&values[0])?.as_ref().clone()]])
}

fn item_and_position(values: &[DataType]) -> Result<Vec<Vec<Field>>> {
    let position = Field::new("position", DataType::Int32, false);
    Ok(vec![vec![item(&values[0])?.as_ref().clone(), position]])
}

fn transformed(types: &Types<'_>) -> Result<DataType> {
    let given = types.lambdas[0];
    Ok(DataType::new_list(given.data_type().clone(), given.is_nullable()))
}

fn same(types: &Types<'_>) -> Result<DataType> {
    types.conditions()?;
    Ok(types.values[0].clone())
}

fn truth(types: &Types<'_>) -> Result<DataType> {
    types.conditions()?;
    Ok(DataType::Boolean)
}

/// An array with these elements.
pub(super) fn listed(
    call: &Call<'_>,
    offsets: OffsetBuffer<i32>,
    values: ArrayRef,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let item = Arc::clone(item(call.result)?);
    Ok(Arc::new(ListArray::try_new(item, offsets, values, nulls)?))
}

/// What the lambda gives for each element and its position.
fn each(call: &Call<'_>, elements: &Elements) -> Result<ArrayRef> {
    let value = || Ok(Arc::clone(&elements.columns[0]));
    let position = || Ok(elements.positions());
    elements.evaluate(call.lambdas[0], &[&value, &position])
}

fn transform(call: &Call<'_>) -> Result<ArrayRef> {
    let elements = Elements::of(&call.values[0])?;
    let given = each(call, &elements)?;
    listed(call, elements.offsets, given, elements.nulls)
}

fn filter(call: &Call<'_>) -> Result<ArrayRef> {
    let elements = Elements::of(&call.values[0])?;
    let keep = conditions(&each(call, &elements)?);
    let Elements { offsets, mut columns, nulls } = elements.filtered(&keep)?;
    listed(call, offsets, columns.remove(0), nulls)
}

/// Whether one element meets the condition, or (`decisive` false) all do. Null if an unknown
/// condition would decide.
fn quantified(call: &Call<'_>, decisive: bool) -> Result<ArrayRef> {
    let elements = Elements::of(&call.values[0])?;
    match each(call, &elements) {
        Ok(given) => Ok(quantify(&elements, &conditions(&given), decisive)),
        // What comes behind the element that decides is not looked at: it may have been that.
        Err(_) => one_by_one(call, &elements, decisive),
    }
}

fn quantify(elements: &Elements, met: &BooleanArray, decisive: bool) -> ArrayRef {
    let of_row = |row: usize| {
        if elements.is_null(row) {
            return None;
        }
        let mut known = true;
        for at in elements.range(row) {
            match met.is_valid(at).then(|| met.value(at)) {
                Some(value) if value == decisive => return Some(decisive),
                Some(_) => {}
                None => known = false,
            }
        }
        known.then_some(!decisive)
    };
    Arc::new((0..elements.rows()).map(of_row).collect::<BooleanArray>())
}

/// The same, element after element of all rows that are not decided yet.
fn one_by_one(call: &Call<'_>, elements: &Elements, decisive: bool) -> Result<ArrayRef> {
    let mut results: Vec<Option<bool>> =
        (0..call.rows).map(|row| (!elements.is_null(row)).then_some(!decisive)).collect();
    let mut open: Vec<u32> = (0..call.rows as u32).collect();
    for round in 0.. {
        open.retain(|row| elements.range(*row as usize).len() > round);
        if open.is_empty() {
            break;
        }
        let rows = UInt32Array::from(open.clone());
        let places = open.iter().map(|row| (elements.range(*row as usize).start + round) as u32);
        let next = at(&elements.columns[0], &places.collect())?;
        let met = conditions(&for_rows(call.lambdas[0], &rows, &[&|| Ok(Arc::clone(&next))])?);
        let mut row = 0;
        open.retain(|open| {
            let met = met.is_valid(row).then(|| met.value(row));
            row += 1;
            if met != Some(!decisive) {
                results[*open as usize] = met;
            }
            met != Some(decisive)
        });
    }
    Ok(Arc::new(BooleanArray::from(results)))
}

/// Pairs of two arrays; the shorter one has nulls where it has ended.
fn zip_with(call: &Call<'_>) -> Result<ArrayRef> {
    let [left, right] = [Elements::of(&call.values[0])?, Elements::of(&call.values[1])?];
    let nulls = NullBuffer::union(left.nulls.as_ref(), right.nulls.as_ref());
    let mut places = [Vec::new(), Vec::new()];
    let mut lengths = Vec::with_capacity(call.rows);
    for row in 0..call.rows {
        let null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        let sides = [left.range(row), right.range(row)];
        let length = if null { 0 } else { sides[0].len().max(sides[1].len()) };
        lengths.push(length);
        for (places, side) in places.iter_mut().zip(sides) {
            let there = side.map(|at| Some(at as u32)).chain(std::iter::repeat(None));
            places.extend(there.take(length));
        }
    }
    let [lefts, rights] = places.map(UInt32Array::from);
    let columns = vec![at(&left.columns[0], &lefts)?, at(&right.columns[0], &rights)?];
    let pairs = Elements { offsets: OffsetBuffer::from_lengths(lengths), columns, nulls };
    let value = |side: usize| Ok(Arc::clone(&pairs.columns[side]));
    let given = pairs.evaluate(call.lambdas[0], &[&|| value(0), &|| value(1)])?;
    listed(call, pairs.offsets, given, pairs.nulls)
}
