//! What a reader must know of stored bytes who has no query: recorded in every plan, beside the
//! names and types of the columns.

use crate::error::{Error, Result};
use crate::operator::StateField;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Where things stand in the keys and values of an operator, as far as its
/// [`StateSchema`](crate::StateSchema) does not say.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StateLayout {
    /// The key column that is event time. Where it stands in the bytes depends on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_time: Option<TimeColumn>,
    /// The variables of a processor.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<StateVariable>,
    /// The sides of a join whose rows lie in pages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pages: Vec<PageLayout>,
}

/// How rows of one side of a join lie in pages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageLayout {
    /// The side: 0 is the left one.
    pub side: usize,
    /// Where each key is among the columns of a row. Those that are no column of it stand behind
    /// them, in order.
    pub keys: Vec<usize>,
    /// The column that says when a row leaves.
    pub time: usize,
}

/// A key column that is event time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimeColumn {
    /// Its position among the key columns.
    pub column: usize,
    /// How it is one.
    pub kind: TimeKind,
}

/// How a column is event time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeKind {
    /// It is the time.
    Instant,
    /// It is a window, whose end is the time.
    Window,
    /// It is a session: its start stands behind the other keys, its end in the value.
    Session,
}

/// A variable of a processor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateVariable {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: VariableKind,
    /// Columns of the keys of a map.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<StateField>,
    /// Columns of the values.
    pub values: Vec<StateField>,
    /// Whether an expiry stands in front of the values.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expires: bool,
}

/// The kinds of variables, named as in Spark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum VariableKind {
    /// One value for each key.
    #[serde(rename = "ValueState")]
    Value,
    /// A list for each key.
    #[serde(rename = "ListState")]
    List,
    /// A map for each key.
    #[serde(rename = "MapState")]
    Map,
}

impl std::fmt::Display for VariableKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Value => "ValueState",
            Self::List => "ListState",
            Self::Map => "MapState",
        })
    }
}

impl StateField {
    /// A column. Metadata of nested fields are left out: they are not stored.
    pub fn of(name: impl Into<String>, data_type: &DataType) -> Self {
        Self { name: name.into(), data_type: bare(data_type).to_string() }
    }

    /// The column's type.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is none that this version knows.
    pub fn arrow_type(&self) -> Result<DataType> {
        self.data_type.parse().map_err(|error| {
            Error::invalid(format!(
                "state column {} is recorded with the type {:?}, which cannot be read back: read the \
                 state as bytes",
                self.name, self.data_type
            ))
            .with_source(error)
        })
    }

    /// The column, which may be null.
    ///
    /// # Errors
    ///
    /// As [`Self::arrow_type`].
    pub fn arrow_field(&self) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(&self.name, self.arrow_type()?, true)))
    }
}

/// A type without the metadata of its fields.
fn bare(data_type: &DataType) -> DataType {
    let field = |field: &FieldRef| -> FieldRef {
        Arc::new(Field::new(field.name(), bare(field.data_type()), field.is_nullable()))
    };
    match data_type {
        DataType::List(item) => DataType::List(field(item)),
        DataType::LargeList(item) => DataType::LargeList(field(item)),
        DataType::ListView(item) => DataType::ListView(field(item)),
        DataType::LargeListView(item) => DataType::LargeListView(field(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(field(item), *size),
        DataType::Map(entries, sorted) => DataType::Map(field(entries), *sorted),
        DataType::RunEndEncoded(ends, values) => {
            DataType::RunEndEncoded(field(ends), field(values))
        }
        DataType::Dictionary(key, value) => {
            DataType::Dictionary(key.clone(), Box::new(bare(value)))
        }
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect::<Fields>()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{IntervalUnit, TimeUnit};

    fn field(name: &str, data_type: DataType) -> FieldRef {
        Arc::new(Field::new(name, data_type, true))
    }

    /// If this fails, checkpoints cannot be read any more without their queries.
    #[test]
    fn types_come_back_from_their_text() {
        let zone = || Some("Europe/Berlin".into());
        let window = DataType::Struct(Fields::from(vec![
            Field::new(
                "start",
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
                false,
            ),
            Field::new(
                "end",
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
                false,
            ),
        ]));
        let entries = DataType::Struct(Fields::from(vec![
            Field::new("key", DataType::Utf8, false),
            Field::new("value", DataType::Int64, true),
        ]));
        let odd = DataType::Struct(Fields::from(vec![
            Field::new("an (odd), name: x", DataType::Int32, true),
            Field::new("it's ü", DataType::Utf8, true),
        ]));
        for data_type in [
            DataType::Null,
            DataType::Boolean,
            DataType::Int8,
            DataType::UInt64,
            DataType::Float16,
            DataType::Float64,
            DataType::Utf8,
            DataType::LargeUtf8,
            DataType::Utf8View,
            DataType::Binary,
            DataType::BinaryView,
            DataType::FixedSizeBinary(16),
            DataType::Date32,
            DataType::Time64(TimeUnit::Nanosecond),
            DataType::Timestamp(TimeUnit::Microsecond, None),
            DataType::Timestamp(TimeUnit::Millisecond, zone()),
            DataType::Duration(TimeUnit::Microsecond),
            DataType::Interval(IntervalUnit::MonthDayNano),
            DataType::Interval(IntervalUnit::YearMonth),
            DataType::Decimal128(38, -2),
            DataType::Decimal256(70, 20),
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
            DataType::List(field("item", DataType::Int64)),
            DataType::List(field("element", window.clone())),
            DataType::LargeList(field("item", DataType::List(field("item", DataType::Utf8)))),
            DataType::FixedSizeList(field("item", DataType::Float32), 3),
            DataType::Map(Arc::new(Field::new("entries", entries.clone(), false)), false),
            DataType::RunEndEncoded(
                Arc::new(Field::new("run_ends", DataType::Int32, false)),
                field("values", DataType::Utf8),
            ),
            DataType::Struct(Fields::empty()),
            window,
            odd,
        ] {
            let stored = StateField::of("c", &data_type);
            let back = stored.arrow_type();
            assert_eq!(back.as_ref().ok(), Some(&data_type), "{} {back:?}", stored.data_type);
        }
    }

    /// Arrow reads no name without a letter, and none that ends with a backslash.
    #[test]
    fn odd_types_are_errors() {
        for name in ["", "\\"] {
            let fields = Fields::from(vec![Field::new(name, DataType::Int64, true)]);
            let error = StateField::of("c", &DataType::Struct(fields)).arrow_type().unwrap_err();
            assert!(error.message().contains("read the state as bytes"), "{error}");
        }
    }

    #[test]
    fn metadata_of_nested_fields_are_not_part_of_a_type() {
        let noted = Field::new("a", DataType::Int64, true)
            .with_metadata([("note".to_owned(), "x".to_owned())].into());
        let data_type = DataType::Struct(Fields::from(vec![noted]));
        let plain = DataType::Struct(Fields::from(vec![Field::new("a", DataType::Int64, true)]));
        assert_eq!(StateField::of("c", &data_type).arrow_type().unwrap(), plain);
    }

    #[test]
    fn layouts_are_short_where_there_is_nothing_to_say() {
        let empty = serde_json::to_string(&StateLayout::default()).unwrap();
        assert_eq!(empty, "{}");
        let variable = StateVariable {
            name: "seen".into(),
            kind: VariableKind::Value,
            keys: Vec::new(),
            values: vec![StateField::of("n", &DataType::Int64)],
            expires: false,
        };
        let layout = StateLayout {
            event_time: Some(TimeColumn { column: 1, kind: TimeKind::Window }),
            variables: vec![variable],
            pages: Vec::new(),
        };
        let text = serde_json::to_string(&layout).unwrap();
        assert_eq!(
            text,
            "{\"event_time\":{\"column\":1,\"kind\":\"window\"},\"variables\":[{\"name\":\"seen\",\
             \"kind\":\"ValueState\",\"values\":[{\"name\":\"n\",\"data_type\":\"Int64\"}]}]}"
        );
        assert_eq!(serde_json::from_str::<StateLayout>(&text).unwrap(), layout);
    }
}
