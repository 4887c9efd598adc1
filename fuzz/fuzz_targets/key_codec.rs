//! Bytes where state keys should be: decoded or refused, and what was decoded is a key.
//!
//! The first byte chooses a layout and the types of the columns, the rest is a column of keys.

#![no_main]

use arrow::array::BinaryArray;
use fluvial_core::KeyGroupCount;
use fluvial_core::ddl::parse_ddl;
use fluvial_fuzz::cells;
use fluvial_state::{KeyCodec, KeyLayout};
use std::sync::LazyLock;

const COLUMNS: [&str; 9] = [
    "a BIGINT",
    "a STRING, b STRING",
    "a BOOLEAN, b TINYINT, c DECIMAL(10, 2), d DATE, e TIMESTAMP, f TIMESTAMP_NTZ, g VOID",
    "a FLOAT, b DOUBLE",
    "a BINARY, b ARRAY<STRING>",
    "a ARRAY<ARRAY<INT>>, b ARRAY<VOID>, c ARRAY<STRUCT<>>",
    "a STRUCT<x: BIGINT, y: STRUCT<z: STRING>>, b STRUCT<>",
    "a MAP<STRING, BIGINT>",
    "a MAP<INT, ARRAY<MAP<STRING, STRUCT<x: DOUBLE>>>>",
];

static CODECS: LazyLock<Vec<KeyCodec>> = LazyLock::new(|| {
    // With one key group, bytes need no hash in front of them to get any further.
    let groups = KeyGroupCount::new(1).expect("one is a count");
    let mut codecs = vec![];
    for layout in [KeyLayout::Key, KeyLayout::TimeKey, KeyLayout::KeyTime] {
        let none = KeyCodec::new(layout, Vec::new(), groups);
        codecs.push(none.expect("no column is a key"));
        for ddl in COLUMNS {
            let schema = parse_ddl(ddl).expect("the columns are DDL");
            let types = schema.fields().iter().map(|field| field.data_type().clone()).collect();
            codecs.push(KeyCodec::new(layout, types, groups).expect("the columns make a key"));
        }
    }
    codecs
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((choice, data)) = data.split_first() else { return };
    let codec = &CODECS[usize::from(*choice) % CODECS.len()];
    let cells = cells(data);
    let _ = codec.decode(&BinaryArray::from_iter_values(&cells));
    let keys = cells.iter().map(|cell| [&[0, 0], *cell].concat());
    let Ok(decoded) = codec.decode(&BinaryArray::from_iter_values(keys)) else { return };
    // Damage may have the form of a key that no encoder writes, such as another NaN; written
    // once more it is one, and then it stays what it is.
    let encode = |decoded: &fluvial_state::DecodedKeys| {
        let keys = codec.encode(&decoded.columns, decoded.times.as_ref(), cells.len());
        keys.expect("what was decoded can be encoded").keys
    };
    let keys = encode(&decoded);
    assert_eq!(encode(&codec.decode(&keys).expect("what was encoded can be decoded")), keys);
});
