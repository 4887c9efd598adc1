//! Files of JSON lines: any bytes are rows, however the store cuts them, good ones or malformed.
//!
//! The first byte is the size of the chunks.

#![no_main]

use arrow::datatypes::Schema;
use fluvial_core::ddl::parse_ddl;
use fluvial_fuzz::{File, is_other_encoding};
use fluvial_sources::FileFormat;
use std::sync::LazyLock;

const COLUMNS: &str = "a BIGINT, b STRING, c DOUBLE, d DECIMAL(10, 2), e TIMESTAMP, f DATE, \
    g ARRAY<INT>, h MAP<STRING, SMALLINT>, i STRUCT<x: BOOLEAN, y: BINARY>, j TIMESTAMP_NTZ, \
    k FLOAT, l TINYINT, _corrupt_record STRING";

static SCHEMA: LazyLock<Schema> =
    LazyLock::new(|| parse_ddl(COLUMNS).expect("the columns are DDL"));

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((chunk, bytes)) = data.split_first() else { return };
    let (format, schema) = (FileFormat::Json, Some(&*SCHEMA));
    let file = File { format, schema, options: Vec::new(), bytes };
    let rows = match file.read_in_pieces(*chunk) {
        Ok(rows) => rows,
        Err(error) if is_other_encoding(&error) => return,
        Err(error) => panic!("permissive reading takes anything: {error}"),
    };
    let corrupt = rows.column_by_name("_corrupt_record").expect("it was asked for");
    let dropped = file.with("mode", "DROPMALFORMED").read().expect("anything can be dropped");
    assert_eq!(dropped.num_rows(), corrupt.null_count(), "the good rows");
    let strict = file.with("mode", "FAILFAST").read();
    assert_eq!(strict.is_ok(), corrupt.null_count() == rows.num_rows(), "{strict:?}");
    let _ = file.inferred().read();
});
