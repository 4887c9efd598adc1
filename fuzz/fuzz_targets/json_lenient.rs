//! Files of JSON beyond the standard, in one of several encodings: any bytes are rows, however the
//! store cuts them.
//!
//! The first byte is the size of the chunks, the second chooses options.

#![no_main]

use arrow::datatypes::Schema;
use fluvial_core::ddl::parse_ddl;
use fluvial_fuzz::{File, is_other_encoding};
use fluvial_sources::FileFormat;
use std::sync::LazyLock;

const COLUMNS: &str = "a BIGINT, b STRING, c DOUBLE, d ARRAY<STRUCT<x: DATE>>, e TIMESTAMP, \
    _corrupt_record STRING";

/// Each bit of a byte is an option that is given or not.
const OPTIONS: [(&str, &str); 8] = [
    ("allowComments", "true"),
    ("allowUnquotedFieldNames", "true"),
    ("allowNumericLeadingZeros", "true"),
    ("allowBackslashEscapingAnyCharacter", "true"),
    ("allowUnquotedControlChars", "true"),
    ("multiLine", "true"),
    ("encoding", "UTF-16LE"),
    ("timestampFormat", "d/M/yyyy[ H:m[:ss.SSS]][X]"),
];

static SCHEMA: LazyLock<Schema> =
    LazyLock::new(|| parse_ddl(COLUMNS).expect("the columns are DDL"));

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some(([chunk, given], bytes)) = data.split_first_chunk() else { return };
    let options = OPTIONS.into_iter().enumerate();
    let options = options.filter(|(i, _)| given >> i & 1 == 1).map(|(_, option)| option).collect();
    let file = File { format: FileFormat::Json, schema: Some(&*SCHEMA), options, bytes };
    let rows = match file.read_in_pieces(*chunk) {
        Ok(rows) => rows,
        Err(error) if is_other_encoding(&error) => return,
        Err(error) => panic!("permissive reading takes anything: {error}"),
    };
    let corrupt = rows.column_by_name("_corrupt_record").expect("it was asked for");
    let strict = file.with("mode", "FAILFAST").read();
    assert_eq!(strict.is_ok(), corrupt.null_count() == rows.num_rows(), "{strict:?}");
    let _ = file.inferred().read();
});
