//! The column `_metadata`: which file a row comes from.

use super::entry::FileEntry;
use super::place::FilePlace;
use crate::format::FileFormat;
use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Fields};
use fluvial_core::{Result, ddl};
use std::ops::Range;
use std::sync::Arc;

/// The name of the column `_metadata`.
pub const METADATA: &str = "_metadata";

fn fields(numbered: bool) -> Fields {
    let text = |name| Field::new(name, DataType::Utf8, true);
    let number = |name| Field::new(name, DataType::Int64, true);
    let mut fields = vec![
        text("file_path"),
        text("file_name"),
        number("file_size"),
        number("file_block_start"),
        number("file_block_length"),
        Field::new("file_modification_time", ddl::timestamp(), true),
    ];
    if numbered {
        fields.push(number("row_index"));
    }
    fields.into()
}

/// The column `_metadata`: path, name, size and time of the file that a row comes from.
pub fn metadata_field() -> Field {
    Field::new(METADATA, DataType::Struct(fields(false)), true)
}

/// The same, for Parquet with the number of the row in its file, from 0: see
/// [`FileSourceBuilder::with_row_index`](crate::FileSourceBuilder::with_row_index).
pub fn numbered_metadata_field(format: FileFormat) -> Field {
    Field::new(METADATA, DataType::Struct(fields(format == FileFormat::Parquet)), true)
}

/// Its value for the rows of some bytes of a file, as an array of length 1.
/// Where rows are numbered, the number is null until [`with_row_index`].
pub(crate) fn value(
    place: &FilePlace,
    file: &FileEntry,
    range: &Range<u64>,
    numbered: bool,
) -> Result<ArrayRef> {
    // The name is escaped like the path that it is the end of: as in Spark.
    let url = place.url(&file.path);
    let name = url.rsplit('/').next().unwrap_or_default().to_owned();
    let number = |value: u64| -> ArrayRef { Arc::new(Int64Array::from(vec![value as i64])) };
    let modified = TimestampMicrosecondArray::from(vec![file.mtime.saturating_mul(1000)]);
    let mut values: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(vec![url])),
        Arc::new(StringArray::from(vec![name])),
        number(file.size),
        number(range.start),
        number(range.end - range.start),
        Arc::new(modified.with_timezone("UTC")),
    ];
    if numbered {
        values.push(Arc::new(Int64Array::new_null(1)));
    }
    Ok(Arc::new(StructArray::try_new(fields(numbered), values, None)?))
}

/// The column with the numbers of its rows.
pub(crate) fn with_row_index(metadata: &ArrayRef, numbers: &ArrayRef) -> Result<ArrayRef> {
    let mut columns = metadata.as_struct().columns().to_vec();
    columns.pop();
    columns.push(numbers.clone());
    let rows = numbers.len();
    Ok(Arc::new(StructArray::try_new_with_length(fields(true), columns, None, rows)?))
}
