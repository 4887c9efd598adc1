//! Arrow rows as the JSON that the cases are recorded in.

use anyhow::{Context, Result};
use fluvial::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use fluvial::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimeUnit, TimestampMicrosecondType, UInt64Type,
};
use fluvial::arrow::temporal_conversions::{date32_to_datetime, timestamp_us_to_datetime};
use serde_json::{Map, Value, json};

/// The rows of a batch: objects by column name, or lists where names repeat.
pub(crate) fn rows(batch: &RecordBatch) -> Result<Vec<Value>> {
    let schema = batch.schema();
    let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
    let mut distinct = names.clone();
    distinct.sort_unstable();
    distinct.dedup();
    (0..batch.num_rows())
        .map(|row| {
            let values = batch.columns().iter().map(|column| value(column, row));
            let values = values.collect::<Result<Vec<_>>>()?;
            Ok(match distinct.len() == names.len() {
                true => {
                    names.iter().map(|n| (*n).to_owned()).zip(values).collect::<Map<_, _>>().into()
                }
                false => Value::Array(values),
            })
        })
        .collect()
}

fn float(number: f64) -> Value {
    if number.is_nan() {
        return json!({"float": "nan"});
    }
    if number.is_infinite() {
        return json!({"float": if number > 0.0 { "inf" } else { "-inf" }});
    }
    json!(number)
}

fn list(items: &ArrayRef) -> Result<Value> {
    (0..items.len()).map(|i| value(items, i)).collect::<Result<Vec<_>>>().map(Value::Array)
}

/// One value.
fn value(array: &ArrayRef, row: usize) -> Result<Value> {
    if array.is_null(row) {
        return Ok(Value::Null);
    }
    Ok(match array.data_type() {
        DataType::Null => Value::Null,
        DataType::Boolean => json!(array.as_boolean().value(row)),
        DataType::Int8 => json!(array.as_primitive::<Int8Type>().value(row)),
        DataType::Int16 => json!(array.as_primitive::<Int16Type>().value(row)),
        DataType::Int32 => json!(array.as_primitive::<Int32Type>().value(row)),
        DataType::Int64 => json!(array.as_primitive::<Int64Type>().value(row)),
        DataType::UInt64 => json!(array.as_primitive::<UInt64Type>().value(row)),
        DataType::Float32 => float(f64::from(array.as_primitive::<Float32Type>().value(row))),
        DataType::Float64 => float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => json!(array.as_string::<i32>().value(row)),
        DataType::LargeUtf8 => json!(array.as_string::<i64>().value(row)),
        DataType::Utf8View => json!(array.as_string_view().value(row)),
        DataType::Binary => json!({"hex": hex(array.as_binary::<i32>().value(row))}),
        DataType::Date32 => {
            let day = array.as_primitive::<Date32Type>().value(row);
            let day = date32_to_datetime(day).context("a date out of range")?;
            json!(day.format("%Y-%m-%d").to_string())
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            let time = array.as_primitive::<TimestampMicrosecondType>().value(row);
            let time = timestamp_us_to_datetime(time).context("a time out of range")?;
            json!(time.format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string())
        }
        DataType::Decimal128(_, scale) => {
            let decimal = array.as_primitive::<Decimal128Type>();
            json!({"decimal": decimal_text(decimal.value(row), *scale)})
        }
        DataType::List(_) => list(&array.as_list::<i32>().value(row))?,
        DataType::LargeList(_) => list(&array.as_list::<i64>().value(row))?,
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            let mut object = Map::new();
            for (field, column) in fields.iter().zip(columns) {
                object.insert(field.name().clone(), value(column, row)?);
            }
            object.into()
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let mut object = Map::new();
            for i in 0..entries.len() {
                let key = match value(entries.column(0), i)? {
                    Value::String(text) => text,
                    other => other.to_string(),
                };
                object.insert(key, value(entries.column(1), i)?);
            }
            object.into()
        }
        other => anyhow::bail!("no JSON form for {other}"),
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn decimal_text(unscaled: i128, scale: i8) -> String {
    let scale = usize::try_from(scale).unwrap_or(0);
    if scale == 0 {
        return unscaled.to_string();
    }
    let digits = format!("{:0>width$}", unscaled.unsigned_abs(), width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    format!("{}{whole}.{fraction}", if unscaled < 0 { "-" } else { "" })
}
