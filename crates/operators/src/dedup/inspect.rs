//! Keys that have passed, as a table.

use super::FORMAT_WITHIN;
use super::within::{GROUP_BYTES, PAGES};
use crate::entries::Bytes;
use crate::event_time::EventTimeKey;
use crate::inspect::{Decode, Decoded, Seen, fields, group_column, group_field, key_fields, types};
use crate::pages::{Ledger, Stored, read, read_times};
use arrow::array::{Array, ArrayRef, BinaryArray, Int64Array, UInt32Array};
use arrow::datatypes::{FieldRef, Fields};
use fluvial_core::{
    Entries, Error, KeyGroup, KeyGroupCount, KeyRange, Result, StateLayout, StateSchema,
};
use fluvial_state::{KeyCodec, KeyLayout};
use std::sync::Arc;

/// The keys of a deduplication, and when they expire where that is stored.
#[derive(Debug)]
pub(crate) struct KeyTable {
    keys: KeyCodec,
    key_fields: Fields,
    /// The expiry, if there is one.
    value_fields: Fields,
}

impl KeyTable {
    pub(crate) fn new(
        schema: &StateSchema,
        layout: &StateLayout,
        key_groups: KeyGroupCount,
    ) -> Result<Self> {
        let key_fields = key_fields(&schema.keys, layout.event_time)?;
        let value_fields = fields(&schema.values)?;
        let key_layout = match EventTimeKey::of_recorded(layout.event_time) {
            EventTimeKey::None => KeyLayout::Key,
            EventTimeKey::Column(_) | EventTimeKey::Window(_) => KeyLayout::TimeKey,
        };
        if !value_fields.is_empty() && schema.format != FORMAT_WITHIN {
            return Err(Error::invalid(format!(
                "the state of {} has format {}, this version reads {FORMAT_WITHIN}: read it with \
                 the version of Fluvial that wrote it",
                schema.kind, schema.format
            )));
        }
        let keys = KeyCodec::new(key_layout, types(&key_fields), key_groups)?;
        Ok(Self { keys, key_fields, value_fields })
    }
}

impl KeyTable {
    /// Whether keys lie in pages: those that expire.
    fn is_paged(&self) -> bool {
        !self.value_fields.is_empty()
    }

    fn key_columns(&self, keys: &BinaryArray) -> Result<Option<ArrayRef>> {
        let columns = match self.key_fields.is_empty() {
            true => Vec::new(),
            false => self.keys.decode(keys)?.columns,
        };
        group_column(&self.key_fields, columns)
    }
}

impl Decode for KeyTable {
    fn fields(&self) -> Vec<FieldRef> {
        let key = group_field("key", &self.key_fields);
        key.into_iter().chain(group_field("value", &self.value_fields)).collect()
    }

    fn ranges(&self, group: KeyGroup) -> Vec<KeyRange> {
        match self.is_paged() {
            true => PAGES.ranges(group).into(),
            false => vec![KeyRange::prefix(&group.prefix())],
        }
    }

    fn decode(&self, entries: &Entries, seen: &mut Seen) -> Result<Decoded> {
        if !self.is_paged() {
            let columns = self.key_columns(&entries.keys)?;
            return Ok(Decoded { columns: columns.into_iter().collect(), from: None });
        }
        let (mut keys, mut expiries, mut from) = (Bytes::default(), Vec::new(), Vec::new());
        for at in 0..entries.keys.len() {
            let (key, value) = (entries.keys.value(at), entries.values.value(at));
            match PAGES.parse(key) {
                Some(Stored::Ledger) => seen.ledger = Ledger::read(value)?,
                Some(Stored::Times(block)) => {
                    let first = seen.ledger.block(block)?.first;
                    seen.times = read_times(value, first)?.into();
                }
                Some(Stored::Page(block)) => {
                    let left = seen.ledger.block(block)?.left_until();
                    for row in read(value)? {
                        let (_, row) = row?;
                        let expiry = seen.times.pop_front();
                        let expiry = expiry.ok_or_else(|| Error::corrupt("keys have no expiry"))?;
                        if left.is_none_or(|left| expiry > left) {
                            keys.open().extend_from_slice(&key[..GROUP_BYTES]);
                            keys.open().extend_from_slice(row);
                            keys.end()?;
                            expiries.push(expiry);
                            from.push(at as u32);
                        }
                    }
                }
                None => return Err(Error::corrupt("a state key of duplicates is damaged")),
            }
        }
        let key = self.key_columns(&keys.take())?;
        let expiries: ArrayRef = Arc::new(Int64Array::from(expiries));
        let value = group_column(&self.value_fields, vec![expiries])?;
        let columns = key.into_iter().chain(value).collect();
        Ok(Decoded { columns, from: Some(UInt32Array::from(from)) })
    }
}
