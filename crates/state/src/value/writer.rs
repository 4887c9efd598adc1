//! Writes the values of columns.
//!
//! A column is looked at once, when its writer is made; writing a value is then a few moves.

use super::shape::{Flags, Shape, flag_bytes};
use super::varint;
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, BooleanArray, OffsetSizeTrait, StringViewArray,
    downcast_primitive_array,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    BinaryType, ByteArrayType, DataType, LargeBinaryType, LargeUtf8Type, Utf8Type,
};
use fluvial_core::{Error, Result};
use std::ops::Range;

/// One column, ready to be written row by row.
pub(super) struct Writer {
    nulls: Option<NullBuffer>,
    values: Values,
}

enum Values {
    Null,
    Boolean(BooleanArray),
    Fixed { bytes: Buffer, width: usize, parts: &'static [usize] },
    FixedBytes { bytes: Buffer, width: usize },
    Bytes { offsets: Offsets, bytes: Buffer },
    BinaryView(BinaryViewArray),
    TextView(StringViewArray),
    List { offsets: Offsets, items: Box<Writer>, flags: Flags },
    FixedList { size: usize, items: Box<Writer> },
    Struct(Vec<Writer>),
}

enum Offsets {
    Small(OffsetBuffer<i32>),
    Large(OffsetBuffer<i64>),
}

impl Offsets {
    fn range(&self, i: usize) -> Range<usize> {
        match self {
            Self::Small(offsets) => offsets[i] as usize..offsets[i + 1] as usize,
            Self::Large(offsets) => offsets[i] as usize..offsets[i + 1] as usize,
        }
    }
}

impl From<OffsetBuffer<i32>> for Offsets {
    fn from(offsets: OffsetBuffer<i32>) -> Self {
        Self::Small(offsets)
    }
}

impl From<OffsetBuffer<i64>> for Offsets {
    fn from(offsets: OffsetBuffer<i64>) -> Self {
        Self::Large(offsets)
    }
}

impl Writer {
    /// A writer of a plain column.
    pub(super) fn new(array: &ArrayRef) -> Result<Self> {
        let values = match array.data_type() {
            DataType::Null => Values::Null,
            DataType::Boolean => Values::Boolean(array.as_boolean().clone()),
            DataType::FixedSizeBinary(size) => Values::FixedBytes {
                bytes: array.as_fixed_size_binary().values().clone(),
                width: *size as usize,
            },
            DataType::Utf8 => bytes::<Utf8Type>(array),
            DataType::LargeUtf8 => bytes::<LargeUtf8Type>(array),
            DataType::Binary => bytes::<BinaryType>(array),
            DataType::LargeBinary => bytes::<LargeBinaryType>(array),
            DataType::BinaryView => Values::BinaryView(array.as_binary_view().clone()),
            DataType::Utf8View => Values::TextView(array.as_string_view().clone()),
            DataType::List(_) => list::<i32>(array)?,
            DataType::LargeList(_) => list::<i64>(array)?,
            DataType::FixedSizeList(_, size) => Values::FixedList {
                size: *size as usize,
                items: Box::new(Self::new(array.as_fixed_size_list().values())?),
            },
            DataType::Struct(_) => Values::Struct(
                array.as_struct().columns().iter().map(Self::new).collect::<Result<_>>()?,
            ),
            data_type => {
                let Shape::Fixed(parts) = Shape::of(data_type) else {
                    return Err(Error::invalid(format!("{data_type} cannot be a state value")));
                };
                Values::Fixed { bytes: fixed_bytes(array)?, width: parts.iter().sum(), parts }
            }
        };
        // The null type has no null buffer, but every value of it is null.
        let nulls = match &values {
            Values::Null => Some(NullBuffer::new_null(array.len())),
            _ => array.nulls().filter(|nulls| nulls.null_count() > 0).cloned(),
        };
        Ok(Self { nulls, values })
    }

    fn is_null(&self, i: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(i))
    }

    /// Writes value `i`, which is not null.
    fn write(&self, i: usize, out: &mut Vec<u8>) {
        match &self.values {
            Values::Null => {}
            Values::Boolean(array) => out.push(u8::from(array.value(i))),
            Values::Fixed { bytes, width, parts } => {
                little_endian(&bytes[i * width..(i + 1) * width], parts, out);
            }
            Values::FixedBytes { bytes, width } => {
                out.extend_from_slice(&bytes[i * width..(i + 1) * width]);
            }
            Values::Bytes { offsets, bytes } => put_bytes(&bytes[offsets.range(i)], out),
            Values::BinaryView(array) => put_bytes(array.value(i), out),
            Values::TextView(array) => put_bytes(array.value(i).as_bytes(), out),
            Values::List { offsets, items, flags } => {
                items.write_list(offsets.range(i), *flags, out);
            }
            Values::FixedList { size, items } => {
                let range = i * size..(i + 1) * size;
                items.write_flags(range.clone(), out);
                items.write_values(range, out);
            }
            Values::Struct(fields) => write_row(fields, i, out),
        }
    }

    fn write_list(&self, range: Range<usize>, flags: Flags, out: &mut Vec<u8>) {
        let flagged = match &self.nulls {
            Some(nulls) => flags == Flags::Always || range.clone().any(|i| nulls.is_null(i)),
            None => flags == Flags::Always,
        };
        varint::put(out, (range.len() as u64) << 1 | u64::from(flagged));
        if flagged {
            self.write_flags(range.clone(), out);
        }
        self.write_values(range, out);
    }

    /// Writes one bit for each value, set if it is there.
    fn write_flags(&self, range: Range<usize>, out: &mut Vec<u8>) {
        let at = out.len();
        out.resize(at + flag_bytes(range.len()), 0);
        for (bit, i) in range.enumerate() {
            out[at + bit / 8] |= u8::from(!self.is_null(i)) << (bit % 8);
        }
    }

    /// Writes the values that are there.
    fn write_values(&self, range: Range<usize>, out: &mut Vec<u8>) {
        match &self.values {
            // The state of a percentile is a list of a thousand numbers: one copy.
            Values::Fixed { bytes, width, .. }
                if self.nulls.is_none() && cfg!(target_endian = "little") =>
            {
                out.extend_from_slice(&bytes[range.start * width..range.end * width]);
            }
            _ => {
                for i in range {
                    if !self.is_null(i) {
                        self.write(i, out);
                    }
                }
            }
        }
    }
}

/// Writes row `i` of several columns: flags, then the values that are there.
pub(super) fn write_row(columns: &[Writer], i: usize, out: &mut Vec<u8>) {
    let at = out.len();
    out.resize(at + flag_bytes(columns.len()), 0);
    for (bit, column) in columns.iter().enumerate() {
        if !column.is_null(i) {
            out[at + bit / 8] |= 1 << (bit % 8);
            column.write(i, out);
        }
    }
}

fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    varint::put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Appends numbers of these widths as little-endian.
fn little_endian(bytes: &[u8], parts: &[usize], out: &mut Vec<u8>) {
    let at = out.len();
    out.extend_from_slice(bytes);
    if cfg!(target_endian = "big") {
        swap(&mut out[at..], parts);
    }
}

/// Turns the bytes of each number around.
pub(super) fn swap(mut bytes: &mut [u8], parts: &[usize]) {
    for part in parts.iter().cycle() {
        if bytes.is_empty() {
            break;
        }
        let (number, rest) = bytes.split_at_mut(*part);
        number.reverse();
        bytes = rest;
    }
}

fn fixed_bytes(array: &ArrayRef) -> Result<Buffer> {
    downcast_primitive_array! {
        array => Ok(array.values().inner().clone()),
        other => Err(Error::invalid(format!("{other} cannot be a state value"))),
    }
}

fn bytes<T: ByteArrayType>(array: &ArrayRef) -> Values
where
    Offsets: From<OffsetBuffer<T::Offset>>,
{
    let array = array.as_bytes::<T>();
    Values::Bytes { offsets: array.offsets().clone().into(), bytes: array.values().clone() }
}

fn list<O: OffsetSizeTrait>(array: &ArrayRef) -> Result<Values>
where
    Offsets: From<OffsetBuffer<O>>,
{
    let array = array.as_list::<O>();
    let items = Box::new(Writer::new(array.values())?);
    let flags = Shape::of(array.values().data_type()).list_flags();
    Ok(Values::List { offsets: array.offsets().clone().into(), items, flags })
}
