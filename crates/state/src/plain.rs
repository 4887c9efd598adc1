//! The plain form of a column: what is left of a type when its many spellings are taken away.
//!
//! Dictionaries and runs are unpacked, list views are lists, a map is a list of entries, and
//! every nested field may be null. Two columns that mean the same have the same plain form, so
//! the codecs need to know few types only. In a *key* the plain form is also normal: -0.0 is
//! 0.0, there is one NaN, and a map's entries are sorted, at any depth.

use arrow::array::{
    Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait,
    StructArray, UInt32Array,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::compute::{cast, take};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Float16Type, Float32Type, Float64Type};
use arrow::row::{RowConverter, SortField};
use fluvial_core::{Error, Result};
use std::sync::Arc;

/// What the plain form is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Equal keys must become equal bytes.
    Key,
    /// Every bit comes back.
    Value,
}

/// The plain form of a type.
///
/// # Errors
///
/// `Invalid` for a type that state cannot hold.
pub(crate) fn plain_type(data_type: &DataType) -> Result<DataType> {
    Ok(match data_type {
        DataType::Dictionary(_, values) => plain_type(values)?,
        DataType::RunEndEncoded(_, values) => plain_type(values.data_type())?,
        DataType::List(item) | DataType::ListView(item) => DataType::List(plain_field(item)?),
        DataType::LargeList(item) | DataType::LargeListView(item) => {
            DataType::LargeList(plain_field(item)?)
        }
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(plain_field(item)?, *size),
        DataType::Map(entries, _) => DataType::List(plain_field(entries)?),
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(plain_field).collect::<Result<_>>()?)
        }
        DataType::Union(..) => {
            return Err(Error::invalid(format!(
                "a column of type {data_type} cannot be kept in state: cast it to a struct"
            )));
        }
        other => other.clone(),
    })
}

fn plain_field(field: &FieldRef) -> Result<FieldRef> {
    Ok(Arc::new(Field::new(field.name(), plain_type(field.data_type())?, true)))
}

/// Whether an array of this type may differ from its plain form.
fn differs(data_type: &DataType, purpose: Purpose) -> bool {
    let nested = |field: &FieldRef| !field.is_nullable() || differs(field.data_type(), purpose);
    match data_type {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => purpose == Purpose::Key,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            nested(item)
        }
        DataType::Struct(fields) => fields.iter().any(nested),
        DataType::Dictionary(..)
        | DataType::RunEndEncoded(..)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::Map(..) => true,
        _ => false,
    }
}

/// The plain form of a column.
pub(crate) fn to_plain(array: &ArrayRef, purpose: Purpose) -> Result<ArrayRef> {
    if !differs(array.data_type(), purpose) {
        return Ok(Arc::clone(array));
    }
    Ok(match array.data_type() {
        DataType::Float16 => {
            Arc::new(array.as_primitive::<Float16Type>().unary::<_, Float16Type>(|v| {
                if v.to_bits() << 1 == 0 {
                    Default::default()
                } else if v.is_nan() {
                    NAN_16
                } else {
                    v
                }
            }))
        }
        DataType::Float32 => {
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(|v| {
                if v == 0.0 {
                    0.0
                } else if v.is_nan() {
                    f32::from_bits(0x7FC0_0000)
                } else {
                    v
                }
            }))
        }
        DataType::Float64 => {
            Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(|v| {
                if v == 0.0 {
                    0.0
                } else if v.is_nan() {
                    f64::from_bits(0x7FF8_0000_0000_0000)
                } else {
                    v
                }
            }))
        }
        DataType::Dictionary(_, values) => to_plain(&cast(array, values)?, purpose)?,
        DataType::RunEndEncoded(_, values) => to_plain(&cast(array, values.data_type())?, purpose)?,
        DataType::ListView(item) => {
            to_plain(&cast(array, &DataType::List(Arc::clone(item)))?, purpose)?
        }
        DataType::LargeListView(item) => {
            to_plain(&cast(array, &DataType::LargeList(Arc::clone(item)))?, purpose)?
        }
        DataType::List(_) => Arc::new(plain_list(array.as_list::<i32>(), purpose)?),
        DataType::LargeList(_) => Arc::new(plain_list(array.as_list::<i64>(), purpose)?),
        DataType::FixedSizeList(item, size) => {
            let list = array.as_fixed_size_list();
            let values = to_plain(list.values(), purpose)?;
            let item = nullable(item, &values);
            let nulls = list.nulls().cloned();
            Arc::new(FixedSizeListArray::try_new_with_length(
                item,
                *size,
                values,
                nulls,
                list.len(),
            )?)
        }
        DataType::Map(..) => Arc::new(plain_map(array.as_map(), purpose)?),
        DataType::Struct(fields) => {
            let array = array.as_struct();
            let columns: Vec<ArrayRef> =
                array.columns().iter().map(|c| to_plain(c, purpose)).collect::<Result<_>>()?;
            let fields: Fields = fields.iter().zip(&columns).map(|(f, c)| nullable(f, c)).collect();
            let nulls = array.nulls().cloned();
            Arc::new(StructArray::try_new_with_length(fields, columns, nulls, array.len())?)
        }
        other => return Err(Error::invalid(format!("a column of type {other} has no plain form"))),
    })
}

/// One of the many bit patterns that are not a number.
const NAN_16: <Float16Type as arrow::datatypes::ArrowPrimitiveType>::Native =
    <Float16Type as arrow::datatypes::ArrowPrimitiveType>::Native::from_bits(0x7E00);

fn nullable(field: &FieldRef, values: &ArrayRef) -> FieldRef {
    Arc::new(Field::new(field.name(), values.data_type().clone(), true))
}

fn item_of(data_type: &DataType) -> Result<&FieldRef> {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => Ok(item),
        other => Err(Error::invalid(format!("{other} is not a list"))),
    }
}

/// The offsets of a possibly sliced list moved to start at zero, with where its values lie.
fn rebased<O: OffsetSizeTrait>(offsets: &[O]) -> (OffsetBuffer<O>, usize, usize) {
    let first = offsets[0];
    let shifted: ScalarBuffer<O> = offsets.iter().map(|o| *o - first).collect();
    let length = (offsets[offsets.len() - 1] - first).as_usize();
    (OffsetBuffer::new(shifted), first.as_usize(), length)
}

fn plain_list<O: OffsetSizeTrait>(
    list: &GenericListArray<O>,
    purpose: Purpose,
) -> Result<GenericListArray<O>> {
    let (offsets, start, length) = rebased(list.value_offsets());
    let values = to_plain(&list.values().slice(start, length), purpose)?;
    let item = nullable(item_of(list.data_type())?, &values);
    Ok(GenericListArray::try_new(item, offsets, values, list.nulls().cloned())?)
}

fn plain_map(map: &MapArray, purpose: Purpose) -> Result<GenericListArray<i32>> {
    let (offsets, start, length) = rebased(map.value_offsets());
    let entries: ArrayRef = Arc::new(map.entries().slice(start, length));
    let mut entries = to_plain(&entries, purpose)?;
    if purpose == Purpose::Key {
        entries = sorted_within(&entries, &offsets)?;
    }
    let item = nullable(item_of(map.data_type())?, &entries);
    Ok(GenericListArray::try_new(item, offsets, entries, map.nulls().cloned())?)
}

/// The entries with those of each map sorted: a map has no order, but bytes have.
fn sorted_within(entries: &ArrayRef, offsets: &OffsetBuffer<i32>) -> Result<ArrayRef> {
    let converter = RowConverter::new(vec![SortField::new(entries.data_type().clone())])?;
    let rows = converter.convert_columns(std::slice::from_ref(entries))?;
    let mut order: Vec<u32> = (0..entries.len() as u32).collect();
    for bounds in offsets.windows(2) {
        order[bounds[0] as usize..bounds[1] as usize]
            .sort_unstable_by(|a, b| rows.row(*a as usize).cmp(&rows.row(*b as usize)));
    }
    Ok(take(entries, &UInt32Array::from(order), None)?)
}

/// A plain column in its declared type again.
///
/// # Errors
///
/// `Corrupt` if the column cannot have come from that type.
pub(crate) fn from_plain(array: &ArrayRef, declared: &DataType) -> Result<ArrayRef> {
    restore(array, declared).map_err(|error| {
        Error::corrupt(format!("stored {} is not a {declared}", array.data_type()))
            .with_source(error)
    })
}

fn restore(array: &ArrayRef, declared: &DataType) -> Result<ArrayRef> {
    if array.data_type() == declared {
        return Ok(Arc::clone(array));
    }
    Ok(match declared {
        DataType::Dictionary(_, values) => cast(&restore(array, values)?, declared)?,
        DataType::RunEndEncoded(_, values) => cast(&restore(array, values.data_type())?, declared)?,
        DataType::ListView(item) => {
            cast(&restore(array, &DataType::List(Arc::clone(item)))?, declared)?
        }
        DataType::LargeListView(item) => {
            cast(&restore(array, &DataType::LargeList(Arc::clone(item)))?, declared)?
        }
        DataType::List(item) => Arc::new(list_of(array.as_list::<i32>(), item)?),
        DataType::LargeList(item) => Arc::new(list_of(array.as_list::<i64>(), item)?),
        DataType::FixedSizeList(item, size) => {
            let list = array.as_fixed_size_list();
            let values = restore(list.values(), item.data_type())?;
            Arc::new(FixedSizeListArray::try_new_with_length(
                Arc::clone(item),
                *size,
                values,
                list.nulls().cloned(),
                list.len(),
            )?)
        }
        DataType::Map(item, ordered) => {
            let list = array.as_list::<i32>();
            let entries = restore(list.values(), item.data_type())?;
            let entries = entries.as_struct().clone();
            let nulls = list.nulls().cloned();
            let offsets = list.offsets().clone();
            Arc::new(MapArray::try_new(Arc::clone(item), offsets, entries, nulls, *ordered)?)
        }
        DataType::Struct(fields) => {
            let array = array.as_struct();
            let columns: Vec<ArrayRef> = fields
                .iter()
                .zip(array.columns())
                .map(|(field, column)| restore(column, field.data_type()))
                .collect::<Result<_>>()?;
            let nulls = array.nulls().cloned();
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, array.len())?)
        }
        other => cast(array, other)?,
    })
}

fn list_of<O: OffsetSizeTrait>(
    list: &GenericListArray<O>,
    item: &FieldRef,
) -> Result<GenericListArray<O>> {
    let values = restore(list.values(), item.data_type())?;
    let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
    Ok(GenericListArray::try_new(Arc::clone(item), offsets, values, nulls)?)
}
