//! The few shapes that the values of all types have.

use arrow::datatypes::DataType;

/// How the values of a plain type are laid out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Shape {
    /// Nothing: every value is null.
    Null,
    /// One byte, 0 or 1.
    Boolean,
    /// The bytes of numbers of these widths, little-endian: most types are one number, the
    /// intervals are several.
    Fixed(&'static [usize]),
    /// So many bytes.
    FixedBytes(usize),
    /// A length and bytes.
    Bytes,
    /// A number of items and the items.
    List(Box<Shape>),
    /// So many items.
    FixedList(Box<Shape>, usize),
    /// Flags and the fields.
    Struct(Vec<Shape>),
}

impl Shape {
    /// The shape of a plain type.
    pub(super) fn of(data_type: &DataType) -> Self {
        use arrow::datatypes::IntervalUnit::{DayTime, MonthDayNano};
        match data_type {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Boolean,
            DataType::FixedSizeBinary(size) => Self::FixedBytes(*size as usize),
            DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView => Self::Bytes,
            DataType::List(item) | DataType::LargeList(item) => {
                Self::List(Box::new(Self::of(item.data_type())))
            }
            DataType::FixedSizeList(item, size) => {
                Self::FixedList(Box::new(Self::of(item.data_type())), *size as usize)
            }
            DataType::Struct(fields) => {
                Self::Struct(fields.iter().map(|f| Self::of(f.data_type())).collect())
            }
            DataType::Interval(DayTime) => Self::Fixed(&[4, 4]),
            DataType::Interval(MonthDayNano) => Self::Fixed(&[4, 4, 8]),
            other => Self::Fixed(match other.primitive_width() {
                Some(1) => &[1],
                Some(2) => &[2],
                Some(4) => &[4],
                Some(8) => &[8],
                Some(16) => &[16],
                Some(32) => &[32],
                _ => unreachable!("plain types of other widths do not exist"),
            }),
        }
    }

    /// When a list of such items has flags. Items that may take no bytes always have them, so
    /// that the length of a list is bounded by its bytes.
    pub(super) fn list_flags(&self) -> Flags {
        if self.may_be_empty() { Flags::Always } else { Flags::IfNull }
    }

    /// Whether a value that is not null may take no bytes at all.
    fn may_be_empty(&self) -> bool {
        match self {
            Self::Null => true,
            Self::FixedBytes(size) => *size == 0,
            Self::FixedList(_, size) => *size == 0,
            Self::Struct(fields) => fields.is_empty(),
            Self::Boolean | Self::Fixed(_) | Self::Bytes | Self::List(_) => false,
        }
    }
}

/// When a list has flags for its items.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flags {
    /// If one of them is null.
    IfNull,
    /// Always.
    Always,
}

/// Bytes of so many flags.
pub(super) fn flag_bytes(flags: usize) -> usize {
    flags.div_ceil(8)
}
