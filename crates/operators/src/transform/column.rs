//! `ColumnWriter`: a column that is written cell by cell.

use super::cell::WriteCell;
use arrow::array::{
    Array, ArrayBuilder, ArrayRef, BinaryBuilder, BooleanBuilder, PrimitiveBuilder, StringBuilder,
    make_builder, new_empty_array,
};
use arrow::compute::{cast, concat};
use arrow::datatypes::{
    DataType, FieldRef, Fields, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimeUnit, TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use datafusion_common::ScalarValue;
use fluvial_core::{Error, Result};

/// A column that is written cell by cell: plain types into a builder, all others as scalars.
pub struct ColumnWriter {
    field: FieldRef,
    values: Values,
}

enum Values {
    Flat(Box<dyn ArrayBuilder>),
    Scalars(Vec<ScalarValue>),
}

impl ColumnWriter {
    /// An empty column.
    pub(super) fn new(field: FieldRef) -> Self {
        let values = match field.data_type() {
            flat @ (DataType::Boolean
            | DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt8
            | DataType::UInt16
            | DataType::UInt32
            | DataType::UInt64
            | DataType::Float32
            | DataType::Float64
            | DataType::Utf8
            | DataType::Binary
            | DataType::Timestamp(TimeUnit::Microsecond, _)) => Values::Flat(make_builder(flat, 0)),
            _ => Values::Scalars(Vec::new()),
        };
        Self { field, values }
    }

    /// Columns for all of these fields.
    pub(super) fn all(fields: &Fields) -> Vec<Self> {
        fields.iter().cloned().map(Self::new).collect()
    }

    /// Its name and type.
    pub fn field(&self) -> &FieldRef {
        &self.field
    }

    /// The builder, if it is of this type.
    pub(super) fn flat<B: ArrayBuilder>(&mut self) -> Option<&mut B> {
        match &mut self.values {
            Values::Flat(builder) => builder.as_any_mut().downcast_mut(),
            Values::Scalars(_) => None,
        }
    }

    /// Appends a value of any type that the column's may hold.
    pub(super) fn append_scalar(&mut self, value: ScalarValue) -> Result<()> {
        let declared = self.field.data_type();
        let Values::Scalars(scalars) = &mut self.values else {
            if !widens(&value.data_type(), declared) {
                return Err(self.refused(&value.data_type()));
            }
            let wide = value.cast_to(declared).map_err(crate::error::from_datafusion)?;
            return wide.write(self);
        };
        let value = if value.data_type() == *declared {
            value
        } else if value.is_null() {
            ScalarValue::try_from(declared).map_err(crate::error::from_datafusion)?
        } else if related(&value.data_type(), declared) {
            value.cast_to(declared).map_err(crate::error::from_datafusion)?
        } else {
            return Err(self.refused(&value.data_type()));
        };
        scalars.push(value);
        Ok(())
    }

    fn refused(&self, given: &DataType) -> Error {
        let (name, declared) = (self.field.name(), self.field.data_type());
        Error::invalid(format!("column {name} is {declared}: it takes no {given}"))
            .with_condition("DATATYPE_MISMATCH")
    }

    /// Appends a null, whatever the type.
    pub(super) fn append_null(&mut self) -> Result<()> {
        let data_type = self.field.data_type();
        let builder = match &mut self.values {
            Values::Scalars(scalars) => {
                let null = ScalarValue::try_from(data_type);
                scalars.push(null.map_err(crate::error::from_datafusion)?);
                return Ok(());
            }
            Values::Flat(builder) => builder.as_any_mut(),
        };
        macro_rules! null_of {
            ($($builder:ty),*) => {
                $(if let Some(builder) = builder.downcast_mut::<$builder>() {
                    builder.append_null();
                    return Ok(());
                })*
            };
        }
        null_of!(
            PrimitiveBuilder<Int64Type>,
            StringBuilder,
            PrimitiveBuilder<TimestampMicrosecondType>,
            PrimitiveBuilder<Float64Type>,
            BooleanBuilder,
            PrimitiveBuilder<Int32Type>,
            PrimitiveBuilder<Float32Type>,
            PrimitiveBuilder<Int16Type>,
            PrimitiveBuilder<Int8Type>,
            PrimitiveBuilder<UInt64Type>,
            PrimitiveBuilder<UInt32Type>,
            PrimitiveBuilder<UInt16Type>,
            PrimitiveBuilder<UInt8Type>,
            BinaryBuilder
        );
        Err(Error::invalid(format!("column {} has no nulls", self.field.name())))
    }

    /// The column; the writer is empty then.
    pub(super) fn finish(&mut self) -> Result<ArrayRef> {
        let data_type = self.field.data_type();
        let column = match &mut self.values {
            Values::Flat(builder) => builder.finish(),
            Values::Scalars(scalars) => {
                let arrays = scalars.drain(..).map(|scalar| scalar.to_array());
                let arrays = arrays.collect::<Result<Vec<_>, _>>();
                let arrays = arrays.map_err(crate::error::from_datafusion)?;
                let parts: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
                if parts.is_empty() { new_empty_array(data_type) } else { concat(&parts)? }
            }
        };
        if column.data_type() == data_type { Ok(column) } else { Ok(cast(&column, data_type)?) }
    }
}

/// Whether every number of one type is a number of the other, which is wider.
fn widens(from: &DataType, to: &DataType) -> bool {
    use DataType::{Float32, Float64, Int8, Int16, Int32, Int64};
    matches!(
        (from, to),
        (Int8, Int16 | Int32 | Int64 | Float64)
            | (Int16, Int32 | Int64 | Float64)
            | (Int32, Int64 | Float64)
            | (Float32, Float64)
    )
}

/// Whether a value of one type is the same value in the other.
fn related(from: &DataType, to: &DataType) -> bool {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    match (from, to) {
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View)
        | (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView)
        | (DataType::Timestamp(..), DataType::Timestamp(..)) => true,
        // The names and nullability of what is inside may differ.
        _ => from.is_nested() && to.is_nested(),
    }
}
