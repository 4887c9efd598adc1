//! What no column takes of a file that carries its own schema: `_rescued_data`.

use crate::format::json::{push_member, rescued_text};
use arrow::array::{Array, ArrayRef, AsArray, StringBuilder, StructArray};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use arrow::json::writer::{EncoderOptions, make_encoder};
use fluvial_core::{Error, Result};
use std::sync::Arc;

/// The parts of a type that another one has no place for: names, with those of structures before
/// them.
pub(super) fn unknown(found: &DataType, wanted: &DataType, path: &str, names: &mut Vec<String>) {
    match (found, wanted) {
        (DataType::Struct(found), DataType::Struct(wanted)) => {
            for field in found {
                let name = format!("{path}.{}", field.name());
                match named(wanted, field.name()) {
                    Some(wanted) => unknown(field.data_type(), wanted.data_type(), &name, names),
                    None => names.push(name),
                }
            }
        }
        (DataType::List(found), DataType::List(wanted)) => {
            unknown(found.data_type(), wanted.data_type(), path, names);
        }
        (DataType::Map(found, _), DataType::Map(wanted, _)) => {
            if let (Some(found), Some(wanted)) = (value(found), value(wanted)) {
                unknown(found.data_type(), wanted.data_type(), path, names);
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

fn named<'a>(fields: &'a Fields, name: &str) -> Option<&'a FieldRef> {
    fields.iter().find(|field| field.name() == name)
}

/// Whether a column of type `wanted` takes all of a `found`.
pub(super) fn takes(found: &DataType, wanted: &DataType) -> bool {
    let mut names = Vec::new();
    unknown(found, wanted, "", &mut names);
    names.is_empty() && super::adapt::fits(found, wanted)
}

/// What a column does not take of `array`: all of it, or some fields of structures.
pub(super) fn rest(array: &ArrayRef, wanted: Option<&DataType>) -> Result<Option<ArrayRef>> {
    let Some(wanted) = wanted else { return Ok(Some(array.clone())) };
    if takes(array.data_type(), wanted) {
        return Ok(None);
    }
    let (DataType::Struct(_), DataType::Struct(fields)) = (array.data_type(), wanted) else {
        return Ok(Some(array.clone()));
    };
    let found = array.as_struct();
    let (mut left, mut columns) = (Vec::new(), Vec::new());
    for (field, column) in found.fields().iter().zip(found.columns()) {
        let wanted = named(fields, field.name()).map(|field| field.data_type());
        if let Some(part) = rest(column, wanted)? {
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
