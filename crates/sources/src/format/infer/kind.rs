//! Types of JSON values, and what they have in common.

use crate::format::json::Inference;
use arrow::datatypes::{DataType, Field, Fields, Schema};
use fluvial_core::ddl;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What JSON values of one place have in common.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Null,
    Boolean,
    Long,
    /// A whole number beyond 64 bits.
    Wide,
    /// With a precision and a scale.
    Decimal(u8, i8),
    Double,
    Text,
    Array(Box<Kind>),
    /// Sorted by name, as in Spark.
    Object(BTreeMap<String, Kind>),
}

pub(super) fn kind(value: Value, how: Inference) -> Kind {
    match value {
        Value::Null => Kind::Null,
        Value::Bool(_) | Value::Number(_) if how.primitives_as_string => Kind::Text,
        Value::Bool(_) => Kind::Boolean,
        Value::Number(number) if number.is_i64() => Kind::Long,
        Value::Number(number) if number.is_u64() => Kind::Wide,
        Value::Number(number) if how.prefers_decimal => decimal(&number.to_string()),
        Value::Number(_) => Kind::Double,
        Value::String(_) => Kind::Text,
        Value::Array(items) => Kind::Array(Box::new(
            items.into_iter().map(|item| kind(item, how)).fold(Kind::Null, common),
        )),
        Value::Object(fields) => {
            Kind::Object(fields.into_iter().map(|(name, value)| (name, kind(value, how))).collect())
        }
    }
}

pub(super) fn common(a: Kind, b: Kind) -> Kind {
    match (a, b) {
        (Kind::Null, other) | (other, Kind::Null) => other,
        (Kind::Long, Kind::Wide) | (Kind::Wide, Kind::Long) => Kind::Wide,
        (Kind::Decimal(p, s), Kind::Long) | (Kind::Long, Kind::Decimal(p, s)) => {
            wider((p, s), (20, 0))
        }
        (Kind::Decimal(p, s), Kind::Wide) | (Kind::Wide, Kind::Decimal(p, s)) => {
            wider((p, s), (20, 0))
        }
        (Kind::Decimal(p, s), Kind::Decimal(q, t)) => wider((p, s), (q, t)),
        (Kind::Decimal(..), Kind::Double) | (Kind::Double, Kind::Decimal(..)) => Kind::Double,
        (Kind::Double, Kind::Long | Kind::Wide) | (Kind::Long | Kind::Wide, Kind::Double) => {
            Kind::Double
        }
        (Kind::Array(a), Kind::Array(b)) => Kind::Array(Box::new(common(*a, *b))),
        (Kind::Object(mut a), Kind::Object(b)) => {
            for (name, kind) in b {
                let before = a.remove(&name).unwrap_or(Kind::Null);
                a.insert(name, common(before, kind));
            }
            Kind::Object(a)
        }
        (a, b) if a == b => a,
        _ => Kind::Text,
    }
}

/// The decimal that holds both, or a double if none does.
fn wider((p, s): (u8, i8), (q, t): (u8, i8)) -> Kind {
    let scale = s.max(t);
    let whole = (i16::from(p) - i16::from(s)).max(i16::from(q) - i16::from(t));
    match u8::try_from(whole + i16::from(scale)) {
        Ok(precision) if precision <= 38 => Kind::Decimal(precision, scale),
        _ => Kind::Double,
    }
}

/// The decimal of a number as it is written, or a double if it is none.
fn decimal(text: &str) -> Kind {
    let digits = text.trim_start_matches('-');
    match digits.split_once('.') {
        Some((whole, fraction)) if fraction.bytes().all(|b| b.is_ascii_digit()) => {
            let whole = whole.trim_start_matches('0').len();
            match (u8::try_from(whole + fraction.len()), i8::try_from(fraction.len())) {
                (Ok(precision), Ok(scale)) if precision <= 38 => {
                    Kind::Decimal(precision.max(1), scale)
                }
                _ => Kind::Double,
            }
        }
        _ => Kind::Double,
    }
}

/// The type of a kind; `None` for an object without fields, which no column can have.
pub(super) fn data_type(kind: Kind) -> Option<DataType> {
    Some(match kind {
        Kind::Null | Kind::Text => DataType::Utf8,
        Kind::Boolean => DataType::Boolean,
        Kind::Long => DataType::Int64,
        Kind::Wide => DataType::Decimal128(20, 0),
        Kind::Decimal(precision, scale) => DataType::Decimal128(precision, scale),
        Kind::Double => DataType::Float64,
        Kind::Array(item) => ddl::array_of(data_type(*item)?),
        Kind::Object(fields) => {
            let fields = fields_of(fields);
            if fields.is_empty() {
                return None;
            }
            DataType::Struct(fields)
        }
    })
}

fn fields_of(fields: BTreeMap<String, Kind>) -> Fields {
    let field = |(name, kind)| Some(Arc::new(Field::new(name, data_type(kind)?, true)));
    fields.into_iter().filter_map(field).collect()
}

/// The kind without what has no value anywhere; `None` if that is all of it.
fn without_nulls(kind: Kind) -> Option<Kind> {
    match kind {
        Kind::Null => None,
        Kind::Array(item) => without_nulls(*item).map(|item| Kind::Array(Box::new(item))),
        Kind::Object(fields) => {
            let fields: BTreeMap<_, _> = fields
                .into_iter()
                .filter_map(|(name, kind)| Some((name, without_nulls(kind)?)))
                .collect();
            (!fields.is_empty()).then_some(Kind::Object(fields))
        }
        other => Some(other),
    }
}

/// The schema of all records.
pub(super) fn schema(found: Kind, corrupt: Option<&str>, how: Inference) -> Schema {
    let found = if how.drop_null { without_nulls(found) } else { Some(found) };
    let mut fields = match found {
        Some(Kind::Object(fields)) => fields,
        _ => BTreeMap::new(),
    };
    if let Some(corrupt) = corrupt {
        fields.insert(corrupt.to_owned(), Kind::Text);
    }
    Schema::new(fields_of(fields))
}
