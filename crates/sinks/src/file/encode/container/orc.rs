//! An ORC file, made when all its rows are there.

use super::failed;
use crate::file::options::BlockCompression;
use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use fluvial_core::Result;
use orc_rust::ArrowWriterBuilder;

/// Rows of a file. The library's writer cannot move between threads, so that it must not wait for
/// an upload: it runs from its first row to its last in one go.
pub(super) struct OrcFile {
    compression: BlockCompression,
    schema: SchemaRef,
    rows: Vec<RecordBatch>,
    held_bytes: usize,
}

impl OrcFile {
    pub(super) fn new(compression: BlockCompression, schema: SchemaRef) -> Self {
        Self { compression, schema, rows: Vec::new(), held_bytes: 0 }
    }

    pub(super) fn write(&mut self, rows: RecordBatch) {
        // What cannot be measured is not held up for that.
        let bytes = |column: &dyn Array| column.to_data().get_slice_memory_size().unwrap_or(0);
        self.held_bytes += rows.columns().iter().map(|column| bytes(column)).sum::<usize>();
        self.rows.push(rows);
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    pub(super) fn finish(self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut builder = ArrowWriterBuilder::new(&mut bytes, self.schema);
        if let Some(kind) = self.compression.kind() {
            builder = builder.with_compression(kind);
        }
        let mut writer = builder.try_build().map_err(|e| failed("ORC", &e))?;
        for rows in &self.rows {
            writer.write(rows).map_err(|e| failed("ORC", &e))?;
        }
        writer.close().map_err(|e| failed("ORC", &e))?;
        Ok(bytes)
    }
}
