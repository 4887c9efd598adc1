//! Groups as a table.

use super::keys::GroupKeys;
use crate::event_time::EventTimeKey;
use crate::inspect::{Decode, Decoded, Seen, fields, group_column, group_field, key_fields, types};
use arrow::datatypes::{FieldRef, Fields};
use fluvial_core::{Entries, KeyGroup, KeyGroupCount, KeyRange, Result, StateLayout, StateSchema};
use fluvial_state::ValueCodec;

/// The groups of an aggregation, or the count of a limit, which lies there in the same way.
#[derive(Debug)]
pub(crate) struct GroupTable {
    keys: GroupKeys,
    values: ValueCodec,
    key_fields: Fields,
    value_fields: Fields,
}

impl GroupTable {
    pub(crate) fn new(
        schema: &StateSchema,
        layout: &StateLayout,
        key_groups: KeyGroupCount,
    ) -> Result<Self> {
        let key_fields = key_fields(&schema.keys, layout.event_time)?;
        let value_fields = fields(&schema.values)?;
        let event_time = EventTimeKey::of_recorded(layout.event_time);
        event_time.check(&key_fields.iter().map(|field| field.data_type()).collect::<Vec<_>>())?;
        let keys = GroupKeys::new(types(&key_fields), event_time, key_groups)?;
        let values = ValueCodec::new(types(&value_fields))?;
        Ok(Self { keys, values, key_fields, value_fields })
    }
}

impl Decode for GroupTable {
    fn fields(&self) -> Vec<FieldRef> {
        let key = group_field("key", &self.key_fields);
        key.into_iter().chain(group_field("value", &self.value_fields)).collect()
    }

    fn ranges(&self, group: KeyGroup) -> Vec<KeyRange> {
        vec![KeyRange::prefix(&group.prefix())]
    }

    fn decode(&self, entries: &Entries, _: &mut Seen) -> Result<Decoded> {
        let key = match self.key_fields.is_empty() {
            true => None,
            false => group_column(&self.key_fields, self.keys.decode(&entries.keys)?)?,
        };
        let value = group_column(&self.value_fields, self.values.decode(&entries.values)?)?;
        Ok(Decoded { columns: key.into_iter().chain(value).collect(), from: None })
    }
}
