//! Columns as a file has them, to the types that a schema asks for.
//!
//! Only what keeps every value is done: wider numbers, other encodings of the same thing. A
//! structure takes its fields by name, as the columns of a file are found.

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, FieldRef, Fields, TimeUnit};
use arrow::util::display::FormatOptions;
use fluvial_core::ddl::ddl_name;
use fluvial_core::{Error, NameCase, Result};
use std::sync::Arc;

/// What becomes of values that could change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Misfit {
    /// They are an error.
    Refused,
    /// They are null here: somebody else keeps them.
    Null,
}

/// How columns are made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Adapting {
    pub(super) misfit: Misfit,
    pub(super) case: NameCase,
}

/// Which field of a structure has a name: the same one, or if case does not matter, the first that
/// differs in case only.
pub(super) fn position(found: &Fields, name: &str, case: NameCase) -> Option<usize> {
    let exact = found.iter().position(|field| field.name() == name);
    exact.or_else(|| found.iter().position(|field| case.same(field.name(), name)))
}

/// Whether [`adapt`] keeps every value.
pub(super) fn fits(found: &DataType, wanted: &DataType, case: NameCase) -> bool {
    match (found, wanted) {
        _ if found == wanted => true,
        (DataType::Struct(found), DataType::Struct(wanted)) => wanted.iter().all(|field| {
            let same = position(found, field.name(), case);
            same.is_none_or(|same| fits(found[same].data_type(), field.data_type(), case))
        }),
        (DataType::List(found), DataType::List(wanted)) => {
            fits(found.data_type(), wanted.data_type(), case)
        }
        (DataType::Map(found, _), DataType::Map(wanted, _)) => {
            match (found.data_type(), wanted.data_type()) {
                (DataType::Struct(found), DataType::Struct(wanted)) => {
                    let mut pairs = found.iter().zip(wanted);
                    pairs.all(|(found, wanted)| fits(found.data_type(), wanted.data_type(), case))
                }
                _ => false,
            }
        }
        _ => keeps_values(found, wanted),
    }
}

/// The values of `array` as a `wanted`.
///
/// # Errors
///
/// `Invalid` if some value could change, and that is refused.
pub(super) fn adapt(array: &ArrayRef, wanted: &DataType, how: Adapting) -> Result<ArrayRef> {
    if array.data_type() == wanted {
        return Ok(array.clone());
    }
    match (array.data_type(), wanted) {
        (DataType::Struct(_), DataType::Struct(fields)) => {
            structure(array.as_struct(), fields, how)
        }
        (DataType::List(_), DataType::List(item)) => {
            let list = array.as_list::<i32>();
            let items = adapt(list.values(), item.data_type(), how)?;
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            Ok(Arc::new(ListArray::try_new(item.clone(), offsets, items, nulls)?))
        }
        // A key cannot be null.
        (DataType::Map(..), DataType::Map(..))
            if how.misfit == Misfit::Null && !fits(array.data_type(), wanted, how.case) =>
        {
            Ok(new_null_array(wanted, array.len()))
        }
        (DataType::Map(..), DataType::Map(entries, _)) => map(array.as_map(), entries, how),
        (found, wanted) if keeps_values(found, wanted) => {
            let options = CastOptions { safe: false, format_options: FormatOptions::default() };
            Ok(cast_with_options(array, wanted, &options)?)
        }
        (_, wanted) if how.misfit == Misfit::Null => Ok(new_null_array(wanted, array.len())),
        (found, wanted) => Err(mismatch(found, wanted)),
    }
}

fn mismatch(found: &DataType, wanted: &DataType) -> Error {
    Error::invalid(format!(
        "the file has {} where the schema says {}: correct the schema",
        ddl_name(found),
        ddl_name(wanted)
    ))
}

fn structure(array: &StructArray, wanted: &Fields, how: Adapting) -> Result<ArrayRef> {
    let column = |field: &FieldRef| match position(array.fields(), field.name(), how.case) {
        Some(found) => {
            let adapted = adapt(array.column(found), field.data_type(), how);
            adapted.map_err(|e| e.at(format!("field `{}`", field.name())))
        }
        None => Ok(new_null_array(field.data_type(), array.len())),
    };
    let columns = wanted.iter().map(column).collect::<Result<Vec<_>>>()?;
    let nulls = array.nulls().cloned();
    let made = StructArray::try_new_with_length(wanted.clone(), columns, nulls, array.len())?;
    Ok(Arc::new(made))
}

fn map(array: &MapArray, wanted: &FieldRef, how: Adapting) -> Result<ArrayRef> {
    let DataType::Struct(fields) = wanted.data_type() else {
        return Err(mismatch(array.data_type(), wanted.data_type()));
    };
    // Writers name keys and values as they like: their order tells.
    let columns = array.entries().columns().iter().zip(fields);
    let columns = columns.map(|(column, field)| adapt(column, field.data_type(), how));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let entries = StructArray::try_new(fields.clone(), columns, None)?;
    let (offsets, nulls) = (array.offsets().clone(), array.nulls().cloned());
    Ok(Arc::new(MapArray::try_new(wanted.clone(), offsets, entries, nulls, false)?))
}

/// Whether every value of one type has the same meaning as one of the other.
fn keeps_values(found: &DataType, wanted: &DataType) -> bool {
    use DataType::*;
    let integer = |t: &DataType| match t {
        Int8 => Some(7),
        UInt8 => Some(8),
        Int16 => Some(15),
        UInt16 => Some(16),
        Int32 => Some(31),
        UInt32 => Some(32),
        Int64 => Some(63),
        UInt64 => Some(64),
        _ => None,
    };
    if let (Some(bits), Some(room)) = (integer(found), integer(wanted)) {
        return bits <= room && wanted.is_signed_integer();
    }
    match (found, wanted) {
        (Dictionary(_, value), wanted) => value.as_ref() == wanted || keeps_values(value, wanted),
        (LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView, Utf8) => true,
        (LargeBinary | BinaryView | FixedSizeBinary(_), Binary) => true,
        (Int8 | Int16 | Int32 | UInt8 | UInt16 | UInt32 | Float16 | Float32, Float64) => true,
        (Float16, Float32) => true,
        // Nanoseconds are cut off to microseconds: as in Spark.
        (Timestamp(_, _), Timestamp(TimeUnit::Microsecond, Some(_))) => true,
        (Timestamp(_, None), Timestamp(TimeUnit::Microsecond, None)) => true,
        (Date64, Date32) => true,
        (Decimal32(p, s) | Decimal64(p, s) | Decimal128(p, s), Decimal128(precision, scale)) => {
            let whole = |p: u8, s: i8| i16::from(p) - i16::from(s);
            scale >= s && whole(*precision, *scale) >= whole(*p, *s)
        }
        (Int8 | Int16 | Int32 | Int64, Decimal128(precision, scale)) => {
            let digits = match found {
                Int8 => 3,
                Int16 => 5,
                Int32 => 10,
                _ => 19,
            };
            i16::from(*precision) - i16::from(*scale) >= digits
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        Int32Array, LargeStringArray, StringArray, TimestampNanosecondArray, UInt32Array,
    };
    use arrow::datatypes::Field;
    use fluvial_core::ddl::parse_type;

    fn shown(array: ArrayRef, wanted: &str) -> Result<String> {
        let how = Adapting { misfit: Misfit::Refused, case: NameCase::Insensitive };
        let adapted = adapt(&array, &parse_type(wanted)?, how)?;
        assert_eq!(adapted.data_type(), &parse_type(wanted)?);
        let cells = (0..adapted.len())
            .map(|i| arrow::util::display::array_value_to_string(&adapted, i).unwrap());
        Ok(cells.collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn what_keeps_every_value_is_done() {
        let ints = || -> ArrayRef { Arc::new(Int32Array::from(vec![Some(1), None])) };
        assert_eq!(shown(ints(), "BIGINT").unwrap(), "1 ");
        assert_eq!(shown(ints(), "DOUBLE").unwrap(), "1.0 ");
        assert_eq!(shown(ints(), "DECIMAL(12,2)").unwrap(), "1.00 ");
        let text: ArrayRef = Arc::new(LargeStringArray::from(vec!["a"]));
        assert_eq!(shown(text, "STRING").unwrap(), "a");
        let nanos: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1_999]));
        assert_eq!(shown(nanos, "TIMESTAMP").unwrap(), "1970-01-01T00:00:00.000001Z");
        let unsigned: ArrayRef = Arc::new(UInt32Array::from(vec![u32::MAX]));
        assert_eq!(shown(unsigned, "BIGINT").unwrap(), "4294967295");
    }

    #[test]
    fn what_could_change_a_value_is_refused() {
        let ints: ArrayRef = Arc::new(Int32Array::from(vec![1]));
        let text: ArrayRef = Arc::new(StringArray::from(vec!["1"]));
        for (array, wanted) in [
            (&ints, "SMALLINT"),
            (&ints, "FLOAT"),
            (&ints, "STRING"),
            (&ints, "DECIMAL(11,2)"),
            (&text, "INT"),
            (&text, "ARRAY<STRING>"),
        ] {
            let error = shown(array.clone(), wanted).unwrap_err();
            assert!(error.message().contains("correct the schema"), "{wanted}: {error}");
        }
    }

    #[test]
    fn structures_take_their_fields_by_name() {
        let ints: ArrayRef = Arc::new(Int32Array::from(vec![7]));
        let found = StructArray::try_from(vec![("b", ints.clone()), ("É", ints)]).unwrap();
        let shown = shown(Arc::new(found), "STRUCT<é: BIGINT, c: STRING>").unwrap();
        assert_eq!(shown, "{é: 7, c: }");
    }

    #[test]
    fn of_names_that_differ_in_case_the_same_one_is_taken() {
        let fields = |names: [&str; 2]| -> Fields {
            names
                .map(|name| Arc::new(Field::new(name, DataType::Int32, true)))
                .into_iter()
                .collect()
        };
        let (both, other) = (fields(["A", "a"]), fields(["A", "b"]));
        assert_eq!(position(&both, "a", NameCase::Insensitive), Some(1));
        assert_eq!(position(&other, "a", NameCase::Insensitive), Some(0));
        assert_eq!(position(&other, "a", NameCase::Sensitive), None);
    }
}
