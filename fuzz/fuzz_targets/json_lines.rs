//! Files of JSON lines: any bytes are rows, however the store cuts them, good ones or malformed.
//!
//! The first byte is the size of the chunks.

#![no_main]

use fluvial_fuzz::File;
use fluvial_sources::FileFormat;

const COLUMNS: &str = "a BIGINT, b STRING, c DOUBLE, d DECIMAL(10, 2), e TIMESTAMP, f DATE, \
    g ARRAY<INT>, h MAP<STRING, SMALLINT>, i STRUCT<x: BOOLEAN, y: BINARY>, j TIMESTAMP_NTZ, \
    k FLOAT, l TINYINT, _corrupt_record STRING";

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((chunk, bytes)) = data.split_first() else { return };
    let (format, chunk) = (FileFormat::Json, usize::from(*chunk).max(1));
    let whole = File { format, ddl: Some(COLUMNS), options: Vec::new(), bytes, chunk: usize::MAX };
    let cut = File { chunk, ..whole.clone() };
    let rows = whole.read().expect("permissive reading takes anything");
    assert_eq!(cut.read().expect("permissive reading takes anything"), rows, "chunks");
    let corrupt = rows.column_by_name("_corrupt_record").expect("it was asked for");
    let dropped = cut.with("mode", "DROPMALFORMED").read().expect("anything can be dropped");
    assert_eq!(dropped.num_rows(), corrupt.null_count(), "the good rows");
    let strict = cut.with("mode", "FAILFAST").read();
    assert_eq!(strict.is_ok(), corrupt.null_count() == rows.num_rows(), "{strict:?}");
    // What is inferred fits.
    if let Err(error) = (File { ddl: None, ..cut }).with("mode", "FAILFAST").read() {
        assert!(corrupt.null_count() < rows.num_rows() || error.condition().is_some(), "{error}");
    }
});
