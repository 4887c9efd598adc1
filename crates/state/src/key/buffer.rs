//! Keys being written: columns row by row into the buffers of a binary column.

use super::direct::Sources;
use super::layout::GROUP_BYTES;
use arrow::array::BinaryArray;
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::row::Rows;
use fluvial_core::{Error, KeyGroup, KeyGroupCount, Result};
use xxhash_rust::xxh3::xxh3_64;

/// Key columns that can be written row by row.
pub(super) enum Encoded {
    /// There are none.
    Nothing,
    Rows(Rows),
    Direct(Sources),
}

impl Encoded {
    /// Bytes of all rows.
    pub(super) fn length(&self, rows: usize) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Rows(encoded) => (0..rows).map(|i| encoded.row_len(i)).sum(),
            Self::Direct(sources) => (0..rows).map(|i| sources.length(i)).sum(),
        }
    }

    pub(super) fn put(&self, row: usize, out: &mut Vec<u8>) {
        match self {
            Self::Nothing => {}
            Self::Rows(encoded) => out.extend_from_slice(encoded.row(row).data()),
            Self::Direct(sources) => sources.put(row, out),
        }
    }
}

/// The buffers of a binary column, filled part by part.
pub(super) struct KeyBuffer {
    offsets: Vec<i32>,
    bytes: Vec<u8>,
}

impl KeyBuffer {
    pub(super) fn new(rows: usize, bytes: usize) -> Result<Self> {
        if i32::try_from(bytes).is_err() {
            return Err(Error::invalid(format!(
                "the keys of {rows} rows take {bytes} bytes: use smaller batches"
            )));
        }
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Ok(Self { offsets, bytes: Vec::with_capacity(bytes) })
    }

    pub(super) fn push(&mut self, part: &[u8]) {
        self.bytes.extend_from_slice(part);
    }

    /// Begins a key, with room for its group; returns where it begins.
    pub(super) fn open(&mut self) -> usize {
        self.push(&[0; GROUP_BYTES]);
        self.bytes.len() - GROUP_BYTES
    }

    /// Writes the columns of a row, and their group where the key begins.
    pub(super) fn put(
        &mut self,
        columns: &Encoded,
        row: usize,
        start: usize,
        all: KeyGroupCount,
    ) -> KeyGroup {
        let at = self.bytes.len();
        columns.put(row, &mut self.bytes);
        let group = all.group_of(xxh3_64(&self.bytes[at..]));
        self.bytes[start..start + GROUP_BYTES].copy_from_slice(&group.prefix());
        group
    }

    pub(super) fn end(&mut self) {
        // `new` made sure that the sum fits.
        self.offsets.push(self.bytes.len() as i32);
    }

    pub(super) fn finish(self) -> BinaryArray {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        BinaryArray::new(offsets, self.bytes.into(), None)
    }
}
