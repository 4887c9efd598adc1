//! Files of lines: any bytes are lines, however the store cuts them.
//!
//! The first byte is the size of the chunks.

#![no_main]

use arrow::datatypes::Schema;
use fluvial_core::ddl::parse_ddl;
use fluvial_fuzz::{File, is_other_encoding};
use fluvial_sources::FileFormat;
use std::sync::LazyLock;

static SCHEMA: LazyLock<Schema> =
    LazyLock::new(|| parse_ddl("value STRING").expect("the column is DDL"));

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((chunk, bytes)) = data.split_first() else { return };
    let (format, schema) = (FileFormat::Text, Some(&*SCHEMA));
    let file = File { format, schema, options: Vec::new(), bytes };
    if let Err(error) = file.read_in_pieces(*chunk) {
        assert!(is_other_encoding(&error), "any bytes are lines: {error}");
    }
});
