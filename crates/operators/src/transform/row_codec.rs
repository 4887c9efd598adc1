//! `RowCodec`: the values of a variable as bytes, with their expiry if there is a TTL.

use super::column::ColumnWriter;
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, Int64Array};
use arrow::datatypes::{DataType, Fields, Int64Type};
use fluvial_core::Result;
use fluvial_state::ValueCodec;
use std::sync::Arc;

/// Encodes and decodes rows of a variable.
#[derive(Debug)]
pub(super) struct RowCodec {
    fields: Fields,
    expires: bool,
    codec: ValueCodec,
}

impl RowCodec {
    pub(super) fn new(fields: &Fields, expires: bool) -> Result<Self> {
        let expiry = expires.then_some(DataType::Int64);
        let types = expiry.into_iter().chain(fields.iter().map(|f| f.data_type().clone()));
        let codec = ValueCodec::new(types.collect())?;
        Ok(Self { fields: fields.clone(), expires, codec })
    }

    pub(super) fn fields(&self) -> &Fields {
        &self.fields
    }

    /// The bytes of what was written, all with the same expiry.
    pub(super) fn encode(
        &self,
        columns: &mut [ColumnWriter],
        rows: usize,
        expiry: Option<i64>,
    ) -> Result<BinaryArray> {
        let mut all: Vec<ArrayRef> = Vec::with_capacity(columns.len() + 1);
        if self.expires {
            all.push(Arc::new(Int64Array::from(vec![expiry; rows])));
        }
        for column in columns {
            all.push(column.finish()?);
        }
        self.codec.encode(&all, rows)
    }

    /// The columns, and when each row expires.
    pub(super) fn decode(&self, values: &BinaryArray) -> Result<(Vec<ArrayRef>, Vec<Option<i64>>)> {
        let mut columns = self.codec.decode(values)?;
        if !self.expires {
            return Ok((columns, vec![None; values.len()]));
        }
        let expiry = columns.remove(0);
        let expiries = expiry.as_primitive::<Int64Type>().iter().collect();
        Ok((columns, expiries))
    }
}
