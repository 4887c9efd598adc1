//! Checks encoded key columns before they are decoded.
//!
//! The row format's own decoder trusts its input and panics on anything else. State bytes have
//! checksums, but a decoder must survive every input; so each row is walked once, by type,
//! before the decoder sees it.

use super::text::{self, EMPTY, FULL, NULL};
use arrow::datatypes::DataType;

const NULL_TYPE: [u8; 2] = [2, 3];

/// What is wrong with a row.
pub(crate) type Damage = &'static str;

/// Buffers that are used again and again, one for each level of nesting.
#[derive(Debug, Default)]
pub(crate) struct Scratch(Vec<Vec<u8>>);

impl Scratch {
    /// Lends an empty buffer.
    fn with<T>(&mut self, f: impl FnOnce(&mut Self, &mut Vec<u8>) -> T) -> T {
        let mut buffer = self.0.pop().unwrap_or_default();
        buffer.clear();
        let value = f(self, &mut buffer);
        self.0.push(buffer);
        value
    }
}

/// The checks for the columns of one kind of key.
#[derive(Debug)]
pub(crate) struct RowCheck {
    columns: Vec<Shape>,
}

#[derive(Debug)]
enum Shape {
    /// The one null of the null type.
    Null,
    /// A flag and two possible bytes.
    Boolean,
    /// A flag and so many bytes.
    Fixed(usize),
    /// Blocks of any bytes.
    Bytes,
    /// Blocks of UTF-8.
    Text,
    /// A flag, then so many items.
    FixedList(Box<Shape>, usize),
    /// Items in blocks.
    List(Box<Shape>),
    /// A flag, then the fields.
    Struct(Vec<Shape>),
}

impl RowCheck {
    /// Checks for columns of these plain types.
    pub(crate) fn new(types: &[DataType]) -> Self {
        Self { columns: types.iter().map(shape).collect() }
    }

    /// What follows the row that `bytes` begin with.
    pub(crate) fn after<'a>(
        &self,
        bytes: &'a [u8],
        scratch: &mut Scratch,
    ) -> Result<&'a [u8], Damage> {
        walk_all(&self.columns, bytes, scratch)
    }

    /// Checks that `row` is exactly one row.
    pub(crate) fn check(&self, row: &[u8], scratch: &mut Scratch) -> Result<(), Damage> {
        match walk_all(&self.columns, row, scratch)? {
            [] => Ok(()),
            _ => Err("there are bytes after the last column"),
        }
    }
}

/// Walks one value of each shape.
fn walk_all<'a>(
    shapes: &[Shape],
    mut row: &'a [u8],
    scratch: &mut Scratch,
) -> Result<&'a [u8], Damage> {
    for shape in shapes {
        row = shape.walk(row, scratch)?;
    }
    Ok(row)
}

fn shape(data_type: &DataType) -> Shape {
    match data_type {
        DataType::Null => Shape::Null,
        DataType::Boolean => Shape::Boolean,
        DataType::FixedSizeBinary(size) => Shape::Fixed(*size as usize),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Shape::Bytes,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Shape::Text,
        DataType::List(item) | DataType::LargeList(item) => {
            Shape::List(Box::new(shape(item.data_type())))
        }
        DataType::FixedSizeList(item, size) => {
            Shape::FixedList(Box::new(shape(item.data_type())), *size as usize)
        }
        DataType::Struct(fields) => {
            Shape::Struct(fields.iter().map(|f| shape(f.data_type())).collect())
        }
        other => Shape::Fixed(other.primitive_width().unwrap_or(0)),
    }
}

fn split(row: &[u8], length: usize) -> Result<(&[u8], &[u8]), Damage> {
    row.split_at_checked(length).ok_or("it is cut")
}

impl Shape {
    /// Checks one value and returns what follows it.
    fn walk<'a>(&self, row: &'a [u8], scratch: &mut Scratch) -> Result<&'a [u8], Damage> {
        match self {
            Self::Null => match split(row, 2)? {
                (value, rest) if value == NULL_TYPE => Ok(rest),
                _ => Err("a null is damaged"),
            },
            Self::Boolean => match split(row, 2)? {
                ([0, 0] | [1, 0 | 1], rest) => Ok(rest),
                _ => Err("a boolean is damaged"),
            },
            Self::Fixed(width) => {
                let (value, rest) = split(row, 1 + width)?;
                flag(value[0])?;
                Ok(rest)
            }
            Self::Bytes => text::take(row, |_| ()),
            Self::Text => scratch.with(|_, bytes| {
                let rest = text::take(row, |block| bytes.extend_from_slice(block))?;
                std::str::from_utf8(bytes).map_err(|_| "a text is not UTF-8")?;
                Ok(rest)
            }),
            Self::FixedList(item, size) => {
                let (value, mut rest) = split(row, 1)?;
                if flag(value[0])? {
                    for _ in 0..*size {
                        rest = item.walk(rest, scratch)?;
                    }
                }
                Ok(rest)
            }
            Self::List(item) => {
                scratch.with(|scratch, item_row| walk_list(item, row, scratch, item_row))
            }
            Self::Struct(fields) => {
                let (value, rest) = split(row, 1)?;
                flag(value[0])?;
                walk_all(fields, rest, scratch)
            }
        }
    }
}

fn walk_list<'a>(
    item: &Shape,
    row: &'a [u8],
    scratch: &mut Scratch,
    encoded: &mut Vec<u8>,
) -> Result<&'a [u8], Damage> {
    let mut rest = row;
    loop {
        match *rest.first().ok_or("a list is cut")? {
            EMPTY => return Ok(&rest[1..]),
            NULL if rest.len() == row.len() => return Ok(&rest[1..]),
            FULL => {}
            _ => return Err("a list is damaged"),
        }
        encoded.clear();
        rest = text::take(rest, |block| encoded.extend_from_slice(block))?;
        if !item.walk(encoded, scratch)?.is_empty() {
            return Err("an item of a list is too long");
        }
    }
}

/// Whether the flag says that there is a value.
fn flag(byte: u8) -> Result<bool, Damage> {
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err("a null flag is damaged"),
    }
}
