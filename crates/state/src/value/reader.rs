//! Reads values back into columns.
//!
//! Every length is checked against the bytes that are there before anything is allocated, so
//! arbitrary bytes give an error, never a panic and never more memory than a small multiple of
//! themselves.

use super::shape::{Flags, Shape, flag_bytes};
use super::{varint, writer};
use arrow::array::{
    ArrayData, ArrayRef, FixedSizeListArray, LargeBinaryArray, LargeListArray, LargeStringArray,
    ListArray, NullArray, StringArray, StructArray, make_array,
};
use arrow::array::{BinaryArray, BooleanArray};
use arrow::buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use fluvial_core::{Error, Result};
use std::sync::Arc;

/// What is wrong with a value.
pub(super) type Damage = &'static str;

const CUT: Damage = "it is cut";

/// One column being read row by row.
pub(super) struct Reader {
    valid: Vec<bool>,
    nulls: usize,
    values: Values,
}

enum Values {
    Null,
    Boolean(Vec<bool>),
    Fixed { bytes: MutableBuffer, width: usize, parts: &'static [usize] },
    FixedBytes { bytes: MutableBuffer, width: usize },
    Bytes { ends: Vec<i64>, bytes: MutableBuffer },
    List { ends: Vec<i64>, items: Box<Reader>, flags: Flags },
    FixedList { size: usize, items: Box<Reader> },
    Struct(Vec<Reader>),
}

impl Reader {
    /// A reader of values of this shape.
    pub(super) fn new(shape: &Shape) -> Self {
        let values = match shape {
            Shape::Null => Values::Null,
            Shape::Boolean => Values::Boolean(Vec::new()),
            Shape::Fixed(parts) => {
                Values::Fixed { bytes: MutableBuffer::new(0), width: parts.iter().sum(), parts }
            }
            Shape::FixedBytes(width) => {
                Values::FixedBytes { bytes: MutableBuffer::new(0), width: *width }
            }
            Shape::Bytes => Values::Bytes { ends: vec![0], bytes: MutableBuffer::new(0) },
            Shape::List(item) => Values::List {
                ends: vec![0],
                flags: item.list_flags(),
                items: Box::new(Self::new(item)),
            },
            Shape::FixedList(item, size) => {
                Values::FixedList { size: *size, items: Box::new(Self::new(item)) }
            }
            Shape::Struct(fields) => Values::Struct(fields.iter().map(Self::new).collect()),
        };
        Self { valid: Vec::new(), nulls: 0, values }
    }

    /// Adds a null.
    pub(super) fn push_null(&mut self) {
        self.valid.push(false);
        self.nulls += 1;
        match &mut self.values {
            Values::Null => {}
            Values::Boolean(values) => values.push(false),
            Values::Fixed { bytes, width, .. } | Values::FixedBytes { bytes, width } => {
                bytes.extend_zeros(*width);
            }
            Values::Bytes { ends, .. } | Values::List { ends, .. } => {
                ends.push(ends[ends.len() - 1]);
            }
            Values::FixedList { size, items } => (0..*size).for_each(|_| items.push_null()),
            Values::Struct(fields) => fields.iter_mut().for_each(Self::push_null),
        }
    }

    /// Takes one value that is not null off the front of `input`.
    fn read(&mut self, input: &mut &[u8]) -> Result<(), Damage> {
        match &mut self.values {
            Values::Null => return Err("a null has a value"),
            Values::Boolean(values) => values.push(match take(input, 1)? {
                [0] => false,
                [1] => true,
                _ => return Err("a boolean is damaged"),
            }),
            Values::Fixed { bytes, width, .. } | Values::FixedBytes { bytes, width } => {
                bytes.extend_from_slice(take(input, *width)?);
            }
            Values::Bytes { ends, bytes } => {
                let length = take_length(input)?;
                bytes.extend_from_slice(take(input, length)?);
                ends.push(bytes.len() as i64);
            }
            Values::List { ends, items, flags } => {
                let head = take_length(input)?;
                let length = head >> 1;
                match (head & 1, *flags) {
                    (1, _) => items.read_flagged(length, input)?,
                    (_, Flags::IfNull) => items.read_all(length, input)?,
                    (_, Flags::Always) => return Err("a list has no flags"),
                }
                ends.push(ends[ends.len() - 1] + length as i64);
            }
            Values::FixedList { size, items } => items.read_flagged(*size, input)?,
            Values::Struct(fields) => read_row(fields, input)?,
        }
        self.valid.push(true);
        Ok(())
    }

    /// Takes `length` values, none of them null, off the front of `input`.
    fn read_all(&mut self, length: usize, input: &mut &[u8]) -> Result<(), Damage> {
        if let Values::Fixed { bytes, width, .. } = &mut self.values {
            bytes.extend_from_slice(take(input, length.checked_mul(*width).ok_or(CUT)?)?);
            self.valid.resize(self.valid.len() + length, true);
            return Ok(());
        }
        // Each takes a byte at least, so a false length soon ends.
        (0..length).try_for_each(|_| self.read(input))
    }

    /// Takes `length` flags and the values that are there off the front of `input`.
    fn read_flagged(&mut self, length: usize, input: &mut &[u8]) -> Result<(), Damage> {
        let flags = take(input, flag_bytes(length))?;
        no_stray_flags(flags, length)?;
        for i in 0..length {
            match flags[i / 8] >> (i % 8) & 1 {
                0 => self.push_null(),
                _ => self.read(input)?,
            }
        }
        Ok(())
    }

    /// The column, as a plain type of the reader's shape.
    pub(super) fn finish(self, data_type: &DataType) -> Result<ArrayRef> {
        let length = self.valid.len();
        let nulls = (self.nulls > 0).then(|| NullBuffer::from(self.valid));
        Ok(match (self.values, data_type) {
            (Values::Null, _) => Arc::new(NullArray::new(length)),
            (Values::Boolean(values), _) => {
                Arc::new(BooleanArray::new(BooleanBuffer::from(values), nulls))
            }
            (Values::Fixed { mut bytes, parts, .. }, _) => {
                if cfg!(target_endian = "big") {
                    writer::swap(bytes.as_slice_mut(), parts);
                }
                from_buffer(data_type, length, bytes.into(), nulls)?
            }
            (Values::FixedBytes { bytes, .. }, _) => {
                from_buffer(data_type, length, bytes.into(), nulls)?
            }
            (Values::Bytes { ends, bytes }, _) => {
                bytes_array(data_type, ends, bytes.into(), nulls)?
            }
            (Values::List { ends, items, .. }, DataType::List(item)) => {
                let items = items.finish(item.data_type())?;
                let list = ListArray::try_new(item.clone(), small(ends)?, items, nulls)?;
                Arc::new(list)
            }
            (Values::List { ends, items, .. }, DataType::LargeList(item)) => {
                let items = items.finish(item.data_type())?;
                let list = LargeListArray::try_new(item.clone(), large(ends), items, nulls)?;
                Arc::new(list)
            }
            (Values::FixedList { items, .. }, DataType::FixedSizeList(item, size)) => {
                let items = items.finish(item.data_type())?;
                let item = item.clone();
                Arc::new(FixedSizeListArray::try_new_with_length(
                    item, *size, items, nulls, length,
                )?)
            }
            (Values::Struct(readers), DataType::Struct(fields)) => {
                let columns = readers
                    .into_iter()
                    .zip(fields)
                    .map(|(reader, field)| reader.finish(field.data_type()))
                    .collect::<Result<Vec<_>>>()?;
                let fields = fields.clone();
                Arc::new(StructArray::try_new_with_length(fields, columns, nulls, length)?)
            }
            (_, other) => return Err(Error::invalid(format!("{other} has another shape"))),
        })
    }
}

/// Takes one row of several columns off the front of `input`.
pub(super) fn read_row(columns: &mut [Reader], input: &mut &[u8]) -> Result<(), Damage> {
    let flags = take(input, flag_bytes(columns.len()))?;
    no_stray_flags(flags, columns.len())?;
    for (i, column) in columns.iter_mut().enumerate() {
        match flags[i / 8] >> (i % 8) & 1 {
            0 => column.push_null(),
            _ => column.read(input)?,
        }
    }
    Ok(())
}

fn take<'a>(input: &mut &'a [u8], length: usize) -> Result<&'a [u8], Damage> {
    let (front, rest) = input.split_at_checked(length).ok_or(CUT)?;
    *input = rest;
    Ok(front)
}

fn take_length(input: &mut &[u8]) -> Result<usize, Damage> {
    let length = varint::take(input).ok_or("a length is damaged")?;
    usize::try_from(length).map_err(|_| CUT)
}

fn no_stray_flags(flags: &[u8], length: usize) -> Result<(), Damage> {
    match flags.last() {
        Some(last) if !length.is_multiple_of(8) && last >> (length % 8) != 0 => {
            Err("flags are damaged")
        }
        _ => Ok(()),
    }
}

fn from_buffer(
    data_type: &DataType,
    length: usize,
    bytes: Buffer,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let data = ArrayData::builder(data_type.clone()).len(length).add_buffer(bytes).nulls(nulls);
    Ok(make_array(data.build()?))
}

fn large(ends: Vec<i64>) -> OffsetBuffer<i64> {
    OffsetBuffer::new(ScalarBuffer::from(ends))
}

fn small(ends: Vec<i64>) -> Result<OffsetBuffer<i32>> {
    if ends.last().is_some_and(|end| i32::try_from(*end).is_err()) {
        return Err(Error::invalid("the values of one call take more than 2 GiB: read fewer"));
    }
    let ends: Vec<i32> = ends.into_iter().map(|end| end as i32).collect();
    Ok(OffsetBuffer::new(ScalarBuffer::from(ends)))
}

fn bytes_array(
    data_type: &DataType,
    ends: Vec<i64>,
    bytes: Buffer,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    Ok(match data_type {
        DataType::Utf8 => Arc::new(StringArray::try_new(small(ends)?, bytes, nulls)?),
        DataType::LargeUtf8 => Arc::new(LargeStringArray::try_new(large(ends), bytes, nulls)?),
        DataType::Binary => Arc::new(BinaryArray::try_new(small(ends)?, bytes, nulls)?),
        DataType::LargeBinary => Arc::new(LargeBinaryArray::try_new(large(ends), bytes, nulls)?),
        DataType::Utf8View => {
            cast(&LargeStringArray::try_new(large(ends), bytes, nulls)?, data_type)?
        }
        other => cast(&LargeBinaryArray::try_new(large(ends), bytes, nulls)?, other)?,
    })
}
