//! The rows of a join that wait, as a table.

use super::chunk;
use super::keys::{parse_chunk, rows_of};
use super::kind::Side;
use crate::inspect::{Decode, Decoded, fields, group_column, group_field, types};
use arrow::array::{Array, BinaryArray, BooleanArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use fluvial_core::{
    Entries, Error, KeyGroup, KeyGroupCount, KeyRange, Result, StateField, StateSchema,
};
use fluvial_state::{KeyCodec, KeyLayout, ValueCodec};
use std::sync::Arc;

/// The rows of one side.
#[derive(Debug)]
pub(crate) struct SideTable {
    side: Side,
    keys: KeyCodec,
    values: ValueCodec,
    key_fields: Fields,
    value_fields: Fields,
}

impl SideTable {
    pub(crate) fn new(schema: &StateSchema, side: Side, key_groups: KeyGroupCount) -> Result<Self> {
        let keys: Vec<StateField> = schema.keys.iter().map(|key| key_of(key, side)).collect();
        let mark = format!("{side}.");
        let own = schema.values.iter().filter_map(|field| {
            let name = field.name.strip_prefix(&mark)?.to_owned();
            Some(StateField { name, data_type: field.data_type.clone() })
        });
        let (key_fields, row) = (fields(&keys)?, fields(&own.collect::<Vec<_>>())?);
        let matched: FieldRef = Arc::new(Field::new("matched", DataType::Boolean, false));
        let value_fields = row.iter().cloned().chain([matched]).collect();
        Ok(Self {
            side,
            keys: KeyCodec::new(KeyLayout::Key, types(&key_fields), key_groups)?,
            values: ValueCodec::new(types(&row))?,
            key_fields,
            value_fields,
        })
    }
}

/// A key of both sides is recorded as `left = right`; to one side it is its own column.
fn key_of(key: &StateField, side: Side) -> StateField {
    let name = match (key.name.split_once(" = "), side) {
        (Some((left, _)), Side::Left) => left,
        (Some((_, right)), Side::Right) => right,
        (None, _) => &key.name,
    };
    StateField { name: name.to_owned(), data_type: key.data_type.clone() }
}

impl Decode for SideTable {
    fn fields(&self) -> Vec<FieldRef> {
        let key = group_field("key", &self.key_fields);
        key.into_iter().chain(group_field("value", &self.value_fields)).collect()
    }

    fn ranges(&self, group: KeyGroup) -> Vec<KeyRange> {
        rows_of(group, self.side).into()
    }

    fn decode(&self, entries: &Entries) -> Result<Decoded> {
        let (mut from, mut matched, mut rows) = (Vec::new(), Vec::new(), Vec::new());
        let mut names = Vec::with_capacity(entries.keys.len());
        for entry in 0..entries.keys.len() {
            let name = parse_chunk(entries.keys.value(entry));
            names.push(name.ok_or_else(|| Error::corrupt("the key of a join's rows is cut"))?);
            for row in chunk::read(entries.values.value(entry))?.1 {
                let row = row?;
                from.push(entry as u32);
                matched.push(row.matched);
                rows.push(row.columns);
            }
        }
        let from = UInt32Array::from(from);
        let keys = self.keys.decode(&BinaryArray::from_iter_values(names))?.columns;
        let keys = keys.iter().map(|key| take(key, &from, None)).collect::<Result<_, _>>()?;
        let mut values = self.values.decode_each(rows)?;
        values.push(Arc::new(BooleanArray::from(matched)));
        let key = group_column(&self.key_fields, keys)?;
        let value = group_column(&self.value_fields, values)?;
        Ok(Decoded { columns: key.into_iter().chain(value).collect(), from: Some(from) })
    }
}
