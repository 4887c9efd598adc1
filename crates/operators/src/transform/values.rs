//! Variables that hold one value for each key.

use super::column::ColumnWriter;
use super::declare::Declared;
use super::layout;
use super::row_codec::RowCodec;
use super::state_row::StateRow;
use super::stored::{Block, Expiry, Stored, Tally, Writes, delete, get};
use arrow::array::{Array, ArrayRef, BinaryArray};
use fluvial_core::{Result, StateStore};
use std::any::Any;
use std::collections::BTreeMap;

/// One value for each key of the block.
pub(super) struct Values<T> {
    id: layout::VariableId,
    slot: usize,
    ttl_ms: Option<i64>,
    codec: RowCodec,
    /// What is stored, once somebody asked.
    loaded: Option<Loaded>,
    /// What handlers wrote or cleared, by position in the block.
    changed: BTreeMap<usize, Option<T>>,
    updated: u64,
    cleared: u64,
}

struct Loaded {
    keys: BinaryArray,
    found: BinaryArray,
    columns: Vec<ArrayRef>,
    expiries: Vec<Option<i64>>,
}

impl<T: StateRow> Values<T> {
    pub(super) fn new(declared: &Declared) -> Result<Self> {
        Ok(Self {
            id: declared.id,
            slot: declared.slot,
            ttl_ms: declared.ttl_ms,
            codec: RowCodec::new(&declared.fields, declared.ttl_ms.is_some())?,
            loaded: None,
            changed: BTreeMap::new(),
            updated: 0,
            cleared: 0,
        })
    }

    fn load(&mut self, block: &Block, state: &dyn StateStore) -> Result<&Loaded> {
        if self.loaded.is_none() {
            let keys = layout::variables(self.id, &block.keys);
            let found = state.get_many(&keys)?;
            let (columns, expiries) = self.codec.decode(&found)?;
            self.loaded = Some(Loaded { keys, found, columns, expiries });
        }
        Ok(self.loaded.as_ref().expect("it has just been loaded"))
    }

    pub(super) fn get(
        &mut self,
        block: &Block,
        at: usize,
        clock: Expiry,
        state: &dyn StateStore,
    ) -> Result<Option<T>> {
        if let Some(changed) = self.changed.get(&at) {
            return Ok(changed.clone());
        }
        let loaded = self.load(block, state)?;
        if loaded.found.is_null(at) || clock.is_over(loaded.expiries[at]) {
            return Ok(None);
        }
        T::read(&loaded.columns, at).map(Some)
    }

    pub(super) fn update(&mut self, at: usize, value: T) {
        self.updated += 1;
        self.changed.insert(at, Some(value));
    }

    pub(super) fn clear(&mut self, at: usize) {
        self.cleared += 1;
        self.changed.insert(at, None);
    }
}

impl<T: StateRow> Stored for Values<T> {
    fn flush(
        &mut self,
        block: &Block,
        clock: Expiry,
        state: &mut dyn StateStore,
        tally: &mut Tally,
    ) -> Result<()> {
        tally.updated += std::mem::take(&mut self.updated);
        tally.removed += std::mem::take(&mut self.cleared);
        let changed = std::mem::take(&mut self.changed);
        if !changed.is_empty() {
            self.load(block, state)?;
        }
        let Some(loaded) = self.loaded.take().filter(|_| !changed.is_empty()) else {
            return Ok(());
        };
        let mut writes = Writes::default();
        let mut columns = ColumnWriter::all(self.codec.fields());
        let expiry = clock.after(self.ttl_ms);
        for (at, value) in changed {
            let key = loaded.keys.value(at);
            let (was, before) = (loaded.found.is_valid(at), loaded.expiries[at]);
            tally.change(self.slot, key, i64::from(value.is_some()) - i64::from(was));
            match value {
                Some(value) => {
                    value.write(&mut columns)?;
                    writes.puts.push(key.to_vec());
                    writes.expires(key, before, expiry);
                }
                None if was => {
                    writes.deletes.push(key.to_vec());
                    writes.expires(key, before, None);
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
        let found = get(key, state)?;
        if found.is_null(0) {
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
