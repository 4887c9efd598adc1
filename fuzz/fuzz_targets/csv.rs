//! Files of separated values: any bytes are rows, however the store cuts them.
//!
//! The first byte is the size of the chunks, the second chooses options.

#![no_main]

use arrow::datatypes::Schema;
use fluvial_core::ddl::parse_ddl;
use fluvial_fuzz::File;
use fluvial_sources::FileFormat;
use std::sync::LazyLock;

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

static SCHEMA: LazyLock<Schema> =
    LazyLock::new(|| parse_ddl(COLUMNS).expect("the columns are DDL"));

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some(([chunk, given], bytes)) = data.split_first_chunk() else { return };
    let options = OPTIONS.into_iter().enumerate();
    let options = options.filter(|(i, _)| given >> i & 1 == 1).map(|(_, option)| option).collect();
    let (format, schema) = (FileFormat::Csv, Some(&*SCHEMA));
    let file = File { format, schema, options, bytes };
    let _ = file.inferred().read();
    // A header may be refused, since it must name the columns.
    let Ok(rows) = file.read_in_pieces(*chunk) else { return };
    let corrupt = rows.column_by_name("_corrupt_record").expect("it was asked for");
    let dropped = file.with("mode", "DROPMALFORMED").read().expect("anything can be dropped");
    assert_eq!(dropped.num_rows(), corrupt.null_count(), "the good rows");
    let strict = file.with("mode", "FAILFAST").read();
    assert_eq!(strict.is_ok(), corrupt.null_count() == rows.num_rows(), "{strict:?}");
});
