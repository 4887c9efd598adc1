//! Arrays put together, cut and searched.

use crate::functions::cast::{CastMode, cast_array};
use crate::functions::error::unexpected_type;
use crate::functions::function::{Call, Gives, Kind, Spec};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanBuilder, Int32Array, Int64Array, ListArray, StringArray,
    make_comparator,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{self, SortOptions};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, internal_err};
use std::sync::Arc;

pub(super) fn functions() -> Vec<Spec> {
    use Kind::{Any, Text};
    const ONE: &[Kind] = &[Any];
    const TWO: &[Kind] = &[Any, Any];
    let same = || Gives::Of(|types| list_type("an array function", &types[0]));
    vec![
        Spec::new(&["size", "cardinality"], ONE, Gives::Int, size),
        Spec::new(&["array_size"], ONE, Gives::Int, size),
        Spec::new(&["array_contains"], TWO, Gives::Boolean, contains).may_be_null(),
        Spec::new(&["array_position"], TWO, Gives::Long, position),
        Spec::new(&["array_remove"], TWO, same(), |c| {
            let equal = Equal::new(c)?;
            rebuilt(c, |row, at| equal.is_null(row) || !equal.at(row, at))
        }),
        Spec::new(&["array_compact"], ONE, same(), |c| {
            let values = list(c, 0)?.values().clone();
            rebuilt(c, |_, at| values.is_valid(at))
        }),
        Spec::new(&["array_join"], &[Any, Text, Text], Gives::Text, join).optional_from(2),
        Spec::new(
            &["flatten"],
            ONE,
            Gives::Of(|types| match &types[0] {
                DataType::List(inner) => list_type("flatten", inner.data_type()),
                other => Err(unexpected_type("flatten", "an array of arrays", other)),
            }),
            flatten,
        ),
        concat_spec(),
    ]
}

/// `concat` of arrays.
pub(super) fn concat_spec() -> Spec {
    Spec::new(&["array_concat"], &[], Gives::Of(common_list), concat).and_more(Kind::Any)
}

/// The type, if it is one of arrays.
pub(super) fn list_type(function: &str, t: &DataType) -> Result<DataType> {
    match t {
        DataType::List(item) => Ok(fluvial_core::ddl::array_of(item.data_type().clone())),
        DataType::Null => Ok(fluvial_core::ddl::array_of(DataType::Null)),
        other => Err(unexpected_type(function, "an array", other)),
    }
}

fn common_list(types: &[DataType]) -> Result<DataType> {
    let mut common = DataType::Null;
    for t in types {
        common = match crate::functions::arithmetic::common_type(&common, t) {
            Some(common) => common,
            None => return Err(crate::functions::error::mismatch("concat", &[&common, t])),
        };
    }
    list_type("concat", &common)
}

pub(super) fn list<'a>(call: &'a Call<'_>, i: usize) -> Result<&'a ListArray> {
    match call.args[i].as_list_opt::<i32>() {
        Some(list) => Ok(list),
        None => Err(unexpected_type(call.name, "an array", call.args[i].data_type())),
    }
}

/// The start and end of a row's elements.
pub(super) fn range(list: &ListArray, row: usize) -> (usize, usize) {
    let offsets = list.value_offsets();
    (offsets[row] as usize, offsets[row + 1] as usize)
}

/// Arrays of some of the elements, by their places in all elements of the column.
pub(super) fn of_places(
    call: &Call<'_>,
    values: &[&dyn Array],
    places: Vec<(usize, usize)>,
    lengths: Vec<usize>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let DataType::List(item) = call.result else { return internal_err!("an array") };
    let taken = if places.is_empty() {
        arrow::array::new_empty_array(item.data_type())
    } else {
        compute::interleave(values, &places)?
    };
    let taken = cast_array(&taken, item.data_type(), CastMode::Ansi, call.zone)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, taken, nulls)?))
}

/// Arrays without the elements that are not kept.
pub(super) fn rebuilt(call: &Call<'_>, keep: impl Fn(usize, usize) -> bool) -> Result<ArrayRef> {
    let list = list(call, 0)?;
    let (mut places, mut lengths) = (Vec::new(), Vec::with_capacity(list.len()));
    for row in 0..list.len() {
        let before = places.len();
        if list.is_valid(row) {
            let (start, end) = range(list, row);
            places.extend((start..end).filter(|at| keep(row, *at)).map(|at| (0, at)));
        }
        lengths.push(places.len() - before);
    }
    of_places(call, &[list.values().as_ref()], places, lengths, list.nulls().cloned())
}

fn size(call: &Call<'_>) -> Result<ArrayRef> {
    let column = &call.args[0];
    let length = |row: usize| -> Result<Option<i32>> {
        if column.is_null(row) || *column.data_type() == DataType::Null {
            return Ok(None);
        }
        match column.data_type() {
            DataType::List(_) => Ok(Some(column.as_list::<i32>().value_length(row))),
            DataType::Map(..) => Ok(Some(column.as_map().value_length(row))),
            other => Err(unexpected_type("size", "an array or a map", other)),
        }
    };
    Ok(Arc::new((0..call.rows).map(length).collect::<Result<Int32Array>>()?))
}

/// Compares the elements of the first argument with the value of the second.
struct Equal {
    compare: arrow::array::DynComparator,
    values: ArrayRef,
    wanted: ArrayRef,
}

impl Equal {
    fn new(call: &Call<'_>) -> Result<Self> {
        let list = list(call, 0)?;
        let item = list.value_type();
        let Some(common) =
            crate::functions::arithmetic::common_type(&item, call.args[1].data_type())
        else {
            let types = [&item, call.args[1].data_type()];
            return Err(crate::functions::error::mismatch(call.name, &types));
        };
        let values = cast_array(list.values(), &common, CastMode::Ansi, call.zone)?;
        let wanted = cast_array(&call.args[1], &common, CastMode::Ansi, call.zone)?;
        let compare = make_comparator(&values, &wanted, SortOptions::default())?;
        Ok(Self { compare, values, wanted })
    }

    fn is_null(&self, row: usize) -> bool {
        self.wanted.is_null(row)
    }

    fn at(&self, row: usize, at: usize) -> bool {
        self.values.is_valid(at) && (self.compare)(at, row).is_eq()
    }
}

/// Null if the value is not found but an element is null.
fn contains(call: &Call<'_>) -> Result<ArrayRef> {
    let (list, equal) = (list(call, 0)?, Equal::new(call)?);
    let mut found = BooleanBuilder::with_capacity(call.rows);
    for row in 0..call.rows {
        if list.is_null(row) || equal.is_null(row) {
            found.append_null();
            continue;
        }
        let (start, end) = range(list, row);
        if (start..end).any(|at| equal.at(row, at)) {
            found.append_value(true);
        } else if (start..end).any(|at| equal.values.is_null(at)) {
            found.append_null();
        } else {
            found.append_value(false);
        }
    }
    Ok(Arc::new(found.finish()))
}

/// From 1; 0 if there is none.
fn position(call: &Call<'_>) -> Result<ArrayRef> {
    let (list, equal) = (list(call, 0)?, Equal::new(call)?);
    let one = |row: usize| -> Option<i64> {
        if list.is_null(row) || equal.is_null(row) {
            return None;
        }
        let (start, end) = range(list, row);
        let found = (start..end).position(|at| equal.at(row, at));
        Some(found.map_or(0, |at| at as i64 + 1))
    };
    Ok(Arc::new((0..call.rows).map(one).collect::<Int64Array>()))
}

/// Elements as text with something between them; nulls are left out or replaced.
fn join(call: &Call<'_>) -> Result<ArrayRef> {
    let list = list(call, 0)?;
    let texts = cast_array(list.values(), &DataType::Utf8, CastMode::Ansi, call.zone)?;
    let texts = texts.as_string::<i32>();
    let between = call.text(1);
    let instead = (call.count() == 3).then(|| call.text(2));
    let one = |row: usize| -> Option<String> {
        if list.is_null(row) || between.is_null(row) || instead.is_some_and(|t| t.is_null(row)) {
            return None;
        }
        let (start, end) = range(list, row);
        let part = |at: usize| match instead {
            _ if texts.is_valid(at) => Some(texts.value(at)),
            Some(instead) => Some(instead.value(row)),
            None => None,
        };
        Some((start..end).filter_map(part).collect::<Vec<_>>().join(between.value(row)))
    };
    Ok(Arc::new((0..call.rows).map(one).collect::<StringArray>()))
}

/// Null if one of the inner arrays is.
fn flatten(call: &Call<'_>) -> Result<ArrayRef> {
    let outer = list(call, 0)?;
    let Some(inner) = outer.values().as_list_opt::<i32>() else {
        return Err(unexpected_type("flatten", "an array of arrays", outer.data_type()));
    };
    let (mut places, mut lengths) = (Vec::new(), Vec::with_capacity(outer.len()));
    let mut valid = Vec::with_capacity(outer.len());
    for row in 0..outer.len() {
        let before = places.len();
        let (start, end) = range(outer, row);
        let known = outer.is_valid(row) && (start..end).all(|at| inner.is_valid(at));
        valid.push(known);
        if known {
            for at in start..end {
                let (first, last) = range(inner, at);
                places.extend((first..last).map(|at| (0, at)));
            }
        }
        lengths.push(places.len() - before);
    }
    let nulls = Some(NullBuffer::from(valid));
    of_places(call, &[inner.values().as_ref()], places, lengths, nulls)
}

/// Null if one of them is.
fn concat(call: &Call<'_>) -> Result<ArrayRef> {
    let lists: Vec<ListArray> = (0..call.count())
        .map(|i| {
            let array = cast_array(&call.args[i], call.result, CastMode::Ansi, call.zone)?;
            Ok(array.as_list::<i32>().clone())
        })
        .collect::<Result<_>>()?;
    let (mut places, mut lengths) = (Vec::new(), Vec::with_capacity(call.rows));
    let mut valid = Vec::with_capacity(call.rows);
    for row in 0..call.rows {
        let before = places.len();
        let known = lists.iter().all(|list| list.is_valid(row));
        valid.push(known);
        if known {
            for (i, list) in lists.iter().enumerate() {
                let (start, end) = range(list, row);
                places.extend((start..end).map(|at| (i, at)));
            }
        }
        lengths.push(places.len() - before);
    }
    let values: Vec<&dyn Array> = lists.iter().map(|list| list.values().as_ref()).collect();
    of_places(call, &values, places, lengths, Some(NullBuffer::from(valid)))
}

/// The field of an array's elements.
pub(super) fn item_of(t: &DataType) -> Option<&Arc<Field>> {
    match t {
        DataType::List(item) => Some(item),
        _ => None,
    }
}
