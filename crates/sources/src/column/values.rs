//! The values of columns that are not nested.

use arrow::array::types::ArrowPrimitiveType;
use arrow::array::{
    BooleanArray, BooleanBufferBuilder, NullBufferBuilder, PrimitiveArray, StringArray,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use fluvial_core::Result;

/// Booleans.
#[derive(Debug)]
pub(crate) struct Bits {
    values: BooleanBufferBuilder,
    nulls: NullBufferBuilder,
}

/// Numbers of one width.
#[derive(Debug)]
pub(crate) struct Numbers<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    nulls: NullBufferBuilder,
}

/// Texts or bytes.
#[derive(Debug)]
pub(crate) struct Bytes {
    offsets: Vec<i32>,
    /// What is appended here becomes a value with [`Bytes::close`].
    pub(crate) values: Vec<u8>,
    nulls: NullBufferBuilder,
}

/// No column may hold more than this: offsets are 32 bits wide.
pub(crate) const MAX_BYTES: usize = i32::MAX as usize;

impl Bits {
    pub(super) fn new() -> Self {
        Self { values: BooleanBufferBuilder::new(0), nulls: NullBufferBuilder::new(0) }
    }

    pub(crate) fn push(&mut self, value: bool) {
        self.values.append(value);
        self.nulls.append_non_null();
    }

    pub(super) fn push_null(&mut self) {
        self.values.append(false);
        self.nulls.append_null();
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.values.truncate(len);
        self.nulls.truncate(len);
    }

    pub(super) fn finish(&mut self) -> BooleanArray {
        BooleanArray::new(self.values.finish(), self.nulls.finish())
    }
}

impl<T: ArrowPrimitiveType> Numbers<T> {
    pub(super) fn new() -> Self {
        Self { values: Vec::new(), nulls: NullBufferBuilder::new(0) }
    }

    #[inline]
    pub(crate) fn push(&mut self, value: T::Native) {
        self.values.push(value);
        self.nulls.append_non_null();
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    pub(super) fn push_null(&mut self) {
        self.values.push(T::Native::default());
        self.nulls.append_null();
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.values.truncate(len);
        self.nulls.truncate(len);
    }

    pub(super) fn finish(&mut self) -> PrimitiveArray<T> {
        let values = std::mem::take(&mut self.values);
        self.values.reserve(values.len());
        PrimitiveArray::new(values.into(), self.nulls.finish())
    }
}

impl Bytes {
    pub(crate) fn new() -> Self {
        Self { offsets: vec![0], values: Vec::new(), nulls: NullBufferBuilder::new(0) }
    }

    #[inline]
    pub(crate) fn push(&mut self, value: &[u8]) {
        self.values.extend_from_slice(value);
        self.close();
    }

    /// Makes a value of what was appended since the last one.
    #[inline]
    pub(crate) fn close(&mut self) {
        // A batch is flushed long before `MAX_BYTES`, and lines are shorter.
        self.offsets.push(self.values.len() as i32);
        self.nulls.append_non_null();
    }

    /// Drops what was appended since the last value.
    pub(crate) fn abandon(&mut self) {
        self.values.truncate(self.offsets.last().map_or(0, |end| *end as usize));
    }

    pub(crate) fn push_null(&mut self) {
        self.offsets.push(self.values.len() as i32);
        self.nulls.append_null();
    }

    pub(crate) fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.offsets.truncate(len + 1);
        self.nulls.truncate(len);
        self.abandon();
    }

    pub(super) fn parts(&mut self) -> (OffsetBuffer<i32>, Buffer, Option<NullBuffer>) {
        let offsets = std::mem::replace(&mut self.offsets, vec![0]);
        let values = std::mem::take(&mut self.values);
        self.offsets.reserve(offsets.len());
        self.values.reserve(values.len());
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        (offsets, Buffer::from_vec(values), self.nulls.finish())
    }

    pub(crate) fn finish_text(&mut self) -> Result<StringArray> {
        let (offsets, values, nulls) = self.parts();
        Ok(StringArray::try_new(offsets, values, nulls)?)
    }
}
