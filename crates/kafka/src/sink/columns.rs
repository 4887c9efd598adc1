//! The columns of a record: key, value, headers, topic, partition.

use crate::range_rows::headers_type;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int32Type, Schema};
use fluvial_core::{Error, Result};
use std::sync::Arc;

/// Which columns of the query's rows make records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Columns {
    value: usize,
    key: Option<usize>,
    headers: Option<usize>,
    topic: Option<usize>,
    partition: Option<usize>,
}

/// The columns of one batch, in the types of records.
pub(crate) struct Records<'a> {
    rows: usize,
    default_topic: Option<&'a str>,
    value: ArrayRef,
    key: Option<ArrayRef>,
    headers: Option<ArrayRef>,
    topic: Option<ArrayRef>,
    partition: Option<ArrayRef>,
}

fn unfit(message: String) -> Error {
    Error::invalid(message).with_condition("KAFKA_SINK_SCHEMA")
}

impl Columns {
    /// Finds the columns by Spark's names.
    ///
    /// # Errors
    ///
    /// `Invalid` (`KAFKA_SINK_SCHEMA`) if one is missing, has another type, or means nothing.
    pub(crate) fn of(schema: &Schema, topic: Option<&str>) -> Result<Self> {
        let mut columns =
            Self { value: usize::MAX, key: None, headers: None, topic: None, partition: None };
        for (index, field) in schema.fields().iter().enumerate() {
            let (fits, wanted) = match field.name().as_str() {
                "value" => (is_bytes(field.data_type()), "STRING or BINARY"),
                "key" => (is_bytes(field.data_type()), "STRING or BINARY"),
                "topic" => (is_text(field.data_type()), "STRING"),
                "partition" => (field.data_type() == &DataType::Int32, "INT"),
                "headers" => {
                    (is_headers(field.data_type()), "ARRAY<STRUCT<key: STRING, value: BINARY>>")
                }
                other => {
                    return Err(unfit(format!(
                        "column {other} means nothing to the Kafka sink: the columns are value, \
                         key, headers, topic and partition; put the others into value, as with \
                         to_json"
                    )));
                }
            };
            if !fits {
                return Err(unfit(format!(
                    "column {} has the type {}: the Kafka sink needs {wanted}; use CAST",
                    field.name(),
                    field.data_type()
                )));
            }
            match field.name().as_str() {
                "value" => columns.value = index,
                "key" => columns.key = Some(index),
                "topic" => columns.topic = Some(index),
                "partition" => columns.partition = Some(index),
                _ => columns.headers = Some(index),
            }
        }
        if columns.value == usize::MAX {
            return Err(unfit("the Kafka sink needs a column value".to_owned()));
        }
        if topic.is_none() && columns.topic.is_none() {
            return Err(unfit(
                "the Kafka sink needs a topic: the option topic, or a column topic".to_owned(),
            ));
        }
        if topic.is_some() {
            columns.topic = None;
        }
        Ok(columns)
    }

    /// The records of a batch.
    pub(crate) fn records<'a>(
        &self,
        batch: &RecordBatch,
        default_topic: Option<&'a str>,
    ) -> Result<Records<'a>> {
        let cast_to = |index: usize, to: &DataType| cast(batch.column(index), to);
        let optional =
            |index: Option<usize>, to: &DataType| index.map(|index| cast_to(index, to)).transpose();
        Ok(Records {
            rows: batch.num_rows(),
            default_topic,
            value: cast_to(self.value, &DataType::Binary)?,
            key: optional(self.key, &DataType::Binary)?,
            headers: optional(self.headers, &headers_type())?,
            topic: optional(self.topic, &DataType::Utf8)?,
            partition: self.partition.map(|index| Arc::clone(batch.column(index))),
        })
    }
}

/// One record, borrowed from columns.
pub(crate) struct Row<'a> {
    pub(crate) topic: &'a str,
    pub(crate) partition: Option<i32>,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
    pub(crate) headers: Vec<(&'a str, Option<&'a [u8]>)>,
}

impl Records<'_> {
    /// Calls `each` with every row.
    ///
    /// # Errors
    ///
    /// `Invalid` if a row has no topic, or a partition that cannot be.
    pub(crate) fn visit(&self, each: &mut dyn FnMut(&Row<'_>) -> Result<()>) -> Result<()> {
        let values = self.value.as_binary::<i32>();
        let keys = self.key.as_ref().map(|keys| keys.as_binary::<i32>());
        let topics = self.topic.as_ref().map(|topics| topics.as_string::<i32>());
        let partitions = self.partition.as_ref().map(|p| p.as_primitive::<Int32Type>());
        let headers = self.headers.as_ref().map(|headers| headers.as_list::<i32>());
        let names_and_values = headers.map(|headers| {
            let pairs = headers.values().as_struct();
            (pairs.column(0).as_string::<i32>(), pairs.column(1).as_binary::<i32>())
        });
        for row in 0..self.rows {
            let topic = match topics {
                Some(topics) => topics.is_valid(row).then(|| topics.value(row)),
                None => self.default_topic,
            };
            let Some(topic) = topic else {
                return Err(Error::invalid(
                    "a row has a null in its column topic: filter it out, or set the option topic",
                )
                .with_condition("KAFKA_NULL_TOPIC_IN_DATA"));
            };
            let partition = partitions.filter(|p| p.is_valid(row)).map(|p| p.value(row));
            if let Some(negative) = partition.filter(|p| *p < 0) {
                return Err(unfit(format!(
                    "a row has the partition {negative}: it must not be negative"
                )));
            }
            let mut pairs = Vec::new();
            if let (Some(lists), Some((names, contents))) = (headers, names_and_values)
                && lists.is_valid(row)
            {
                let ends = lists.value_offsets();
                for index in ends[row] as usize..ends[row + 1] as usize {
                    if names.is_null(index) {
                        return Err(unfit("a header of a row has no key".to_owned()));
                    }
                    let content = contents.is_valid(index).then(|| contents.value(index));
                    pairs.push((names.value(index), content));
                }
            }
            each(&Row {
                topic,
                partition,
                key: keys.filter(|keys| keys.is_valid(row)).map(|keys| keys.value(row)),
                value: values.is_valid(row).then(|| values.value(row)),
                headers: pairs,
            })?;
        }
        Ok(())
    }
}

fn is_text(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_bytes(kind: &DataType) -> bool {
    is_text(kind) || matches!(kind, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

fn is_headers(kind: &DataType) -> bool {
    let (DataType::List(item) | DataType::LargeList(item)) = kind else { return false };
    let DataType::Struct(fields) = item.data_type() else { return false };
    matches!(&fields[..], [key, value]
        if key.name() == "key" && is_text(key.data_type())
            && value.name() == "value" && is_bytes(value.data_type()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Field;

    fn of(fields: &[(&str, DataType)], topic: Option<&str>) -> Result<Columns> {
        let fields: Vec<Field> =
            fields.iter().map(|(n, t)| Field::new(*n, t.clone(), true)).collect();
        Columns::of(&Schema::new(fields), topic)
    }

    #[test]
    fn what_the_sink_cannot_write_is_refused_at_the_start() {
        let value = ("value", DataType::Utf8View);
        for (fields, topic, word) in [
            (vec![("key", DataType::Utf8)], Some("t"), "column value"),
            (vec![("value", DataType::Int64)], Some("t"), "CAST"),
            (vec![value.clone()], None, "topic"),
            (vec![value.clone(), ("partition", DataType::Int64)], Some("t"), "INT"),
            (vec![value.clone(), ("headers", DataType::Utf8)], Some("t"), "ARRAY"),
            (vec![value.clone(), ("extra", DataType::Utf8)], Some("t"), "extra"),
        ] {
            let error = of(&fields, topic).unwrap_err();
            assert_eq!(error.condition(), Some("KAFKA_SINK_SCHEMA"));
            assert!(error.message().contains(word), "{error}");
        }
        assert!(of(&[value, ("headers", headers_type())], Some("t")).is_ok());
    }
}
