//! The reader against a slow model of the same rules, on random values.

use super::super::{JsonLines, JsonOptions};
use crate::format::lines::Lines;
use crate::format::{Batches, Decode};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use fluvial_core::Options;
use fluvial_core::ddl::parse_ddl;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const SCHEMA: &str = "a BIGINT, s STRING, f DOUBLE, b BOOLEAN, l ARRAY<BIGINT>, \
    st STRUCT<x: BIGINT, y: STRING, z: ARRAY<STRUCT<k: BIGINT>>>, m MAP<STRING, BIGINT>, \
    _corrupt_record STRING";

/// What a value becomes: `Err` is nothing at all, `false` marks the line.
type Kept = Result<(Value, bool), ()>;

fn model(value: &Value, data_type: &DataType) -> Kept {
    if value.is_null() {
        return Ok((Value::Null, true));
    }
    match (data_type, value) {
        (DataType::Int64, Value::Number(n)) if n.is_i64() => Ok((value.clone(), true)),
        (DataType::Float64, Value::Number(n)) => Ok((json!(n.as_f64().unwrap()), true)),
        (DataType::Boolean, Value::Bool(_)) => Ok((value.clone(), true)),
        (DataType::Utf8, Value::String(_)) => Ok((value.clone(), true)),
        (DataType::Utf8, other) => Ok((other.to_string().into(), true)),
        (DataType::List(item), Value::Array(items)) => {
            let items: Result<Vec<_>, ()> =
                items.iter().map(|value| model(value, item.data_type())).collect();
            let (items, good): (Vec<_>, Vec<_>) = items?.into_iter().unzip();
            Ok((items.into(), good.iter().all(|good| *good)))
        }
        (DataType::Struct(fields), Value::Object(object)) => {
            let (mut row, mut good) = (Map::new(), true);
            for field in fields {
                let kept = object.get(field.name()).map(|v| model(v, field.data_type()));
                let (value, fits) = match kept {
                    None => (Value::Null, true),
                    Some(Ok(kept)) => kept,
                    Some(Err(())) => (Value::Null, false),
                };
                good &= fits;
                row.insert(field.name().clone(), value);
            }
            Ok((row.into(), good))
        }
        (DataType::Map(entries, _), Value::Object(object)) => {
            let DataType::Struct(pair) = entries.data_type() else { return Err(()) };
            let mut row = Map::new();
            for (key, value) in object {
                let (value, _) = model(value, pair[1].data_type())?;
                row.insert(key.clone(), value);
            }
            Ok((row.into(), true))
        }
        _ => Err(()),
    }
}

/// One value of an array, as JSON.
fn cell(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).into(),
        DataType::Boolean => array.as_boolean().value(row).into(),
        DataType::Utf8 => array.as_string::<i32>().value(row).into(),
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            (0..items.len()).map(|i| cell(&items, i)).collect()
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns().iter();
            let pairs = columns.zip(fields).map(|(c, f)| (f.name().clone(), cell(c, row)));
            Value::Object(pairs.collect())
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let (keys, values) = (entries.column(0), entries.column(1));
            let pair = |i| (keys.as_string::<i32>().value(i).to_owned(), cell(values, i));
            Value::Object((0..entries.len()).map(pair).collect())
        }
        other => panic!("the model has no {other}"),
    }
}

fn read(file: &str, projection: &[usize]) -> Vec<Vec<Value>> {
    let schema = parse_ddl(SCHEMA).unwrap();
    let options = JsonOptions::take(&mut Options::default()).unwrap();
    let decoder = JsonLines::new(&options, schema.fields(), projection, "f".into()).unwrap();
    let (mut lines, mut out) = (Lines::new(decoder, "f".into()), Batches::new());
    file.as_bytes().chunks(7).for_each(|chunk| lines.feed(chunk, &mut out).unwrap());
    lines.end(&mut out).unwrap();
    let Some(first) = out.front() else { return Vec::new() };
    let whole = concat_batches(&first.schema(), &out).unwrap();
    let row = |row| whole.columns().iter().map(|column| cell(column, row)).collect();
    (0..whole.num_rows()).map(row).collect()
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-5i64..5).prop_map(Value::from),
        (-1e9..1e9f64).prop_map(Value::from),
        "\\PC{0,6}|[a-c\"\\\\\n]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[xyzk]", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// An object with the columns of the schema and others, or something else.
fn any_line() -> impl Strategy<Value = Value> {
    let name = prop_oneof!["[asfbl]", "st", Just("m".to_owned()), "[u-w]{1,2}"];
    prop_oneof![
        9 => proptest::collection::btree_map(name, any_value(), 0..6)
            .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        1 => any_value().prop_filter("an array is several rows", |value| !value.is_array()),
    ]
}

proptest! {
    /// Trap F10.
    #[test]
    fn random_lines_are_read_as_the_model_says(
        values in proptest::collection::vec((any_line(), any::<bool>()), 1..8),
        columns in proptest::sample::subsequence((0..8usize).collect::<Vec<_>>(), 0..=8),
    ) {
        let schema = parse_ddl(SCHEMA).unwrap();
        let row_type = DataType::Struct(schema.fields().iter().take(7).cloned().collect());
        let (mut file, mut expected) = (String::new(), Vec::new());
        for (value, cut) in &values {
            let mut line = value.to_string();
            if *cut {
                line.pop();
            }
            let (row, good) = match model(value, &row_type) {
                Ok((Value::Object(row), good)) if !cut => (row, good),
                _ => (Map::new(), false),
            };
            // A number or a word without its last character may be whole, and is bad anyway;
            // what is blank is no line.
            if !line.is_empty() {
                let cell = |field: &arrow::datatypes::FieldRef| match row.get(field.name()) {
                    Some(value) => value.clone(),
                    None if field.name() == "_corrupt_record" && !good => line.clone().into(),
                    None => Value::Null,
                };
                expected.push(schema.fields().iter().map(cell).collect::<Vec<_>>());
            }
            file += &line;
            file.push('\n');
        }
        let all: Vec<usize> = (0..8).collect();
        prop_assert_eq!(read(&file, &all), expected.clone(), "{}", file);
        let some = |row: &Vec<Value>| columns.iter().map(|c| row[*c].clone()).collect::<Vec<_>>();
        let projected: Vec<_> = expected.iter().map(some).collect();
        let read = read(&file, &columns);
        prop_assert_eq!(read, projected, "{:?} of {}", columns, file);
    }
}
