//! Variables that hold a map for each key: an entry for each of its keys.

use super::column::ColumnWriter;
use super::declare::Declared;
use super::layout;
use super::row_codec::RowCodec;
use super::state_row::StateRow;
use super::stored::{Block, Expiry, Stored, Tally, Writes, delete, get, scan_all};
use arrow::array::{Array, ArrayRef, BinaryArray};
use arrow::datatypes::Fields;
use fluvial_core::{Entries, KeyGroupCount, Result, StateStore};
use fluvial_state::{KeyCodec, KeyLayout};
use std::any::Any;
use std::collections::BTreeMap;
use std::marker::PhantomData;

/// A map for each key of the block.
pub(super) struct Maps<K, V> {
    id: layout::VariableId,
    slot: usize,
    ttl_ms: Option<i64>,
    keys: MapKeys<K>,
    codec: RowCodec,
    /// What handlers changed, by position in the block.
    changed: BTreeMap<usize, Changed<K, V>>,
    updated: u64,
    removed: u64,
}

struct Changed<K, V> {
    /// Whether the stored entries are gone.
    cleared: bool,
    /// By encoded map key.
    entries: BTreeMap<Vec<u8>, Option<(K, V)>>,
}

impl<K, V> Default for Changed<K, V> {
    fn default() -> Self {
        Self { cleared: false, entries: BTreeMap::new() }
    }
}

/// The codec of map keys: that of state keys, without key groups.
struct MapKeys<K> {
    fields: Fields,
    codec: KeyCodec,
    of: PhantomData<fn() -> K>,
}

/// Bytes of a key group in front of a key.
const GROUP_BYTES: usize = 2;

impl<K: StateRow> MapKeys<K> {
    fn encode(&self, key: &K) -> Result<Vec<u8>> {
        let mut columns = ColumnWriter::all(&self.fields);
        key.write(&mut columns)?;
        let columns: Vec<ArrayRef> =
            columns.iter_mut().map(ColumnWriter::finish).collect::<Result<_>>()?;
        let encoded = self.codec.encode(&columns, None, 1)?.keys;
        Ok(encoded.value(0)[GROUP_BYTES..].to_vec())
    }

    /// The columns of the map keys behind the first `prefix` bytes of state keys.
    fn decode(&self, keys: &BinaryArray, prefix: usize) -> Result<Vec<ArrayRef>> {
        let key = |i: usize| [&[0; GROUP_BYTES], &keys.value(i)[prefix..]].concat();
        let keys = BinaryArray::from_iter_values((0..keys.len()).map(key));
        Ok(self.codec.decode(&keys)?.columns)
    }
}

impl<K: StateRow, V: StateRow> Maps<K, V> {
    pub(super) fn new(declared: &Declared) -> Result<Self> {
        let types = declared.key_fields.iter().map(|f| f.data_type().clone()).collect();
        let one = KeyGroupCount::new(1)?;
        Ok(Self {
            id: declared.id,
            slot: declared.slot,
            ttl_ms: declared.ttl_ms,
            keys: MapKeys {
                fields: declared.key_fields.clone(),
                codec: KeyCodec::new(KeyLayout::Key, types, one)?,
                of: PhantomData,
            },
            codec: RowCodec::new(&declared.fields, declared.ttl_ms.is_some())?,
            changed: BTreeMap::new(),
            updated: 0,
            removed: 0,
        })
    }

    fn map(&self, block: &Block, at: usize) -> Vec<u8> {
        layout::variable(self.id, block.key(at))
    }

    pub(super) fn get(
        &self,
        block: &Block,
        at: usize,
        key: &K,
        clock: Expiry,
        state: &dyn StateStore,
    ) -> Result<Option<V>> {
        let encoded = self.keys.encode(key)?;
        if let Some(changed) = self.changed.get(&at) {
            match changed.entries.get(&encoded) {
                Some(entry) => return Ok(entry.as_ref().map(|(_, value)| value.clone())),
                None if changed.cleared => return Ok(None),
                None => {}
            }
        }
        let found = get(&[self.map(block, at), encoded].concat(), state)?;
        if found.is_null(0) {
            return Ok(None);
        }
        let (columns, expiries) = self.codec.decode(&found)?;
        if clock.is_over(expiries[0]) {
            return Ok(None);
        }
        V::read(&columns, 0).map(Some)
    }

    /// All entries in the order of their keys.
    pub(super) fn entries(
        &self,
        block: &Block,
        at: usize,
        clock: Expiry,
        state: &dyn StateStore,
    ) -> Result<Vec<(K, V)>> {
        let mut all: BTreeMap<Vec<u8>, (K, V)> = BTreeMap::new();
        let changed = self.changed.get(&at);
        if changed.is_none_or(|changed| !changed.cleared) {
            let map = self.map(block, at);
            scan_all(&layout::inside(&map), state, |entries| {
                self.read(&map, entries, clock, &mut all)
            })?;
        }
        for (key, entry) in changed.iter().flat_map(|changed| &changed.entries) {
            match entry {
                Some(entry) => all.insert(key.clone(), entry.clone()),
                None => all.remove(key),
            };
        }
        Ok(all.into_values().collect())
    }

    fn read(
        &self,
        map: &[u8],
        entries: &Entries,
        clock: Expiry,
        all: &mut BTreeMap<Vec<u8>, (K, V)>,
    ) -> Result<()> {
        let keys = self.keys.decode(&entries.keys, map.len())?;
        let (values, expiries) = self.codec.decode(&entries.values)?;
        for (row, expiry) in expiries.into_iter().enumerate() {
            if !clock.is_over(expiry) {
                let key = entries.keys.value(row)[map.len()..].to_vec();
                all.insert(key, (K::read(&keys, row)?, V::read(&values, row)?));
            }
        }
        Ok(())
    }

    pub(super) fn update(&mut self, at: usize, key: K, value: V) -> Result<()> {
        let encoded = self.keys.encode(&key)?;
        self.updated += 1;
        let changed = self.changed.entry(at).or_default();
        changed.entries.insert(encoded, Some((key, value)));
        Ok(())
    }

    pub(super) fn remove(&mut self, at: usize, key: &K) -> Result<()> {
        let encoded = self.keys.encode(key)?;
        self.removed += 1;
        self.changed.entry(at).or_default().entries.insert(encoded, None);
        Ok(())
    }

    pub(super) fn clear(
        &mut self,
        block: &Block,
        at: usize,
        clock: Expiry,
        state: &dyn StateStore,
    ) -> Result<()> {
        self.removed += self.entries(block, at, clock, state)?.len() as u64;
        self.changed.insert(at, Changed { cleared: true, entries: BTreeMap::new() });
        Ok(())
    }

    /// Removes the stored entries of a map.
    fn remove_stored(
        &self,
        map: &[u8],
        state: &mut dyn StateStore,
        writes: &mut Writes,
        tally: &mut Tally,
    ) -> Result<()> {
        let range = layout::inside(map);
        if self.ttl_ms.is_some() {
            scan_all(&range, state, |entries| {
                let (_, expiries) = self.codec.decode(&entries.values)?;
                for (row, expiry) in expiries.into_iter().enumerate() {
                    writes.expires(entries.keys.value(row), expiry, None);
                }
                Ok(())
            })?;
        }
        let removed = state.delete_range(&range)?;
        tally.change(self.slot, map, -i64::try_from(removed).unwrap_or(i64::MAX));
        Ok(())
    }
}

impl<K: StateRow, V: StateRow> Stored for Maps<K, V> {
    fn flush(
        &mut self,
        block: &Block,
        clock: Expiry,
        state: &mut dyn StateStore,
        tally: &mut Tally,
    ) -> Result<()> {
        tally.updated += std::mem::take(&mut self.updated);
        tally.removed += std::mem::take(&mut self.removed);
        let changed = std::mem::take(&mut self.changed);
        if changed.is_empty() {
            return Ok(());
        }
        let mut writes = Writes::default();
        let (mut keys, mut entries) = (Vec::new(), Vec::new());
        for (at, changed) in changed {
            let map = self.map(block, at);
            if changed.cleared {
                self.remove_stored(&map, state, &mut writes, tally)?;
            }
            for (key, entry) in changed.entries {
                keys.push([map.as_slice(), &key].concat());
                entries.push(entry.map(|(_, value)| value));
            }
        }
        let found = state.get_many(&BinaryArray::from_iter_values(&keys))?;
        let (_, expiries) = self.codec.decode(&found)?;
        let mut columns = ColumnWriter::all(self.codec.fields());
        let expiry = clock.after(self.ttl_ms);
        for (i, (key, value)) in keys.into_iter().zip(entries).enumerate() {
            let (was, before) = (found.is_valid(i), expiries[i]);
            tally.change(self.slot, &key, i64::from(value.is_some()) - i64::from(was));
            match value {
                Some(value) => {
                    value.write(&mut columns)?;
                    writes.expires(&key, before, expiry);
                    writes.puts.push(key);
                }
                None if was => {
                    writes.expires(&key, before, None);
                    writes.deletes.push(key);
                }
                None => {}
            }
        }
        let values = self.codec.encode(&mut columns, writes.puts.len(), expiry)?;
        writes.apply(&values, state)
    }

    fn expire(
        &mut self,
        key: &[u8],
        state: &mut dyn StateStore,
        tally: &mut Tally,
    ) -> Result<bool> {
        if get(key, state)?.is_null(0) {
            return Ok(false);
        }
        delete(key, state)?;
        tally.change(self.slot, key, -1);
        Ok(true)
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
