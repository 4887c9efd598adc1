//! The rows of one range of one partition, as Arrow columns.
//!
//! Whoever reads pushes what a broker delivers; what is not in the range, or was there already, is
//! dropped here: a client may deliver what it had buffered for an earlier position.

use crate::broker::{Incoming, TopicPartition};
use arrow::array::{ArrayBuilder, Int32Builder};
use arrow::array::{
    ArrayRef, BinaryBuilder, Int32Array, Int64Builder, ListBuilder, NullBufferBuilder, RecordBatch,
    RecordBatchOptions, StringArray, StringBuilder, StructBuilder, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use fluvial_core::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// Most rows and bytes of one record batch.
const ROWS_MAX: usize = 8192;
const BYTES_MAX: usize = 16 << 20;

const KEY: usize = 0;
const VALUE: usize = 1;
const TOPIC: usize = 2;
const PARTITION: usize = 3;
const OFFSET: usize = 4;
const TIMESTAMP: usize = 5;
const TIMESTAMP_TYPE: usize = 6;
const HEADERS: usize = 7;

/// The columns of Spark's Kafka source; `headers` only if they are asked for.
pub(crate) fn schema(headers: WithHeaders) -> SchemaRef {
    let mut fields = vec![
        Field::new("key", DataType::Binary, true),
        Field::new("value", DataType::Binary, true),
        Field::new("topic", DataType::Utf8, true),
        Field::new("partition", DataType::Int32, true),
        Field::new("offset", DataType::Int64, true),
        Field::new("timestamp", timestamp_type(), true),
        Field::new("timestampType", DataType::Int32, true),
    ];
    if headers == WithHeaders::Yes {
        fields.push(Field::new("headers", headers_type(), true));
    }
    Arc::new(Schema::new(fields))
}

/// Whether rows have the column `headers`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WithHeaders {
    Yes,
    No,
}

fn timestamp_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

fn header_fields() -> Fields {
    Fields::from(vec![
        Field::new("key", DataType::Utf8, true),
        Field::new("value", DataType::Binary, true),
    ])
}

/// A list of (key, value).
pub(crate) fn headers_type() -> DataType {
    DataType::List(Arc::new(Field::new("item", DataType::Struct(header_fields()), true)))
}

/// Collects the rows of a range, batch by batch.
pub struct RangeRows {
    place: TopicPartition,
    next: i64,
    until: i64,
    schema: SchemaRef,
    /// Which of Spark's columns, in order.
    columns: Vec<usize>,
    rows: Rows,
}

struct Rows {
    count: usize,
    bytes: usize,
    keys: Option<BinaryBuilder>,
    values: Option<BinaryBuilder>,
    offsets: Option<Int64Builder>,
    times: Vec<i64>,
    has_time: NullBufferBuilder,
    types: Option<Int32Builder>,
    headers: Option<ListBuilder<StructBuilder>>,
}

impl RangeRows {
    /// All columns of the records `from..until` of a partition, `headers` included.
    pub fn new(place: TopicPartition, from: i64, until: i64) -> Self {
        Self::projected(place, from, until, &schema(WithHeaders::Yes), None)
    }

    /// Some columns of `full`, which is a schema of this module.
    pub(crate) fn projected(
        place: TopicPartition,
        from: i64,
        until: i64,
        full: &SchemaRef,
        projection: Option<&[usize]>,
    ) -> Self {
        let all: Vec<usize> = (0..full.fields().len()).collect();
        let columns = projection.unwrap_or(&all).to_vec();
        let fields: Vec<_> = columns.iter().map(|c| Arc::clone(&full.fields()[*c])).collect();
        let schema = Arc::new(Schema::new(fields));
        let rows = Rows::new(&columns);
        Self { place, next: from, until, schema, columns, rows }
    }

    /// The partition.
    pub fn place(&self) -> &TopicPartition {
        &self.place
    }

    /// The next offset that is wanted.
    pub fn next_offset(&self) -> i64 {
        self.next
    }

    /// The end of the range, exclusive.
    pub fn until(&self) -> i64 {
        self.until
    }

    /// Whether the headers of records are wanted.
    pub fn wants_headers(&self) -> bool {
        self.columns.contains(&HEADERS)
    }

    /// Whether nothing of the range is to come.
    pub fn is_done(&self) -> bool {
        self.next >= self.until
    }

    /// Whether it is time to [`take`](Self::take) what was collected.
    pub fn is_full(&self) -> bool {
        self.rows.count >= ROWS_MAX || self.rows.bytes >= BYTES_MAX
    }

    /// Takes a record, unless it is not the range's, or was there already. Offsets that were
    /// skipped are gaps: markers of transactions, aborted records, compaction.
    pub fn push(&mut self, record: &Incoming<'_>) {
        if record.offset >= self.until {
            self.reached(record.offset);
        } else if record.offset >= self.next {
            self.next = record.offset + 1;
            self.rows.push(record);
        }
    }

    /// Learns that there is no record from the next offset up to `position`.
    pub fn reached(&mut self, position: i64) {
        self.next = self.next.max(position);
    }

    /// The same range from where this one stands, with nothing collected.
    #[must_use]
    pub(crate) fn rest(&self, from: i64) -> Self {
        Self {
            place: self.place.clone(),
            next: self.next.max(from),
            until: self.until,
            schema: Arc::clone(&self.schema),
            columns: self.columns.clone(),
            rows: Rows::new(&self.columns),
        }
    }

    /// What was collected since the last call; `None` if that is nothing.
    ///
    /// # Errors
    ///
    /// `Invalid` if the columns do not make a batch, which would be a mistake here.
    pub fn take(&mut self) -> Result<Option<RecordBatch>> {
        let rows = std::mem::replace(&mut self.rows, Rows::new(&self.columns));
        if rows.count == 0 {
            return Ok(None);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows.count));
        let columns = rows.finish(&self.place, &self.columns)?;
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?))
    }
}

impl fmt::Debug for RangeRows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RangeRows({} {}..{})", self.place, self.next, self.until)
    }
}

impl Rows {
    fn new(columns: &[usize]) -> Self {
        let has = |column| columns.contains(&column);
        let headers = || {
            let parts: Vec<Box<dyn ArrayBuilder>> =
                vec![Box::new(StringBuilder::new()), Box::new(BinaryBuilder::new())];
            ListBuilder::new(StructBuilder::new(header_fields(), parts))
        };
        Self {
            count: 0,
            bytes: 0,
            keys: has(KEY).then(BinaryBuilder::new),
            values: has(VALUE).then(BinaryBuilder::new),
            offsets: has(OFFSET).then(Int64Builder::new),
            times: Vec::new(),
            has_time: NullBufferBuilder::new(0),
            types: has(TIMESTAMP_TYPE).then(Int32Builder::new),
            headers: has(HEADERS).then(headers),
        }
    }

    fn push(&mut self, record: &Incoming<'_>) {
        self.count += 1;
        if let Some(keys) = &mut self.keys {
            keys.append_option(record.key);
            self.bytes += record.key.map_or(0, <[u8]>::len);
        }
        if let Some(values) = &mut self.values {
            values.append_option(record.value);
            self.bytes += record.value.map_or(0, <[u8]>::len);
        }
        if let Some(offsets) = &mut self.offsets {
            offsets.append_value(record.offset);
        }
        self.times.push(record.timestamp_ms.saturating_mul(1000));
        self.has_time.append(record.timestamp_type >= 0);
        if let Some(types) = &mut self.types {
            types.append_value(record.timestamp_type);
        }
        if let Some(headers) = &mut self.headers {
            self.bytes += push_headers(headers, record);
        }
    }

    fn finish(mut self, place: &TopicPartition, columns: &[usize]) -> Result<Vec<ArrayRef>> {
        let lost = || Error::invalid("a column was asked for twice: name it once");
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
        for column in columns {
            arrays.push(match *column {
                KEY => Arc::new(self.keys.take().ok_or_else(lost)?.finish()),
                VALUE => Arc::new(self.values.take().ok_or_else(lost)?.finish()),
                TOPIC => {
                    let name = std::iter::repeat_n(place.topic.as_ref(), self.count);
                    Arc::new(StringArray::from_iter_values(name))
                }
                PARTITION => Arc::new(Int32Array::from_value(place.partition, self.count)),
                OFFSET => Arc::new(self.offsets.take().ok_or_else(lost)?.finish()),
                TIMESTAMP => {
                    let times = std::mem::take(&mut self.times);
                    let valid = self.has_time.finish();
                    let times = TimestampMicrosecondArray::new(times.into(), valid);
                    Arc::new(times.with_timezone("UTC"))
                }
                TIMESTAMP_TYPE => Arc::new(self.types.take().ok_or_else(lost)?.finish()),
                _ => Arc::new(self.headers.take().ok_or_else(lost)?.finish()),
            });
        }
        Ok(arrays)
    }
}

/// Appends a record's headers, null if it has none; how many bytes that took.
fn push_headers(list: &mut ListBuilder<StructBuilder>, record: &Incoming<'_>) -> usize {
    let Some(headers) = record.headers else {
        list.append(false);
        return 0;
    };
    let mut bytes = 0;
    let each = list.values();
    headers.visit(&mut |name, value| {
        bytes += name.len() + value.map_or(0, <[u8]>::len);
        if let Some(names) = each.field_builder::<StringBuilder>(0) {
            names.append_value(name);
        }
        if let Some(values) = each.field_builder::<BinaryBuilder>(1) {
            values.append_option(value);
        }
        each.append(true);
    });
    list.append(true);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use arrow::datatypes::Int64Type;

    fn record(offset: i64) -> Incoming<'static> {
        let (key, value) = (Some(&b"k"[..]), Some(&b"v"[..]));
        Incoming { offset, key, value, timestamp_ms: 7, timestamp_type: 0, headers: None }
    }

    fn offsets(rows: &mut RangeRows) -> Vec<i64> {
        let batch = rows.take().unwrap();
        let column =
            |b: RecordBatch| b.column(OFFSET).as_primitive::<Int64Type>().values().to_vec();
        batch.map(column).unwrap_or_default()
    }

    /// Trap G8: what was buffered for another position comes late, twice, or from beyond.
    #[test]
    fn records_outside_of_the_range_are_dropped() {
        let mut rows = RangeRows::new(TopicPartition::new("t", 0), 100, 103);
        for offset in [101 - 50, 100, 101, 100, 102, 103] {
            rows.push(&record(offset));
        }
        assert!(rows.is_done());
        assert_eq!(offsets(&mut rows), [100, 101, 102]);
        assert_eq!(rows.take().unwrap(), None);
    }

    #[test]
    fn gaps_bring_the_range_to_its_end() {
        let mut rows = RangeRows::new(TopicPartition::new("t", 0), 5, 9);
        rows.push(&record(6));
        assert!(!rows.is_done());
        rows.reached(9);
        assert!(rows.is_done());
        assert_eq!(offsets(&mut rows), [6]);
    }

    #[test]
    fn a_record_without_a_time_has_none() {
        let mut rows = RangeRows::new(TopicPartition::new("t", 0), 0, 2);
        rows.push(&Incoming { timestamp_ms: -1, timestamp_type: -1, ..record(0) });
        rows.push(&record(1));
        let batch = rows.take().unwrap().unwrap();
        assert!(batch.column(TIMESTAMP).is_null(0) && batch.column(TIMESTAMP).is_valid(1));
        assert_eq!(batch.schema(), schema(WithHeaders::Yes));
    }

    #[test]
    fn no_column_still_has_rows() {
        let full = schema(WithHeaders::No);
        let place = TopicPartition::new("t", 0);
        let mut rows = RangeRows::projected(place, 0, 9, &full, Some(&[]));
        rows.push(&record(3));
        assert_eq!(rows.take().unwrap().unwrap().num_rows(), 1);
    }
}
