//! Files of separated values: any bytes are rows, however the store cuts them.
//!
//! The first byte is the size of the chunks, the second chooses options.

#![no_main]

use fluvial_fuzz::File;
use fluvial_sources::FileFormat;

const COLUMNS: &str = "a BIGINT, b STRING, c DOUBLE, d DECIMAL(10, 2), e TIMESTAMP, f DATE, \
    g BOOLEAN, _corrupt_record STRING";

/// Each bit of a byte is an option that is given or not.
const OPTIONS: [(&str, &str); 8] = [
    ("multiLine", "true"),
    ("header", "true"),
    ("quote", "'"),
    ("escape", "\""),
    ("comment", "#"),
    ("ignoreLeadingWhiteSpace", "true"),
    ("ignoreTrailingWhiteSpace", "true"),
    ("nullValue", "-"),
];

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some(([chunk, options], bytes)) = data.split_first_chunk() else { return };
    let given = |(i, option): (usize, (&'static str, &'static str))| {
        (options >> i & 1 == 1).then_some(option)
    };
    let options = OPTIONS.into_iter().enumerate().filter_map(given).collect();
    let (format, chunk) = (FileFormat::Csv, usize::from(*chunk).max(1));
    let whole = File { format, ddl: Some(COLUMNS), options, bytes, chunk: usize::MAX };
    let cut = File { chunk, ..whole.clone() };
    let rows = whole.read();
    match (&rows, cut.read()) {
        (Ok(rows), Ok(again)) => assert_eq!(rows, &again, "the chunks made a difference"),
        (Err(error), Err(again)) => assert_eq!(error.to_string(), again.to_string()),
        (one, other) => panic!("the chunks made a difference: {one:?}, {other:?}"),
    }
    let _ = File { ddl: None, ..cut.clone() }.read();
    let Ok(rows) = rows else { return };
    let corrupt = rows.column_by_name("_corrupt_record").expect("it was asked for");
    let dropped = cut.with("mode", "DROPMALFORMED").read().expect("anything can be dropped");
    assert_eq!(dropped.num_rows(), corrupt.null_count(), "the good rows");
    let strict = cut.with("mode", "FAILFAST").read();
    assert_eq!(strict.is_ok(), corrupt.null_count() == rows.num_rows(), "{strict:?}");
});
