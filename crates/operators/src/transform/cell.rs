//! Values between Rust and Arrow: one cell of a column, read or written.

use super::column::ColumnWriter;
use arrow::array::{
    Array, ArrowPrimitiveType, AsArray, BinaryBuilder, BooleanBuilder, PrimitiveBuilder,
    StringBuilder,
};
use arrow::datatypes::{
    DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion_common::ScalarValue;
use fluvial_core::{Error, EventTime, Result};

/// What one cell of a column can be read as.
pub trait ReadCell<'a>: Sized {
    /// The value at `row`.
    ///
    /// # Errors
    ///
    /// `Invalid` if the column has another type, or the value is null: read what may be null as
    /// an [`Option`].
    fn read(column: &'a dyn Array, row: usize) -> Result<Self>;
}

/// What can be written as one cell of a column.
pub trait WriteCell {
    /// Appends the value.
    ///
    /// # Errors
    ///
    /// `Invalid` if the column has another type.
    fn write(&self, column: &mut ColumnWriter) -> Result<()>;

    /// Appends a null where such a value would stand.
    ///
    /// # Errors
    ///
    /// `Invalid` if the column has another type.
    fn write_null(column: &mut ColumnWriter) -> Result<()>
    where
        Self: Sized,
    {
        column.append_null()
    }
}

/// An owned value with one Arrow type: what a column of a state variable can hold. Implemented
/// for numbers, `bool`, `String`, `Vec<u8>`, [`EventTime`] and options of them.
pub trait Cell: for<'a> ReadCell<'a> + WriteCell + Clone + Send + Sync + 'static {
    /// Its Arrow type.
    fn data_type() -> DataType;
}

fn other_type(column: &dyn Array, wanted: &str) -> Error {
    Error::invalid(format!("the column is {}, it cannot be read as {wanted}", column.data_type()))
}

fn not_null(column: &dyn Array, row: usize) -> Result<()> {
    if column.is_null(row) {
        return Err(Error::invalid("the value is null: read it as an Option"));
    }
    Ok(())
}

fn primitive<T: ArrowPrimitiveType>(
    column: &dyn Array,
    row: usize,
    wanted: &str,
) -> Result<T::Native> {
    not_null(column, row)?;
    let values = column.as_primitive_opt::<T>().ok_or_else(|| other_type(column, wanted))?;
    Ok(values.value(row))
}

macro_rules! numbers {
    ($($rust:ty, $arrow:ty, $data_type:ident;)*) => {
        $(
            impl ReadCell<'_> for $rust {
                fn read(column: &dyn Array, row: usize) -> Result<Self> {
                    primitive::<$arrow>(column, row, stringify!($rust))
                }
            }

            impl WriteCell for $rust {
                fn write(&self, column: &mut ColumnWriter) -> Result<()> {
                    match column.flat::<PrimitiveBuilder<$arrow>>() {
                        Some(builder) => {
                            builder.append_value(*self);
                            Ok(())
                        }
                        None => column.append_scalar(ScalarValue::from(*self)),
                    }
                }
            }

            impl Cell for $rust {
                fn data_type() -> DataType {
                    DataType::$data_type
                }
            }
        )*
    };
}

numbers! {
    i8, Int8Type, Int8;
    i16, Int16Type, Int16;
    i32, Int32Type, Int32;
    i64, Int64Type, Int64;
    u8, UInt8Type, UInt8;
    u16, UInt16Type, UInt16;
    u32, UInt32Type, UInt32;
    u64, UInt64Type, UInt64;
    f32, Float32Type, Float32;
    f64, Float64Type, Float64;
}

impl ReadCell<'_> for bool {
    fn read(column: &dyn Array, row: usize) -> Result<Self> {
        not_null(column, row)?;
        let values = column.as_boolean_opt().ok_or_else(|| other_type(column, "bool"))?;
        Ok(values.value(row))
    }
}

impl WriteCell for bool {
    fn write(&self, column: &mut ColumnWriter) -> Result<()> {
        match column.flat::<BooleanBuilder>() {
            Some(builder) => {
                builder.append_value(*self);
                Ok(())
            }
            None => column.append_scalar(ScalarValue::from(*self)),
        }
    }
}

impl Cell for bool {
    fn data_type() -> DataType {
        DataType::Boolean
    }
}

impl<'a> ReadCell<'a> for &'a str {
    fn read(column: &'a dyn Array, row: usize) -> Result<Self> {
        not_null(column, row)?;
        match column.data_type() {
            DataType::Utf8 => Ok(column.as_string::<i32>().value(row)),
            DataType::LargeUtf8 => Ok(column.as_string::<i64>().value(row)),
            DataType::Utf8View => Ok(column.as_string_view().value(row)),
            _ => Err(other_type(column, "text")),
        }
    }
}

impl WriteCell for &str {
    fn write(&self, column: &mut ColumnWriter) -> Result<()> {
        match column.flat::<StringBuilder>() {
            Some(builder) => {
                builder.append_value(self);
                Ok(())
            }
            None => column.append_scalar(ScalarValue::from(*self)),
        }
    }
}

impl ReadCell<'_> for String {
    fn read(column: &dyn Array, row: usize) -> Result<Self> {
        <&str>::read(column, row).map(str::to_owned)
    }
}

impl WriteCell for String {
    fn write(&self, column: &mut ColumnWriter) -> Result<()> {
        self.as_str().write(column)
    }
}

impl Cell for String {
    fn data_type() -> DataType {
        DataType::Utf8
    }
}

impl<'a> ReadCell<'a> for &'a [u8] {
    fn read(column: &'a dyn Array, row: usize) -> Result<Self> {
        not_null(column, row)?;
        match column.data_type() {
            DataType::Binary => Ok(column.as_binary::<i32>().value(row)),
            DataType::LargeBinary => Ok(column.as_binary::<i64>().value(row)),
            DataType::BinaryView => Ok(column.as_binary_view().value(row)),
            _ => Err(other_type(column, "bytes")),
        }
    }
}

impl WriteCell for &[u8] {
    fn write(&self, column: &mut ColumnWriter) -> Result<()> {
        match column.flat::<BinaryBuilder>() {
            Some(builder) => {
                builder.append_value(self);
                Ok(())
            }
            None => column.append_scalar(ScalarValue::Binary(Some(self.to_vec()))),
        }
    }
}

impl ReadCell<'_> for Vec<u8> {
    fn read(column: &dyn Array, row: usize) -> Result<Self> {
        <&[u8]>::read(column, row).map(<[u8]>::to_vec)
    }
}

impl WriteCell for Vec<u8> {
    fn write(&self, column: &mut ColumnWriter) -> Result<()> {
        self.as_slice().write(column)
    }
}

impl Cell for Vec<u8> {
    fn data_type() -> DataType {
        DataType::Binary
    }
}

impl ReadCell<'_> for EventTime {
    fn read(column: &dyn Array, row: usize) -> Result<Self> {
        primitive::<TimestampMicrosecondType>(column, row, "an event time").map(Self)
    }
}

impl WriteCell for EventTime {
    fn write(&self, column: &mut ColumnWriter) -> Result<()> {
        match column.flat::<PrimitiveBuilder<TimestampMicrosecondType>>() {
            Some(builder) => {
                builder.append_value(self.0);
                Ok(())
            }
            None => column.append_scalar(ScalarValue::TimestampMicrosecond(Some(self.0), None)),
        }
    }
}

impl Cell for EventTime {
    fn data_type() -> DataType {
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
    }
}

impl<'a, T: ReadCell<'a>> ReadCell<'a> for Option<T> {
    fn read(column: &'a dyn Array, row: usize) -> Result<Self> {
        if column.is_null(row) {
            return Ok(None);
        }
        T::read(column, row).map(Some)
    }
}

impl<T: WriteCell> WriteCell for Option<T> {
    fn write(&self, column: &mut ColumnWriter) -> Result<()> {
        match self {
            Some(value) => value.write(column),
            None => T::write_null(column),
        }
    }
}

impl<T: Cell> Cell for Option<T> {
    fn data_type() -> DataType {
        T::data_type()
    }
}

/// A value of any type.
impl ReadCell<'_> for ScalarValue {
    fn read(column: &dyn Array, row: usize) -> Result<Self> {
        Self::try_from_array(column, row).map_err(crate::error::from_datafusion)
    }
}

impl WriteCell for ScalarValue {
    fn write(&self, column: &mut ColumnWriter) -> Result<()> {
        match self {
            Self::Boolean(value) => value.write(column),
            Self::Int8(value) => value.write(column),
            Self::Int16(value) => value.write(column),
            Self::Int32(value) => value.write(column),
            Self::Int64(value) => value.write(column),
            Self::UInt8(value) => value.write(column),
            Self::UInt16(value) => value.write(column),
            Self::UInt32(value) => value.write(column),
            Self::UInt64(value) => value.write(column),
            Self::Float32(value) => value.write(column),
            Self::Float64(value) => value.write(column),
            Self::Utf8(value) => value.as_deref().write(column),
            Self::Binary(value) => value.as_deref().write(column),
            Self::TimestampMicrosecond(value, _) => value.map(EventTime).write(column),
            other => column.append_scalar(other.clone()),
        }
    }
}
