//! The column `_metadata`: which file a row comes from.

use super::entry::FileEntry;
use super::place::FilePlace;
use arrow::array::{ArrayRef, Int64Array, StringArray, StructArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Fields};
use fluvial_core::{Result, ddl};
use std::ops::Range;
use std::sync::Arc;

/// The name of the column `_metadata`.
pub const METADATA: &str = "_metadata";

fn fields() -> Fields {
    let text = |name| Field::new(name, DataType::Utf8, true);
    let number = |name| Field::new(name, DataType::Int64, true);
    Fields::from(vec![
        text("file_path"),
        text("file_name"),
        number("file_size"),
        number("file_block_start"),
        number("file_block_length"),
        Field::new("file_modification_time", ddl::timestamp(), true),
    ])
}

/// The column `_metadata`: path, name, size and time of the file that a row comes from.
pub fn metadata_field() -> Field {
    Field::new(METADATA, DataType::Struct(fields()), true)
}

/// Its value for the rows of some bytes of a file, as an array of length 1.
pub(crate) fn value(place: &FilePlace, file: &FileEntry, range: &Range<u64>) -> Result<ArrayRef> {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    let number = |value: u64| -> ArrayRef { Arc::new(Int64Array::from(vec![value as i64])) };
    let modified = TimestampMicrosecondArray::from(vec![file.mtime.saturating_mul(1000)]);
    let values: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec![place.url(&file.path)])),
        Arc::new(StringArray::from(vec![name])),
        number(file.size),
        number(range.start),
        number(range.end - range.start),
        Arc::new(modified.with_timezone("UTC")),
    ];
    Ok(Arc::new(StructArray::try_new(fields(), values, None)?))
}
