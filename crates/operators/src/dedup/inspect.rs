//! Keys that have passed, as a table.

use super::expiry::keys_of;
use crate::event_time::EventTimeKey;
use crate::inspect::{Decode, Decoded, Seen, fields, group_column, group_field, key_fields, types};
use arrow::array::{Array, ArrayRef, BinaryArray, Int64Array};
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
        let keys = KeyCodec::new(key_layout, types(&key_fields), key_groups)?;
        Ok(Self { keys, key_fields, value_fields })
    }
}

fn expiries(values: &BinaryArray) -> Result<ArrayRef> {
    let expiry = |value: &[u8]| value.try_into().ok().map(i64::from_be_bytes);
    let expiries = (0..values.len()).map(|i| expiry(values.value(i))).collect::<Option<Vec<_>>>();
    let expiries = expiries.ok_or_else(|| Error::corrupt("the expiry of a key is damaged"))?;
    Ok(Arc::new(Int64Array::from(expiries)))
}

impl Decode for KeyTable {
    fn fields(&self) -> Vec<FieldRef> {
        let key = group_field("key", &self.key_fields);
        key.into_iter().chain(group_field("value", &self.value_fields)).collect()
    }

    fn ranges(&self, group: KeyGroup) -> Vec<KeyRange> {
        vec![keys_of(group)]
    }

    fn decode(&self, entries: &Entries, _: &mut Seen) -> Result<Decoded> {
        let keys = match self.key_fields.is_empty() {
            true => Vec::new(),
            false => self.keys.decode(&entries.keys)?.columns,
        };
        let key = group_column(&self.key_fields, keys)?;
        let value = match self.value_fields.is_empty() {
            true => None,
            false => group_column(&self.value_fields, vec![expiries(&entries.values)?])?,
        };
        Ok(Decoded { columns: key.into_iter().chain(value).collect(), from: None })
    }
}
