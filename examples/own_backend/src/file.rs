//! A version as an Arrow IPC file with the columns `key` and `value`.

use crate::store::Contents;
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch};
use arrow::ipc::reader::FileReader;
use arrow::ipc::writer::FileWriter;
use bytes::Bytes;
use fluvial_core::{Error, Result};
use std::io::Cursor;
use std::sync::Arc;

pub(crate) fn write(contents: &Contents) -> Result<Bytes> {
    let column = |column: BinaryArray| -> ArrayRef { Arc::new(column) };
    let rows = RecordBatch::try_from_iter([
        ("key", column(BinaryArray::from_iter_values(contents.keys()))),
        ("value", column(BinaryArray::from_iter_values(contents.values()))),
    ])?;
    let mut writer = FileWriter::try_new(Vec::new(), rows.schema_ref())?;
    writer.write(&rows)?;
    Ok(writer.into_inner()?.into())
}

pub(crate) fn read(bytes: Bytes) -> Result<Contents> {
    let mut contents = Contents::new();
    for rows in FileReader::try_new(Cursor::new(bytes), None)? {
        let rows = rows?;
        let column = |name: &str| rows.column_by_name(name).and_then(|c| c.as_binary_opt::<i32>());
        let (keys, values) = column("key")
            .zip(column("value"))
            .ok_or_else(|| Error::corrupt("it has no columns key and value of bytes"))?;
        for row in 0..keys.len() {
            contents.insert(keys.value(row).to_vec(), values.value(row).to_vec());
        }
    }
    Ok(contents)
}
