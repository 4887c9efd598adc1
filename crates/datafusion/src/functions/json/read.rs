//! `from_json`: text into values of a schema. What does not fit is null.

use super::value::Value;
use crate::functions::cast::{
    fit_decimal, parse_date, parse_decimal, parse_double, parse_timestamp,
};
use crate::functions::datetime::Pattern;
use crate::functions::error::{spark, unexpected_type, wrong_arguments};
use crate::functions::zone::Zone;
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, ListArray, MapArray,
    PrimitiveArray, StringArray, StructArray, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Field, FieldRef, Fields, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use fluvial_core::ddl::{ddl_name, parse_ddl, parse_type};
use std::sync::Arc;

/// `from_json(text, schema[, options])`.
pub(super) fn from_json_udf() -> Arc<ScalarUDF> {
    let signature = Signature::user_defined(Volatility::Immutable);
    Arc::new(ScalarUDF::from(FromJson { signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FromJson {
    signature: Signature,
}

/// Columns (`a INT, b STRING`) or one type (`array<int>`).
fn schema(text: &str) -> Result<DataType> {
    match parse_ddl(text) {
        Ok(schema) => Ok(DataType::Struct(schema.fields().clone())),
        Err(columns) => parse_type(text).map_err(|_| crate::error::plan(columns)),
    }
}

impl ScalarUDFImpl for FromJson {
    fn name(&self) -> &str {
        "from_json"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [_, _] => Ok(vec![DataType::Utf8; 2]),
            [_, _, options @ DataType::Map(..)] => {
                Ok(vec![DataType::Utf8, DataType::Utf8, options.clone()])
            }
            [_, _, other] => Err(unexpected_type("from_json", "a map of options", other)),
            _ => Err(wrong_arguments("from_json", "2 or 3", types.len())),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type is that of the schema")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let Some(Some(Some(text))) =
            args.scalar_arguments.get(1).map(|a| a.map(|v| v.try_as_str().flatten()))
        else {
            return Err(spark(
                "INVALID_SCHEMA.NON_STRING_LITERAL",
                "the schema of `from_json` is a constant such as 'a INT, b STRING'",
            ));
        };
        let data_type = schema(text)?;
        if !matches!(data_type, DataType::Struct(_) | DataType::List(_) | DataType::Map(..)) {
            return Err(spark(
                "DATATYPE_MISMATCH.INVALID_JSON_SCHEMA",
                format!("`from_json` gives structs, arrays and maps, not {}", ddl_name(&data_type)),
            ));
        }
        Ok(Arc::new(Field::new("from_json", data_type, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mut reader = Reader::new(Zone::of_session(&args.config_options)?);
        if let Some(options) = args.args.get(2) {
            reader.set_options(&options.to_array(1)?)?;
        }
        let text = args.args[0].to_array(args.number_rows)?;
        let to = args.return_field.data_type();
        Ok(ColumnarValue::Array(reader.column(text.as_string::<i32>(), to)?))
    }
}

/// How text becomes values.
struct Reader {
    zone: Zone,
    timestamps: Option<Pattern>,
    dates: Option<Pattern>,
    fails: bool,
}

const OPTIONS: &[&str] = &["dateFormat", "mode", "timestampFormat"];

impl Reader {
    fn new(zone: Zone) -> Self {
        Self { zone, timestamps: None, dates: None, fails: false }
    }

    fn set_options(&mut self, options: &ArrayRef) -> Result<()> {
        let options = options.as_map();
        if options.is_empty() || options.is_null(0) {
            return Ok(());
        }
        let entries = options.value(0);
        let keys = arrow::compute::cast(entries.column(0), &DataType::Utf8)?;
        let values = arrow::compute::cast(entries.column(1), &DataType::Utf8)?;
        for (key, value) in keys.as_string::<i32>().iter().zip(values.as_string::<i32>()) {
            let (key, value) = (key.unwrap_or_default(), value.unwrap_or_default());
            match key.to_ascii_lowercase().as_str() {
                "timestampformat" => self.timestamps = Some(Pattern::parse(value)?),
                "dateformat" => self.dates = Some(Pattern::parse(value)?),
                "mode" if value.eq_ignore_ascii_case("PERMISSIVE") => self.fails = false,
                "mode" if value.eq_ignore_ascii_case("FAILFAST") => self.fails = true,
                "mode" => {
                    return Err(spark(
                        "PARSE_MODE_UNSUPPORTED",
                        format!("`from_json` knows the modes PERMISSIVE and FAILFAST, not {value}"),
                    ));
                }
                _ => {
                    return Err(spark(
                        "UNKNOWN_OPTION",
                        format!(
                            "`from_json` has no option `{key}`; there are {}",
                            OPTIONS.join(", ")
                        ),
                    ));
                }
            }
        }
        Ok(())
    }

    fn column(&self, text: &StringArray, to: &DataType) -> Result<ArrayRef> {
        let mut values: Vec<Option<Value>> = Vec::with_capacity(text.len());
        for text in text {
            let value = match text.map(str::trim) {
                None | Some("") => None,
                Some(text) => match (Value::parse(text), to) {
                    (Some(Value::Object(fields)), DataType::Struct(_) | DataType::Map(..)) => {
                        Some(Value::Object(fields))
                    }
                    (Some(Value::Array(items)), DataType::List(_)) => Some(Value::Array(items)),
                    // One value stands for an array of it.
                    (Some(object @ Value::Object(_)), DataType::List(_)) => {
                        Some(Value::Array(vec![object]))
                    }
                    (Some(Value::Null), _) => None,
                    (malformed, to) => {
                        if self.fails {
                            return Err(malformed_json(text));
                        }
                        let _ = malformed;
                        // A struct of nulls says that there was something.
                        matches!(to, DataType::Struct(_)).then(|| Value::Object(Vec::new()))
                    }
                },
            };
            values.push(value);
        }
        let values: Vec<Option<&Value>> = values.iter().map(Option::as_ref).collect();
        self.build(&values, to)
    }

    /// A column of values; what does not fit is null, or an error where it should be.
    fn build(&self, values: &[Option<&Value>], to: &DataType) -> Result<ArrayRef> {
        let column = self.fitting(values, to)?;
        if self.fails {
            let mut values = values.iter().enumerate();
            let lost = values.find_map(|(row, value)| {
                value.filter(|value| **value != Value::Null && column.is_null(row))
            });
            if let Some(value) = lost {
                let what = format!("{} is no {}", value.as_text(), ddl_name(to));
                return Err(malformed_json(&what));
            }
        }
        Ok(column)
    }

    fn fitting(&self, values: &[Option<&Value>], to: &DataType) -> Result<ArrayRef> {
        match to {
            DataType::Boolean => {
                let values = values.iter().map(|v| match v {
                    Some(Value::Bool(value)) => Some(*value),
                    _ => None,
                });
                Ok(Arc::new(values.collect::<BooleanArray>()))
            }
            DataType::Int8 => primitive::<Int8Type>(values, to, integer),
            DataType::Int16 => primitive::<Int16Type>(values, to, integer),
            DataType::Int32 => primitive::<Int32Type>(values, to, integer),
            DataType::Int64 => primitive::<Int64Type>(values, to, integer),
            DataType::Float32 => {
                primitive::<Float32Type>(values, to, |v| double(v).map(|v| v as f32))
            }
            DataType::Float64 => primitive::<Float64Type>(values, to, double),
            DataType::Decimal128(p, s) => primitive::<Decimal128Type>(values, to, |v| match v {
                Value::Number(text) | Value::Text(text) => {
                    parse_decimal(text, *p, *s).ok().flatten().and_then(|v| fit_decimal(v, *p))
                }
                _ => None,
            }),
            DataType::Utf8 => {
                let text = values.iter().map(|v| match v {
                    None | Some(Value::Null) => None,
                    Some(value) => Some(value.as_text()),
                });
                Ok(Arc::new(text.collect::<StringArray>()))
            }
            DataType::Date32 => primitive::<Date32Type>(values, to, |v| self.date(v)),
            DataType::Timestamp(_, has_zone) => {
                let zone = if has_zone.is_some() { self.zone } else { Zone::UTC };
                primitive::<TimestampMicrosecondType>(values, to, |v| self.timestamp(v, zone))
            }
            DataType::Struct(fields) => self.structs(values, fields),
            DataType::List(item) => self.lists(values, item),
            DataType::Map(entries, ordered) => self.maps(values, entries, *ordered),
            _ => Ok(new_null_array(to, values.len())),
        }
    }

    fn date(&self, value: &Value) -> Option<i32> {
        match (value, &self.dates) {
            (Value::Text(text), None) => i32::try_from(parse_date(text)?).ok(),
            (Value::Text(text), Some(pattern)) => {
                i32::try_from(pattern.read_local(text)?.div_euclid(86_400_000_000)).ok()
            }
            (Value::Number(text), _) => text.parse().ok(),
            _ => None,
        }
    }

    fn timestamp(&self, value: &Value, zone: Zone) -> Option<i64> {
        match (value, &self.timestamps) {
            (Value::Text(text), None) => parse_timestamp(text, zone),
            (Value::Text(text), Some(pattern)) => pattern.read(text, zone),
            (Value::Number(text), _) => text.parse::<i64>().ok()?.checked_mul(1_000_000),
            _ => None,
        }
    }

    fn structs(&self, values: &[Option<&Value>], fields: &Fields) -> Result<ArrayRef> {
        let column = |field: &FieldRef| {
            let of_field: Vec<Option<&Value>> =
                values.iter().map(|v| v.and_then(|v| v.field(field.name()))).collect();
            self.build(&of_field, field.data_type())
        };
        let columns = fields.iter().map(column).collect::<Result<Vec<_>>>()?;
        let valid = values.iter().map(|v| matches!(v, Some(Value::Object(_))));
        let nulls = NullBuffer::from_iter(valid);
        let fields = nullable(fields);
        Ok(Arc::new(StructArray::try_new_with_length(fields, columns, Some(nulls), values.len())?))
    }

    fn lists(&self, values: &[Option<&Value>], item: &FieldRef) -> Result<ArrayRef> {
        let items = |v: &Option<&Value>| match v {
            Some(Value::Array(items)) => items.len(),
            _ => 0,
        };
        let offsets = OffsetBuffer::from_lengths(values.iter().map(items));
        let flat: Vec<Option<&Value>> = values
            .iter()
            .filter_map(|v| match v {
                Some(Value::Array(items)) => Some(items),
                _ => None,
            })
            .flatten()
            .map(|item| Some(item).filter(|item| **item != Value::Null))
            .collect();
        let nulls =
            NullBuffer::from_iter(values.iter().map(|v| matches!(v, Some(Value::Array(_)))));
        let inner = self.build(&flat, item.data_type())?;
        Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, inner, Some(nulls))?))
    }

    fn maps(
        &self,
        values: &[Option<&Value>],
        entries: &FieldRef,
        ordered: bool,
    ) -> Result<ArrayRef> {
        let DataType::Struct(fields) = entries.data_type() else {
            return internal_err!("a map has entries");
        };
        let [key, value] = fields.iter().as_slice() else {
            return internal_err!("an entry has a key and a value");
        };
        let object = |v: &Option<&Value>| match v {
            Some(Value::Object(fields)) => Some(fields.clone()),
            _ => None,
        };
        let objects: Vec<Option<Vec<(String, Value)>>> = values.iter().map(object).collect();
        let lengths = objects.iter().map(|o| o.as_ref().map_or(0, Vec::len));
        let offsets = OffsetBuffer::from_lengths(lengths);
        let keys: Vec<Value> = objects
            .iter()
            .flatten()
            .flatten()
            .map(|(name, _)| match key.data_type() {
                DataType::Utf8 => Value::Text(name.clone()),
                _ => Value::Number(name.clone()),
            })
            .collect();
        let keys: Vec<Option<&Value>> = keys.iter().map(Some).collect();
        let items: Vec<Option<&Value>> = objects
            .iter()
            .flatten()
            .flatten()
            .map(|(_, v)| Some(v).filter(|v| **v != Value::Null))
            .collect();
        let columns =
            vec![self.build(&keys, key.data_type())?, self.build(&items, value.data_type())?];
        let nulls = NullBuffer::from_iter(objects.iter().map(Option::is_some));
        let structs = StructArray::try_new(fields.clone(), columns, None)?;
        let map = MapArray::try_new(Arc::clone(entries), offsets, structs, Some(nulls), ordered)?;
        Ok(Arc::new(map))
    }
}

fn malformed_json(what: &str) -> DataFusionError {
    spark(
        "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION",
        format!("malformed JSON: {what}; the mode PERMISSIVE gives null instead"),
    )
}

/// What comes from text may be null, whatever the schema says.
fn nullable(fields: &Fields) -> Fields {
    fields.iter().map(|f| f.as_ref().clone().with_nullable(true)).collect::<Vec<_>>().into()
}

fn primitive<T: ArrowPrimitiveType>(
    values: &[Option<&Value>],
    to: &DataType,
    f: impl Fn(&Value) -> Option<T::Native>,
) -> Result<ArrayRef> {
    let values = values.iter().map(|v| v.and_then(&f));
    Ok(Arc::new(values.collect::<PrimitiveArray<T>>().with_data_type(to.clone())))
}

fn integer<N: TryFrom<i64>>(value: &Value) -> Option<N> {
    match value {
        Value::Number(text) => N::try_from(text.parse().ok()?).ok(),
        _ => None,
    }
}

fn double(value: &Value) -> Option<f64> {
    match value {
        Value::Number(text) => parse_double(text),
        Value::Text(text) => match text.as_str() {
            "NaN" | "Infinity" | "-Infinity" | "+Infinity" | "INF" | "+INF" | "-INF" => {
                parse_double(text)
            }
            _ => None,
        },
        _ => None,
    }
}
