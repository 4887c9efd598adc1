//! What no column takes of a file that carries its own schema: `_rescued_data`.

use super::adapt::{fits, position};
use crate::format::json::{push_member, rescued_text};
use arrow::array::{Array, ArrayRef, AsArray, StringBuilder, StructArray};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use arrow::json::writer::{EncoderOptions, make_encoder};
use fluvial_core::{Error, NameCase, Result};
use std::sync::Arc;

/// The parts of a type that another one has no place for: names, with those of structures before
/// them. With `NameCase::Insensitive`, a name in another case is no new one.
pub(super) fn unknown(
    found: &DataType,
    wanted: &DataType,
    path: &str,
    case: NameCase,
    names: &mut Vec<String>,
) {
    match (found, wanted) {
        (DataType::Struct(found), DataType::Struct(wanted)) => {
            for field in found {
                let name = format!("{path}.{}", field.name());
                match position(wanted, field.name(), case) {
                    Some(at) => {
                        unknown(field.data_type(), wanted[at].data_type(), &name, case, names);
                    }
                    None => names.push(name),
                }
            }
        }
        (DataType::List(found), DataType::List(wanted)) => {
            unknown(found.data_type(), wanted.data_type(), path, case, names);
        }
        (DataType::Map(found, _), DataType::Map(wanted, _)) => {
            if let (Some(found), Some(wanted)) = (value(found), value(wanted)) {
                unknown(found.data_type(), wanted.data_type(), path, case, names);
            }
        }
        _ => {}
    }
}

fn value(entries: &FieldRef) -> Option<&FieldRef> {
    match entries.data_type() {
        DataType::Struct(pair) => pair.get(1),
        _ => None,
    }
}

/// The field that takes the values of the field `at` of a structure. Of several that differ in
/// case only one is taken.
fn taker<'a>(
    found: &Fields,
    at: usize,
    wanted: &'a Fields,
    case: NameCase,
) -> Option<&'a FieldRef> {
    wanted.iter().find(|field| position(found, field.name(), case) == Some(at))
}

/// Whether a column of type `wanted` takes all of a `found`.
pub(super) fn takes(found: &DataType, wanted: &DataType, case: NameCase) -> bool {
    has_place(found, wanted, case) && fits(found, wanted, case)
}

fn has_place(found: &DataType, wanted: &DataType, case: NameCase) -> bool {
    let below = |found: &FieldRef, wanted: &FieldRef| {
        has_place(found.data_type(), wanted.data_type(), case)
    };
    match (found, wanted) {
        (DataType::Struct(found), DataType::Struct(wanted)) => (0..found.len()).all(|at| {
            taker(found, at, wanted, case).is_some_and(|wanted| below(&found[at], wanted))
        }),
        (DataType::List(found), DataType::List(wanted)) => below(found, wanted),
        (DataType::Map(found, _), DataType::Map(wanted, _)) => {
            match (value(found), value(wanted)) {
                (Some(found), Some(wanted)) => below(found, wanted),
                _ => true,
            }
        }
        _ => true,
    }
}

/// What a column does not take of `array`: all of it, or some fields of structures.
pub(super) fn rest(
    array: &ArrayRef,
    wanted: Option<&DataType>,
    case: NameCase,
) -> Result<Option<ArrayRef>> {
    let Some(wanted) = wanted else { return Ok(Some(array.clone())) };
    if takes(array.data_type(), wanted, case) {
        return Ok(None);
    }
    let (DataType::Struct(_), DataType::Struct(fields)) = (array.data_type(), wanted) else {
        return Ok(Some(array.clone()));
    };
    let found = array.as_struct();
    let (mut left, mut columns) = (Vec::new(), Vec::new());
    for (at, (field, column)) in found.fields().iter().zip(found.columns()).enumerate() {
        let wanted = taker(found.fields(), at, fields, case).map(|field| field.data_type());
        if let Some(part) = rest(column, wanted, case)? {
            left.push(Arc::new(Field::new(field.name(), part.data_type().clone(), true)));
            columns.push(part);
        }
    }
    // A structure of which nothing is left has nothing to rescue.
    let nulls = (0..array.len())
        .map(|row| found.is_valid(row) && columns.iter().any(|column| column.is_valid(row)));
    let nulls = nulls.collect::<Vec<bool>>().into();
    Ok(Some(Arc::new(StructArray::try_new(left.into(), columns, Some(nulls))?)))
}

/// The column: for each row one JSON object with the values of `parts`, and the file's path; null
/// where there are none.
pub(super) fn column(parts: &[(FieldRef, ArrayRef)], rows: usize, place: &str) -> Result<ArrayRef> {
    let options = EncoderOptions::default();
    let mut encoders = Vec::with_capacity(parts.len());
    for (field, array) in parts {
        encoders.push((field.name(), make_encoder(field, array, &options)?));
    }
    let (mut text, mut value) = (StringBuilder::new(), Vec::new());
    for row in 0..rows {
        let mut members = String::new();
        for (name, encoder) in &mut encoders {
            if !encoder.is_null(row) {
                value.clear();
                encoder.encode(row, &mut value);
                let value = std::str::from_utf8(&value)
                    .map_err(|e| Error::invalid("a value has no JSON form").with_source(e))?;
                push_member(&mut members, name, value);
            }
        }
        if members.is_empty() {
            text.append_null();
        } else {
            text.append_value(rescued_text(members, place));
        }
    }
    Ok(Arc::new(text.finish()))
}
