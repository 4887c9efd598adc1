//! Typed columns under construction, that can be cut back.
//!
//! Arrow's own builders only grow. A reader of text finds out late that a row is malformed, and
//! then takes back what it appended: hence [`Column::truncate`].

mod values;

pub(crate) use values::{Bits, Bytes, MAX_BYTES, Numbers};

use crate::text::pattern::{Pattern, Times};
use crate::text::timestamp::Reading;
use arrow::array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType,
};
use arrow::array::{
    ArrayRef, BinaryArray, ListArray, MapArray, NullArray, NullBufferBuilder, StructArray,
};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};
use fluvial_core::{Error, Result, ddl::ddl_name};
use std::sync::Arc;

/// A column under construction.
#[derive(Debug)]
pub(crate) enum Column {
    Void(usize),
    Boolean(Bits),
    Int8(Numbers<Int8Type>),
    Int16(Numbers<Int16Type>),
    Int32(Numbers<Int32Type>),
    Int64(Numbers<Int64Type>),
    Float32(Numbers<Float32Type>),
    Float64(Numbers<Float64Type>),
    Decimal(Numbers<Decimal128Type>, u8, i8),
    /// With the form that the user gave.
    Date(Numbers<Date32Type>, Option<Arc<Pattern>>),
    Timestamp(Numbers<TimestampMicrosecondType>, Reading, Option<Arc<Pattern>>),
    Utf8(Bytes),
    Binary(Bytes),
    List(Box<List>),
    Struct(Box<Struct>),
    Map(Box<Map>),
}

/// Lists of one kind of items.
#[derive(Debug)]
pub(crate) struct List {
    field: FieldRef,
    offsets: Vec<i32>,
    nulls: NullBufferBuilder,
    pub(crate) items: Column,
}

/// Structures; every child has as many values as there are rows.
#[derive(Debug)]
pub(crate) struct Struct {
    fields: Fields,
    nulls: NullBufferBuilder,
    pub(crate) children: Vec<Column>,
}

/// Maps with keys that are texts.
#[derive(Debug)]
pub(crate) struct Map {
    entries: FieldRef,
    fields: Fields,
    offsets: Vec<i32>,
    nulls: NullBufferBuilder,
    pub(crate) keys: Bytes,
    pub(crate) values: Column,
}

impl List {
    /// Makes a list of the items appended since the last one.
    pub(crate) fn close(&mut self) {
        self.offsets.push(self.items.len() as i32);
        self.nulls.append_non_null();
    }
}

impl Struct {
    /// Makes a row of the values appended to the children.
    pub(crate) fn close(&mut self) {
        self.nulls.append_non_null();
    }
}

impl Map {
    /// Makes a map of the entries appended since the last one.
    pub(crate) fn close(&mut self) {
        self.offsets.push(self.values.len() as i32);
        self.nulls.append_non_null();
    }
}

/// Does `$do` with whatever array of numbers `$column` holds, `$else` otherwise.
macro_rules! with_numbers {
    ($column:expr, $numbers:ident => $do:expr, $($other:tt)*) => {
        match $column {
            Column::Int8($numbers) => $do,
            Column::Int16($numbers) => $do,
            Column::Int32($numbers) => $do,
            Column::Int64($numbers) => $do,
            Column::Float32($numbers) => $do,
            Column::Float64($numbers) => $do,
            Column::Decimal($numbers, ..) => $do,
            Column::Date($numbers, _) => $do,
            Column::Timestamp($numbers, ..) => $do,
            $($other)*
        }
    };
}

impl Column {
    /// An empty column of a type, of values written as `times` says.
    ///
    /// # Errors
    ///
    /// `Invalid` (`UNSUPPORTED_DATATYPE`) if text formats have no such values.
    pub(crate) fn new(data_type: &DataType, times: &Times) -> Result<Self> {
        let nulls = || NullBufferBuilder::new(0);
        Ok(match data_type {
            DataType::Null => Self::Void(0),
            DataType::Boolean => Self::Boolean(Bits::new()),
            DataType::Int8 => Self::Int8(Numbers::new()),
            DataType::Int16 => Self::Int16(Numbers::new()),
            DataType::Int32 => Self::Int32(Numbers::new()),
            DataType::Int64 => Self::Int64(Numbers::new()),
            DataType::Float32 => Self::Float32(Numbers::new()),
            DataType::Float64 => Self::Float64(Numbers::new()),
            DataType::Decimal128(p, s) => Self::Decimal(Numbers::new(), *p, *s),
            DataType::Date32 => Self::Date(Numbers::new(), times.date.clone()),
            DataType::Timestamp(TimeUnit::Microsecond, utc) => match utc.as_deref() {
                None => Self::Timestamp(Numbers::new(), Reading::Local, times.local.clone()),
                Some("UTC" | "+00:00") => {
                    let reading = Reading::Instant(times.zone);
                    Self::Timestamp(Numbers::new(), reading, times.timestamp.clone())
                }
                Some(_) => return Err(unsupported(data_type)),
            },
            DataType::Utf8 => Self::Utf8(Bytes::new()),
            DataType::Binary => Self::Binary(Bytes::new()),
            DataType::List(field) => Self::List(Box::new(List {
                field: field.clone(),
                offsets: vec![0],
                nulls: nulls(),
                items: Self::new(field.data_type(), times)?,
            })),
            DataType::Struct(fields) => Self::Struct(Box::new(Struct {
                fields: fields.clone(),
                nulls: nulls(),
                children: columns(fields, times)?,
            })),
            DataType::Map(entries, _) => {
                Self::Map(Box::new(Self::new_map(data_type, entries, times)?))
            }
            _ => return Err(unsupported(data_type)),
        })
    }

    fn new_map(data_type: &DataType, entries: &FieldRef, times: &Times) -> Result<Map> {
        match entries.data_type() {
            DataType::Struct(fields)
                if fields.len() == 2 && *fields[0].data_type() == DataType::Utf8 =>
            {
                Ok(Map {
                    entries: entries.clone(),
                    fields: fields.clone(),
                    offsets: vec![0],
                    nulls: NullBufferBuilder::new(0),
                    keys: Bytes::new(),
                    values: Self::new(fields[1].data_type(), times)?,
                })
            }
            _ => Err(unsupported(data_type)),
        }
    }

    pub(crate) fn len(&self) -> usize {
        with_numbers!(self, numbers => numbers.len(),
            Self::Void(len) => *len,
            Self::Boolean(bits) => bits.len(),
            Self::Utf8(bytes) | Self::Binary(bytes) => bytes.len(),
            Self::List(list) => list.offsets.len() - 1,
            Self::Struct(fields) => fields.nulls.len(),
            Self::Map(map) => map.offsets.len() - 1,
        )
    }

    pub(crate) fn push_null(&mut self) {
        with_numbers!(self, numbers => numbers.push_null(),
            Self::Void(len) => *len += 1,
            Self::Boolean(bits) => bits.push_null(),
            Self::Utf8(bytes) | Self::Binary(bytes) => bytes.push_null(),
            Self::List(list) => {
                list.offsets.push(list.items.len() as i32);
                list.nulls.append_null();
            }
            Self::Struct(fields) => {
                fields.children.iter_mut().for_each(Self::push_null);
                fields.nulls.append_null();
            }
            Self::Map(map) => {
                map.offsets.push(map.values.len() as i32);
                map.nulls.append_null();
            }
        );
    }

    /// Takes back everything from value `len` on, whole or half appended.
    pub(crate) fn truncate(&mut self, len: usize) {
        with_numbers!(self, numbers => numbers.truncate(len),
            Self::Void(all) => *all = (*all).min(len),
            Self::Boolean(bits) => bits.truncate(len),
            Self::Utf8(bytes) | Self::Binary(bytes) => bytes.truncate(len),
            Self::List(list) => {
                list.offsets.truncate(len + 1);
                list.nulls.truncate(len);
                list.items.truncate(last(&list.offsets));
            }
            Self::Struct(fields) => {
                fields.children.iter_mut().for_each(|child| child.truncate(len));
                fields.nulls.truncate(len);
            }
            Self::Map(map) => {
                map.offsets.truncate(len + 1);
                map.nulls.truncate(len);
                map.keys.truncate(last(&map.offsets));
                map.values.truncate(last(&map.offsets));
            }
        );
    }

    /// The values so far, as an array; the column is empty then.
    ///
    /// # Errors
    ///
    /// `Invalid` if they do not fit the type: a null where the schema has none.
    pub(crate) fn finish(&mut self) -> Result<ArrayRef> {
        Ok(match self {
            Self::Void(len) => Arc::new(NullArray::new(std::mem::take(len))),
            Self::Boolean(bits) => Arc::new(bits.finish()),
            Self::Int8(numbers) => Arc::new(numbers.finish()),
            Self::Int16(numbers) => Arc::new(numbers.finish()),
            Self::Int32(numbers) => Arc::new(numbers.finish()),
            Self::Int64(numbers) => Arc::new(numbers.finish()),
            Self::Float32(numbers) => Arc::new(numbers.finish()),
            Self::Float64(numbers) => Arc::new(numbers.finish()),
            Self::Decimal(numbers, precision, scale) => {
                Arc::new(numbers.finish().with_precision_and_scale(*precision, *scale)?)
            }
            Self::Date(numbers, _) => Arc::new(numbers.finish()),
            Self::Timestamp(numbers, Reading::Instant(_), _) => {
                Arc::new(numbers.finish().with_timezone("UTC"))
            }
            Self::Timestamp(numbers, Reading::Local, _) => Arc::new(numbers.finish()),
            Self::Utf8(bytes) => Arc::new(bytes.finish_text()?),
            Self::Binary(bytes) => {
                let (offsets, values, nulls) = bytes.parts();
                Arc::new(BinaryArray::try_new(offsets, values, nulls)?)
            }
            Self::List(list) => {
                let offsets = take_offsets(&mut list.offsets);
                let items = list.items.finish()?;
                Arc::new(ListArray::try_new(
                    list.field.clone(),
                    offsets,
                    items,
                    list.nulls.finish(),
                )?)
            }
            Self::Struct(fields) => fields.finish()?,
            Self::Map(map) => {
                let offsets = take_offsets(&mut map.offsets);
                let entries: Vec<ArrayRef> =
                    vec![Arc::new(map.keys.finish_text()?), map.values.finish()?];
                let entries = StructArray::try_new(map.fields.clone(), entries, None)?;
                let nulls = map.nulls.finish();
                Arc::new(MapArray::try_new(map.entries.clone(), offsets, entries, nulls, false)?)
            }
        })
    }
}

impl Struct {
    fn finish(&mut self) -> Result<ArrayRef> {
        let len = self.nulls.len();
        let nulls = self.nulls.finish();
        let children = self.children.iter_mut().map(Column::finish).collect::<Result<Vec<_>>>()?;
        let fields = self.fields.clone();
        Ok(Arc::new(StructArray::try_new_with_length(fields, children, nulls, len)?))
    }
}

/// One empty column for each field.
pub(crate) fn columns(fields: &Fields, times: &Times) -> Result<Vec<Column>> {
    fields.iter().map(|field| new_for(field, times)).collect()
}

/// An empty column for a field.
///
/// # Errors
///
/// `Invalid` (`UNSUPPORTED_DATATYPE`), naming the field.
pub(crate) fn new_for(field: &Field, times: &Times) -> Result<Column> {
    Column::new(field.data_type(), times).map_err(|e| e.at(format!("column `{}`", field.name())))
}

fn unsupported(data_type: &DataType) -> Error {
    Error::invalid(format!("text formats have no values of type {}", ddl_name(data_type)))
        .with_condition("UNSUPPORTED_DATATYPE")
}

fn last(offsets: &[i32]) -> usize {
    offsets.last().map_or(0, |end| *end as usize)
}

fn take_offsets(offsets: &mut Vec<i32>) -> OffsetBuffer<i32> {
    OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(offsets, vec![0])))
}
