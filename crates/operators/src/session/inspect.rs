//! Sessions as a table.

use super::state::{all, windows};
use crate::inspect::{Decode, Decoded, Seen, fields, group_column, group_field, key_fields, types};
use arrow::array::AsArray;
use arrow::datatypes::{DataType, FieldRef, Fields, TimeUnit, TimestampMicrosecondType};
use fluvial_core::{
    Entries, Error, KeyGroup, KeyGroupCount, KeyRange, Result, StateLayout, StateSchema,
    TimeColumn, TimeKind,
};
use fluvial_state::{KeyCodec, KeyLayout, ValueCodec};

/// The open sessions of every key.
#[derive(Debug)]
pub(crate) struct SessionTable {
    /// Of the keys without the session.
    keys: KeyCodec,
    /// Of the end and what is aggregated.
    values: ValueCodec,
    key_fields: Fields,
    value_fields: Fields,
    /// Which key is the session.
    session: usize,
}

impl SessionTable {
    pub(crate) fn new(
        schema: &StateSchema,
        layout: &StateLayout,
        key_groups: KeyGroupCount,
    ) -> Result<Self> {
        let key_fields = key_fields(&schema.keys, layout.event_time)?;
        let value_fields = fields(&schema.values)?;
        let session = match layout.event_time {
            Some(TimeColumn { column, kind: TimeKind::Session }) if column < key_fields.len() => {
                column
            }
            _ => return Err(Error::invalid("the recorded layout of sessions names no session")),
        };
        let mut key_types = types(&key_fields);
        key_types.remove(session);
        let end = DataType::Timestamp(TimeUnit::Microsecond, None);
        let value_types = std::iter::once(end).chain(types(&value_fields)).collect();
        Ok(Self {
            keys: KeyCodec::new(KeyLayout::KeyTime, key_types, key_groups)?,
            values: ValueCodec::new(value_types)?,
            key_fields,
            value_fields,
            session,
        })
    }
}

impl Decode for SessionTable {
    fn fields(&self) -> Vec<FieldRef> {
        let key = group_field("key", &self.key_fields);
        key.into_iter().chain(group_field("value", &self.value_fields)).collect()
    }

    fn ranges(&self, group: KeyGroup) -> Vec<KeyRange> {
        vec![all(group)]
    }

    fn decode(&self, entries: &Entries, _: &mut Seen) -> Result<Decoded> {
        let decoded = self.keys.decode(&entries.keys)?;
        let starts =
            decoded.times.ok_or_else(|| Error::corrupt("a stored session has no start"))?;
        let mut states = self.values.decode(&entries.values)?;
        let ends = states.remove(0).as_primitive::<TimestampMicrosecondType>().clone();
        let mut keys = decoded.columns;
        let session = self.key_fields[self.session].data_type();
        keys.insert(self.session, windows(&starts, &ends, session)?);
        let key = group_column(&self.key_fields, keys)?;
        let value = group_column(&self.value_fields, states)?;
        Ok(Decoded { columns: key.into_iter().chain(value).collect(), from: None })
    }
}
