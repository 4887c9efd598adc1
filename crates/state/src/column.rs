//! A binary column being made.

use arrow::array::BinaryArray;
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use fluvial_core::{Error, Result};

/// A binary column being made, for backends: what they read has no bound of its own.
#[derive(Debug)]
pub struct Column {
    offsets: Vec<i32>,
    bytes: Vec<u8>,
    valid: Vec<bool>,
}

impl Column {
    /// An empty one, with room for so many rows of so many bytes together.
    pub fn new(rows: usize, bytes: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self { offsets, bytes: Vec::with_capacity(bytes), valid: Vec::with_capacity(rows) }
    }

    /// Adds a row.
    ///
    /// # Errors
    ///
    /// `Invalid` if the column takes more than 2 GiB.
    #[inline]
    pub fn push(&mut self, value: Option<&[u8]>) -> Result<()> {
        self.bytes.extend_from_slice(value.unwrap_or_default());
        self.valid.push(value.is_some());
        let end = i32::try_from(self.bytes.len()).map_err(|_| {
            Error::invalid("state of one read takes over 2 GiB: read fewer keys at once")
        })?;
        self.offsets.push(end);
        Ok(())
    }

    /// The column.
    pub fn finish(self) -> BinaryArray {
        let nulls = Some(NullBuffer::from(self.valid)).filter(|nulls| nulls.null_count() > 0);
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        BinaryArray::new(offsets, self.bytes.into(), nulls)
    }
}
