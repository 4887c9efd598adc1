//! Arrow types as Delta stores them, and which may be written into which.

use arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};
use fluvial_core::{Error, Result};
use std::sync::Arc;

/// Widest decimal that Delta has.
const PRECISION_MAX: u8 = 38;

/// The type as a new table has it.
///
/// # Errors
///
/// `Invalid` for types that Delta does not have.
pub(crate) fn delta_type(from: &DataType) -> Result<DataType> {
    use DataType as T;
    Ok(match from {
        T::Boolean | T::Int8 | T::Int16 | T::Int32 | T::Int64 => from.clone(),
        T::Float32 | T::Float64 | T::Date32 | T::Utf8 | T::Binary => from.clone(),
        T::UInt8 => T::Int16,
        T::UInt16 => T::Int32,
        T::UInt32 => T::Int64,
        T::UInt64 => T::Decimal128(20, 0),
        T::Float16 => T::Float32,
        T::Date64 => T::Date32,
        T::LargeUtf8 | T::Utf8View => T::Utf8,
        T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => T::Binary,
        T::Timestamp(_, Some(_)) => T::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
        T::Timestamp(_, None) => T::Timestamp(TimeUnit::Microsecond, None),
        T::Decimal32(p, s) | T::Decimal64(p, s) | T::Decimal128(p, s) | T::Decimal256(p, s)
            if *p <= PRECISION_MAX && *s >= 0 =>
        {
            T::Decimal128(*p, *s)
        }
        T::Dictionary(_, value) => delta_type(value)?,
        T::List(f) | T::LargeList(f) | T::ListView(f) | T::LargeListView(f) => list_of(f)?,
        T::FixedSizeList(f, _) => list_of(f)?,
        T::Struct(fields) => T::Struct(delta_fields(fields)?),
        T::Map(entries, _) => map_of(entries)?,
        other => {
            return Err(Error::invalid(format!("Delta has no type for {other}: cast it"))
                .with_condition("DELTA_UNSUPPORTED_DATA_TYPE"));
        }
    })
}

/// The fields as a new table has them: nullable, as Spark makes them.
pub(crate) fn delta_fields(fields: &Fields) -> Result<Fields> {
    let one = |field: &FieldRef| {
        let to = delta_type(field.data_type())
            .map_err(|e| e.at(format!("column {:?}", field.name())))?;
        Ok(Field::new(field.name(), to, true))
    };
    fields.iter().map(one).collect()
}

fn list_of(element: &FieldRef) -> Result<DataType> {
    let element = Field::new("element", delta_type(element.data_type())?, true);
    Ok(DataType::List(Arc::new(element)))
}

fn map_of(entries: &FieldRef) -> Result<DataType> {
    let DataType::Struct(fields) = entries.data_type() else {
        return Err(Error::invalid("a map's entries must be a struct"));
    };
    let [key, value] = fields.as_ref() else {
        return Err(Error::invalid("a map's entries must be a key and a value"));
    };
    let fields = Fields::from(vec![
        Field::new("key", delta_type(key.data_type())?, false),
        Field::new("value", delta_type(value.data_type())?, true),
    ]);
    let entries = Field::new("key_value", DataType::Struct(fields), false);
    Ok(DataType::Map(Arc::new(entries), false))
}

/// What stands between a column of a query and a column of the table.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Gap {
    /// Nothing: every value of the one is a value of the other.
    None,
    /// The table lacks the column, or a field inside it.
    New,
    /// The types do not fit.
    Types,
}

/// Whether values of `from`, a type as [`delta_type`] makes it, may be written into `to`.
pub(crate) fn gap(from: &DataType, to: &DataType) -> Gap {
    use DataType as T;
    match (from, to) {
        (T::Struct(from), T::Struct(to)) => {
            let each = |f: &FieldRef| match find(to, f.name()) {
                Some(i) => gap(f.data_type(), to[i].data_type()),
                None => Gap::New,
            };
            widest(from.iter().map(each))
        }
        (T::List(from), T::List(to)) => gap(from.data_type(), to.data_type()),
        (T::Map(from, _), T::Map(to, _)) => match (from.data_type(), to.data_type()) {
            (T::Struct(from), T::Struct(to)) => {
                let pairs = from.iter().zip(to);
                widest(pairs.map(|(from, to)| gap(from.data_type(), to.data_type())))
            }
            _ => Gap::Types,
        },
        (from, to) if from == to || widens(from, to) => Gap::None,
        _ => Gap::Types,
    }
}

fn widest(gaps: impl Iterator<Item = Gap>) -> Gap {
    gaps.fold(Gap::None, |all, one| match (all, one) {
        (Gap::Types, _) | (_, Gap::Types) => Gap::Types,
        (Gap::New, _) | (_, Gap::New) => Gap::New,
        (Gap::None, Gap::None) => Gap::None,
    })
}

/// Whether every value of `from` is exactly a value of `to`.
fn widens(from: &DataType, to: &DataType) -> bool {
    use DataType as T;
    match (from, to) {
        (T::Int8, T::Int16 | T::Int32 | T::Int64) => true,
        (T::Int16, T::Int32 | T::Int64) | (T::Int32, T::Int64) => true,
        (T::Float32, T::Float64) | (T::Int8 | T::Int16 | T::Int32, T::Float64) => true,
        (T::Decimal128(p, s), T::Decimal128(wide_p, wide_s)) => {
            wide_s >= s && i16::from(*wide_p) - i16::from(*wide_s) >= i16::from(*p) - i16::from(*s)
        }
        _ => false,
    }
}

/// The key of column metadata under which a column's name in files stands.
pub(crate) const PHYSICAL_NAME: &str = "delta.columnMapping.physicalName";

/// The name of a column in files.
pub(crate) fn physical_name(field: &Field) -> &str {
    field.metadata().get(PHYSICAL_NAME).map_or(field.name(), String::as_str)
}

/// Finds a field by name: exactly, or else without regard to case, as Delta does.
pub(crate) fn find(fields: &Fields, name: &str) -> Option<usize> {
    fields.iter().position(|f| f.name() == name).or_else(|| {
        let lower = name.to_lowercase();
        fields.iter().position(|f| f.name().to_lowercase() == lower)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lossless_writes_fit() {
        let decimal = DataType::Decimal128;
        for (from, to, fits) in [
            (DataType::Int32, DataType::Int64, true),
            (DataType::Int64, DataType::Int32, false),
            (DataType::Int64, DataType::Float64, false),
            (decimal(10, 2), decimal(12, 3), true),
            (decimal(10, 2), decimal(10, 3), false),
            (DataType::Utf8, DataType::Int64, false),
        ] {
            assert_eq!(gap(&from, &to) == Gap::None, fits, "{from} into {to}");
        }
    }

    #[test]
    fn new_fields_are_found_at_any_depth() {
        let nested = |names: &[&str]| {
            let field = |name: &&str| Field::new(*name, DataType::Int64, true);
            let inner = DataType::Struct(names.iter().map(field).collect());
            DataType::List(Arc::new(Field::new("element", inner, true)))
        };
        assert_eq!(gap(&nested(&["A"]), &nested(&["a", "b"])), Gap::None);
        assert_eq!(gap(&nested(&["a", "c"]), &nested(&["a", "b"])), Gap::New);
    }

    #[test]
    fn every_type_has_a_home_or_a_name_in_the_error() {
        assert_eq!(delta_type(&DataType::UInt64).unwrap(), DataType::Decimal128(20, 0));
        let error = delta_type(&DataType::Duration(TimeUnit::Second)).unwrap_err();
        assert_eq!(error.condition(), Some("DELTA_UNSUPPORTED_DATA_TYPE"));
        assert!(delta_type(&DataType::Decimal256(50, 0)).is_err());
    }
}
