//! Compressed files: any bytes are lines or an error.
//!
//! The first byte chooses the compression.

#![no_main]

use arrow::datatypes::Schema;
use fluvial_core::ddl::parse_ddl;
use fluvial_fuzz::File;
use fluvial_sources::FileFormat;
use std::sync::LazyLock;

const NAMES: [&str; 5] = ["in/f.gz", "in/f.deflate", "in/f.zst", "in/f.lz4", "in/f.snappy"];

static SCHEMA: LazyLock<Schema> =
    LazyLock::new(|| parse_ddl("value STRING").expect("the column is DDL"));

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((first, bytes)) = data.split_first() else { return };
    let name = NAMES[usize::from(*first) % NAMES.len()];
    let (format, schema) = (FileFormat::Text, Some(&*SCHEMA));
    let file = File { format, schema, options: Vec::new(), bytes };
    if let Err(error) = file.read_as(name) {
        assert!(error.condition().is_some(), "an error that says what it is: {error}");
    }
});
