//! Bytes where state values should be: decoded or refused, and what was decoded is a value.
//!
//! The first byte chooses the types of the columns, the rest is a column of values.

#![no_main]

use arrow::array::BinaryArray;
use arrow::datatypes::{DataType, Field, IntervalUnit};
use fluvial_core::ddl::parse_ddl;
use fluvial_fuzz::cells;
use fluvial_state::ValueCodec;
use std::sync::{Arc, LazyLock};

const COLUMNS: [&str; 8] = [
    "a BIGINT",
    "a STRING, b STRING",
    "a BOOLEAN, b TINYINT, c DECIMAL(10, 2), d DATE, e TIMESTAMP, f TIMESTAMP_NTZ, g VOID",
    "a FLOAT, b DOUBLE, c SMALLINT, d INT, e BIGINT, f INT, g INT, h INT, i INT",
    "a BINARY, b ARRAY<STRING>",
    "a ARRAY<ARRAY<INT>>, b ARRAY<VOID>, c ARRAY<STRUCT<>>",
    "a STRUCT<x: BIGINT, y: STRUCT<z: STRING>>, b STRUCT<>",
    "a MAP<INT, ARRAY<MAP<STRING, STRUCT<x: DOUBLE>>>>",
];

/// Types that Spark's DDL has no words for.
fn others() -> Vec<DataType> {
    let item = |data_type| Arc::new(Field::new("item", data_type, true));
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    vec![
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::BinaryView,
        DataType::FixedSizeBinary(3),
        DataType::FixedSizeBinary(0),
        DataType::FixedSizeList(item(DataType::Int16), 3),
        DataType::FixedSizeList(item(DataType::Utf8), 0),
        DataType::LargeList(item(DataType::FixedSizeBinary(0))),
        DataType::LargeList(item(dictionary.clone())),
        DataType::Interval(IntervalUnit::DayTime),
        DataType::Interval(IntervalUnit::MonthDayNano),
        DataType::Decimal256(60, 5),
        dictionary,
    ]
}

static CODECS: LazyLock<Vec<ValueCodec>> = LazyLock::new(|| {
    let columns = COLUMNS.iter().map(|ddl| {
        let schema = parse_ddl(ddl).expect("the columns are DDL");
        schema.fields().iter().map(|field| field.data_type().clone()).collect()
    });
    let types: Vec<Vec<DataType>> = [vec![], others()].into_iter().chain(columns).collect();
    let codecs = types.into_iter().map(|types| ValueCodec::new(types).expect("state holds these"));
    codecs.collect()
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((choice, data)) = data.split_first() else { return };
    let codec = &CODECS[usize::from(*choice) % CODECS.len()];
    let cells = cells(data);
    let Ok(columns) = codec.decode(&BinaryArray::from_iter_values(&cells)) else { return };
    let values = codec.encode(&columns, cells.len()).expect("what was decoded can be encoded");
    let again = codec.decode(&values).expect("what was encoded can be decoded");
    assert_eq!(codec.encode(&again, cells.len()).expect("it can be again"), values);
});
