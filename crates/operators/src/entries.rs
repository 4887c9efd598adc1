//! Keys and values on their way into the state.

use arrow::array::BinaryArray;
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use fluvial_core::{Error, Result, StateStore};

/// Keys that one call to a store takes: many, so that a store that puts them in an order of its
/// own has several for each place.
pub(crate) const PIECE: usize = 32_768;

/// Values that are written in one call: [`PIECE`], or so many bytes of them.
const PUT_BYTES: usize = 64 << 20;

/// A binary column, filled part by part.
#[derive(Debug)]
pub(crate) struct Bytes {
    offsets: Vec<i32>,
    bytes: Vec<u8>,
}

impl Default for Bytes {
    fn default() -> Self {
        Self { offsets: vec![0], bytes: Vec::new() }
    }
}

impl Bytes {
    pub(crate) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// How many bytes there are.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes so far; the value that is being written is their end.
    pub(crate) fn open(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Ends the value that is being written.
    pub(crate) fn end(&mut self) -> Result<()> {
        let end = i32::try_from(self.bytes.len()).map_err(|_| {
            Error::invalid(
                "keys or rows of a key group take over 2 GiB in one write: use smaller batches",
            )
        })?;
        self.offsets.push(end);
        Ok(())
    }

    /// The column; this one is empty again.
    pub(crate) fn take(&mut self) -> BinaryArray {
        let Self { offsets, bytes } = std::mem::take(self);
        BinaryArray::new(OffsetBuffer::new(ScalarBuffer::from(offsets)), bytes.into(), None)
    }
}

/// Entries that are written together.
#[derive(Default)]
pub(crate) struct Puts {
    pub(crate) keys: Bytes,
    pub(crate) values: Bytes,
}

impl Puts {
    /// Ends the key and the value that are being written.
    pub(crate) fn end(&mut self, state: &mut dyn StateStore) -> Result<()> {
        self.keys.end()?;
        self.values.end()?;
        let is_full = self.keys.len() >= PIECE || self.values.bytes() >= PUT_BYTES;
        if is_full { self.flush(state) } else { Ok(()) }
    }

    /// Writes what there is.
    pub(crate) fn flush(&mut self, state: &mut dyn StateStore) -> Result<()> {
        if self.keys.len() == 0 {
            return Ok(());
        }
        state.put_many(&self.keys.take(), &self.values.take())
    }
}
