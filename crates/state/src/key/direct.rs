//! Keys of whole numbers, times and texts: most keys. Their bytes are those of the row format,
//! written and read here without a detour over its rows.

use super::check::Damage;
use super::text;
use arrow::array::{Array, ArrayData, ArrayRef, AsArray, StringArray, StringViewArray, make_array};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use fluvial_core::{Error, Result};
use std::sync::Arc;

/// How the columns of a key are written.
#[derive(Debug)]
pub(crate) struct Direct {
    columns: Vec<Kind>,
}

#[derive(Debug, Clone)]
enum Kind {
    /// A flag, then the number, highest byte first; of signed ones the sign is turned over.
    Number { width: usize, signed: bool, data_type: DataType },
    /// As `text` has it.
    Text { data_type: DataType },
}

impl Direct {
    /// For columns of these plain types; `None` if one of them is anything else.
    pub(crate) fn new(types: &[DataType]) -> Option<Self> {
        let columns = types.iter().map(kind).collect::<Option<Vec<_>>>()?;
        (!columns.is_empty()).then_some(Self { columns })
    }

    /// The columns, which have these types, for writing.
    pub(crate) fn sources(&self, columns: &[ArrayRef]) -> Sources {
        let each = self.columns.iter().zip(columns);
        Sources(each.map(|(kind, column)| Source::of(kind, column)).collect())
    }

    /// Reads so many keys.
    pub(crate) fn reader(&self, rows: usize) -> Reader {
        Reader(self.columns.iter().map(|kind| Target::new(kind.clone(), rows)).collect())
    }
}

fn kind(data_type: &DataType) -> Option<Kind> {
    let signed = match data_type {
        DataType::Utf8 | DataType::Utf8View => {
            return Some(Kind::Text { data_type: data_type.clone() });
        }
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => false,
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_) => true,
        _ => return None,
    };
    let width = data_type.primitive_width()?;
    Some(Kind::Number { width, signed, data_type: data_type.clone() })
}

/// Columns that are written as keys.
pub(crate) struct Sources(Vec<Source>);

enum Source {
    Number { width: usize, signed: bool, values: Buffer, nulls: Option<NullBuffer> },
    Text(StringArray),
    View(StringViewArray),
}

impl Sources {
    /// Bytes of a row.
    pub(crate) fn length(&self, row: usize) -> usize {
        self.0.iter().map(|source| source.length(row)).sum()
    }

    /// Writes a row.
    pub(crate) fn put(&self, row: usize, out: &mut Vec<u8>) {
        self.0.iter().for_each(|source| source.put(row, out));
    }
}

impl Source {
    fn of(kind: &Kind, column: &ArrayRef) -> Self {
        match kind {
            Kind::Number { width, signed, .. } => {
                let data = column.to_data();
                let start = data.offset() * width;
                let values = data.buffers()[0].slice_with_length(start, data.len() * width);
                let nulls = column.nulls().cloned();
                Self::Number { width: *width, signed: *signed, values, nulls }
            }
            Kind::Text { data_type: DataType::Utf8View } => {
                Self::View(column.as_string_view().clone())
            }
            Kind::Text { .. } => Self::Text(column.as_string::<i32>().clone()),
        }
    }

    fn length(&self, row: usize) -> usize {
        match self {
            Self::Number { width, .. } => 1 + width,
            Self::Text(texts) => text::length(texts.is_valid(row).then(|| texts.value(row))),
            Self::View(texts) => text::length(texts.is_valid(row).then(|| texts.value(row))),
        }
    }

    fn put(&self, row: usize, out: &mut Vec<u8>) {
        match self {
            Self::Number { width, signed, values, nulls } => {
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    return out.resize(out.len() + 1 + width, 0);
                }
                out.push(1);
                let start = out.len();
                out.extend_from_slice(&values[row * width..(row + 1) * width]);
                turn(&mut out[start..], *signed, Turn::ToKey);
            }
            Self::Text(texts) => text::put(texts.is_valid(row).then(|| texts.value(row)), out),
            Self::View(texts) => text::put(texts.is_valid(row).then(|| texts.value(row)), out),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    ToKey,
    FromKey,
}

/// Turns a number of this machine into one of keys, and back.
fn turn(number: &mut [u8], signed: bool, way: Turn) {
    let sign = if signed { 0x80 } else { 0 };
    if way == Turn::FromKey {
        number[0] ^= sign;
    }
    if cfg!(target_endian = "little") {
        number.reverse();
    }
    if way == Turn::ToKey {
        number[0] ^= sign;
    }
}

/// Columns that are read from keys.
pub(crate) struct Reader(Vec<Target>);

struct Target {
    kind: Kind,
    bytes: Vec<u8>,
    /// Where each text ends.
    offsets: Vec<i32>,
    valid: Vec<bool>,
}

impl Reader {
    /// Takes a key, which is one row exactly.
    pub(crate) fn take(&mut self, mut key: &[u8]) -> std::result::Result<(), Damage> {
        for target in &mut self.0 {
            key = target.take(key)?;
        }
        if key.is_empty() { Ok(()) } else { Err("there are bytes after the last column") }
    }

    /// The columns.
    ///
    /// # Errors
    ///
    /// `Corrupt` for what is no text.
    pub(crate) fn finish(self) -> Result<Vec<ArrayRef>> {
        self.0.into_iter().map(Target::finish).collect()
    }
}

impl Target {
    fn new(kind: Kind, rows: usize) -> Self {
        let (bytes, offsets) = match &kind {
            Kind::Number { width, .. } => (Vec::with_capacity(width * rows), Vec::new()),
            Kind::Text { .. } => {
                let mut offsets = Vec::with_capacity(rows + 1);
                offsets.push(0);
                (Vec::new(), offsets)
            }
        };
        Self { kind, bytes, offsets, valid: Vec::with_capacity(rows) }
    }

    fn take<'k>(&mut self, key: &'k [u8]) -> std::result::Result<&'k [u8], Damage> {
        match &self.kind {
            Kind::Number { width, signed, .. } => {
                let (value, rest) = key.split_at_checked(1 + width).ok_or("it is cut")?;
                let start = self.bytes.len();
                match value[0] {
                    0 => {
                        self.bytes.resize(start + width, 0);
                        self.valid.push(false);
                    }
                    1 => {
                        self.bytes.extend_from_slice(&value[1..]);
                        turn(&mut self.bytes[start..], *signed, Turn::FromKey);
                        self.valid.push(true);
                    }
                    _ => return Err("a null flag is damaged"),
                }
                Ok(rest)
            }
            Kind::Text { .. } => {
                let bytes = &mut self.bytes;
                let rest = text::take(key, |block| bytes.extend_from_slice(block))?;
                self.valid.push(key[0] != text::NULL);
                let end = i32::try_from(self.bytes.len());
                self.offsets.push(end.map_err(|_| "texts of one read take over 2 GiB")?);
                Ok(rest)
            }
        }
    }

    fn finish(self) -> Result<ArrayRef> {
        let rows = self.valid.len();
        let nulls = Some(NullBuffer::from(self.valid)).filter(|nulls| nulls.null_count() > 0);
        let damaged =
            |error| Error::corrupt("state keys of a scan: a text is not UTF-8").with_source(error);
        match self.kind {
            Kind::Number { data_type, .. } => {
                let data = ArrayData::builder(data_type).len(rows).nulls(nulls);
                let data = data.add_buffer(Buffer::from_vec(self.bytes)).align_buffers(true);
                Ok(make_array(data.build()?))
            }
            Kind::Text { data_type } => {
                let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
                let bytes = Buffer::from_vec(self.bytes);
                let texts = StringArray::try_new(offsets, bytes, nulls).map_err(damaged)?;
                Ok(match data_type {
                    DataType::Utf8View => Arc::new(StringViewArray::from(&texts)),
                    _ => Arc::new(texts),
                })
            }
        }
    }
}
