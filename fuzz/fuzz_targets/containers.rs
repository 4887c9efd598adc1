//! Files that carry their schema: any bytes are rows or an error.
//!
//! The first byte chooses Parquet, Avro or ORC.

#![no_main]

use arrow::datatypes::Schema;
use fluvial_core::ddl::parse_ddl;
use fluvial_fuzz::File;
use fluvial_sources::FileFormat;
use std::sync::LazyLock;

static SCHEMA: LazyLock<Schema> =
    LazyLock::new(|| parse_ddl("a BIGINT, s STRING, l ARRAY<BIGINT>").expect("it is DDL"));

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((first, bytes)) = data.split_first() else { return };
    let format = [FileFormat::Parquet, FileFormat::Avro, FileFormat::Orc][usize::from(first % 3)];
    let file = File { format, schema: Some(&*SCHEMA), options: Vec::new(), bytes };
    let _ = file.inferred().read();
    if let Err(error) = file.read() {
        assert!(error.condition().is_some(), "an error that says what it is: {error}");
    }
});
