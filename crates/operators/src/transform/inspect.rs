//! Variables and timers of a processor as tables.

use super::layout::{self, VariableId};
use super::row_codec::RowCodec;
use crate::inspect::{
    Decode, Decoded, Seen, expiration_field, fields, group_column, group_field, types,
};
use arrow::array::{Array, ArrayRef, BinaryArray, Int64Array, UInt32Array};
use arrow::datatypes::{FieldRef, Fields};
use fluvial_core::{
    Entries, Error, KeyGroup, KeyGroupCount, KeyRange, Result, StateSchema, StateVariable,
    VariableKind,
};
use fluvial_state::{KeyCodec, KeyLayout};
use std::sync::Arc;

/// Bytes of a key group, and of the index of a list's element.
const GROUP_BYTES: usize = 2;
const INDEX_BYTES: usize = 8;

fn key_codec(schema: &StateSchema, key_groups: KeyGroupCount) -> Result<(Fields, KeyCodec)> {
    let fields = fields(&schema.keys)?;
    let codec = KeyCodec::new(KeyLayout::Key, types(&fields), key_groups)?;
    Ok((fields, codec))
}

/// One variable: a row for each value, element or entry.
#[derive(Debug)]
pub(crate) struct VariableTable {
    id: VariableId,
    kind: VariableKind,
    expires: bool,
    keys: KeyCodec,
    /// Of the keys of a map.
    map_keys: KeyCodec,
    values: RowCodec,
    key_fields: Fields,
    map_key_fields: Fields,
    value_fields: Fields,
}

impl VariableTable {
    pub(crate) fn new(schema: &StateSchema, name: &str, key_groups: KeyGroupCount) -> Result<Self> {
        let missing = || Error::invalid(format!("there is no state variable {name}"));
        let layout = schema.layout.as_ref().ok_or_else(missing)?;
        let is_it = |variable: &&StateVariable| variable.name == name;
        let variable = layout.variables.iter().find(is_it).ok_or_else(missing)?;
        let described = schema.values.iter().find(|field| field.name == name);
        let described = described.ok_or_else(missing)?;
        let (key_fields, keys) = key_codec(schema, key_groups)?;
        let (map_key_fields, value_fields) = (fields(&variable.keys)?, fields(&variable.values)?);
        let one = KeyGroupCount::new(1)?;
        Ok(Self {
            id: layout::variable_id(name, &described.data_type),
            kind: variable.kind,
            expires: variable.expires,
            keys,
            map_keys: KeyCodec::new(KeyLayout::Key, types(&map_key_fields), one)?,
            values: RowCodec::new(&value_fields, variable.expires)?,
            key_fields,
            map_key_fields,
            value_fields,
        })
    }

    fn value_name(&self) -> &'static str {
        match self.kind {
            VariableKind::Value => "value",
            VariableKind::List => "list_element",
            VariableKind::Map => "user_map_value",
        }
    }

    /// Which entries are values, and not the length of a list.
    fn is_value(&self, rest: &[u8]) -> bool {
        self.kind != VariableKind::List || rest.len() == INDEX_BYTES
    }

    /// The keys of a map, from what stands behind the keys of its entries.
    fn map_key(&self, rests: &[&[u8]]) -> Result<Option<ArrayRef>> {
        if self.kind != VariableKind::Map {
            return Ok(None);
        }
        let keys = rests.iter().map(|rest| [&[0; GROUP_BYTES], *rest].concat());
        let keys = self.map_keys.decode(&BinaryArray::from_iter_values(keys))?;
        group_column(&self.map_key_fields, keys.columns)
    }
}

impl Decode for VariableTable {
    fn fields(&self) -> Vec<FieldRef> {
        let key = group_field("key", &self.key_fields);
        let map_key = match self.kind {
            VariableKind::Map => group_field("user_map_key", &self.map_key_fields),
            VariableKind::Value | VariableKind::List => None,
        };
        let value = group_field(self.value_name(), &self.value_fields);
        let expiration = self.expires.then(expiration_field);
        key.into_iter().chain(map_key).chain(value).chain(expiration).collect()
    }

    fn ranges(&self, group: KeyGroup) -> Vec<KeyRange> {
        vec![layout::all(group, self.id)]
    }

    fn decode(&self, entries: &Entries, _: &mut Seen) -> Result<Decoded> {
        let names = (0..entries.keys.len()).map(|i| layout::parse_entry(entries.keys.value(i)));
        let names: Vec<Vec<u8>> = names.collect::<Result<_>>()?;
        let (keys, rests) = self.keys.split_off(names.iter().map(Vec::as_slice))?;
        let from: Vec<usize> = (0..rests.len()).filter(|i| self.is_value(rests[*i])).collect();
        let of = |column: &BinaryArray| {
            BinaryArray::from_iter_values(from.iter().map(|i| column.value(*i)))
        };
        let rests: Vec<&[u8]> = from.iter().map(|i| rests[*i]).collect();
        let key = group_column(&self.key_fields, self.keys.decode(&of(&keys))?.columns)?;
        let (values, expiries) = self.values.decode(&of(&entries.values))?;
        let value = group_column(&self.value_fields, values)?;
        let expiration: Option<ArrayRef> =
            self.expires.then(|| Arc::new(Int64Array::from(expiries)) as ArrayRef);
        let columns = key.into_iter().chain(self.map_key(&rests)?).chain(value).chain(expiration);
        let from = from.into_iter().map(|i| i as u32).collect::<UInt32Array>();
        Ok(Decoded { columns: columns.collect(), from: Some(from) })
    }
}

/// The timers of all keys, by time within each key group.
#[derive(Debug)]
pub(crate) struct TimerTable {
    keys: KeyCodec,
    key_fields: Fields,
}

impl TimerTable {
    pub(crate) fn new(schema: &StateSchema, key_groups: KeyGroupCount) -> Result<Self> {
        let (key_fields, keys) = key_codec(schema, key_groups)?;
        Ok(Self { keys, key_fields })
    }
}

impl Decode for TimerTable {
    fn fields(&self) -> Vec<FieldRef> {
        group_field("key", &self.key_fields).into_iter().chain([expiration_field()]).collect()
    }

    fn ranges(&self, group: KeyGroup) -> Vec<KeyRange> {
        vec![layout::timers(group)]
    }

    fn decode(&self, entries: &Entries, _: &mut Seen) -> Result<Decoded> {
        let (mut names, mut times) = (Vec::new(), Vec::new());
        for timer in (0..entries.keys.len()).map(|i| entries.keys.value(i)) {
            let (time, key) = layout::parse_timer(timer)?;
            let (group, _) = layout::split(timer);
            names.push([group, &key].concat());
            times.push(time);
        }
        let keys = self.keys.decode(&BinaryArray::from_iter_values(names))?.columns;
        let key = group_column(&self.key_fields, keys)?;
        let times: ArrayRef = Arc::new(Int64Array::from(times));
        Ok(Decoded { columns: key.into_iter().chain([times]).collect(), from: None })
    }
}
