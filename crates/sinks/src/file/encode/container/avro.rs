//! An Avro object container file: a block for each batch of rows.

use super::failed;
use crate::file::options::BlockCompression;
use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use arrow_avro::writer::{AvroWriter, WriterBuilder};
use fluvial_core::{Error, Result};
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

/// One file on its way.
pub(super) struct AvroFile {
    writer: Box<AvroWriter<Ready>>,
    ready: Ready,
}

/// Bytes that are taken from behind the library's writer, which owns what it writes to.
#[derive(Clone, Default)]
struct Ready(Arc<Mutex<Vec<u8>>>);

impl Ready {
    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for Ready {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AvroFile {
    /// # Errors
    ///
    /// `Invalid` if Avro has no place for a type.
    pub(super) fn new(compression: BlockCompression, schema: &Schema) -> Result<Self> {
        let ready = Ready::default();
        let writer = WriterBuilder::new(schema.clone())
            .with_compression(compression.codec())
            .build(ready.clone());
        let writer = writer.map_err(|error| {
            Error::invalid(format!("the columns cannot be written as Avro: {error}"))
                .with_condition("UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE")
        })?;
        Ok(Self { writer: Box::new(writer), ready })
    }

    pub(super) fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        self.writer.write(rows).map_err(|e| failed("Avro", &e))
    }

    pub(super) fn take_ready(&self) -> Vec<u8> {
        self.ready.take()
    }

    pub(super) fn finish(mut self) -> Result<Vec<u8>> {
        self.writer.finish().map_err(|e| failed("Avro", &e))?;
        Ok(self.ready.take())
    }
}
