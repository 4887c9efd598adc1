//! Variables that hold a list for each key: an entry for its length, one for each element.

use super::column::ColumnWriter;
use super::declare::Declared;
use super::layout;
use super::row_codec::RowCodec;
use super::state_row::StateRow;
use super::stored::{Block, Expiry, Stored, Tally, Writes, delete, get, scan_all};
use arrow::array::{Array, BinaryArray};
use fluvial_core::{Error, Result, StateStore};
use std::any::Any;
use std::collections::BTreeMap;

/// A list for each key of the block.
pub(super) struct Lists<T> {
    name: String,
    id: layout::VariableId,
    slot: usize,
    ttl_ms: Option<i64>,
    codec: RowCodec,
    /// The lengths, once somebody asked.
    loaded: Option<Loaded>,
    /// What handlers changed, by position in the block.
    changed: BTreeMap<usize, Changed<T>>,
    removed: u64,
}

struct Loaded {
    keys: BinaryArray,
    lengths: Vec<Length>,
}

/// The length entry of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Length {
    /// How many elements there are.
    count: u64,
    /// The index of the next one.
    next: u64,
}

impl Length {
    fn read(bytes: &[u8]) -> Result<Self> {
        let read = || -> Option<Self> {
            let (count, next) = bytes.split_first_chunk::<8>()?;
            let next = next.first_chunk::<8>()?;
            Some(Self { count: u64::from_be_bytes(*count), next: u64::from_be_bytes(*next) })
        };
        read().ok_or_else(|| Error::corrupt("the length of a list in the state is cut"))
    }

    fn bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.count.to_be_bytes());
        bytes[8..].copy_from_slice(&self.next.to_be_bytes());
        bytes
    }
}

struct Changed<T> {
    /// Whether the stored elements are gone.
    replaced: bool,
    added: Vec<T>,
}

impl<T> Default for Changed<T> {
    fn default() -> Self {
        Self { replaced: false, added: Vec::new() }
    }
}

impl<T: StateRow> Lists<T> {
    pub(super) fn new(declared: &Declared) -> Result<Self> {
        Ok(Self {
            name: declared.name.clone(),
            id: declared.id,
            slot: declared.slot,
            ttl_ms: declared.ttl_ms,
            codec: RowCodec::new(&declared.fields, declared.ttl_ms.is_some())?,
            loaded: None,
            changed: BTreeMap::new(),
            removed: 0,
        })
    }

    fn load(&mut self, block: &Block, state: &dyn StateStore) -> Result<&Loaded> {
        if self.loaded.is_none() {
            let keys = layout::variables(self.id, &block.keys);
            let found = state.get_many(&keys)?;
            let length = |bytes: Option<&[u8]>| bytes.map_or(Ok(Length::default()), Length::read);
            let lengths = found.iter().map(length).collect::<Result<_>>()?;
            self.loaded = Some(Loaded { keys, lengths });
        }
        Ok(self.loaded.as_ref().expect("it has just been loaded"))
    }

    /// The elements, oldest first.
    pub(super) fn get(
        &mut self,
        block: &Block,
        at: usize,
        clock: Expiry,
        state: &dyn StateStore,
    ) -> Result<Vec<T>> {
        let mut elements = Vec::new();
        let changed = self.changed.get(&at);
        if changed.is_none_or(|changed| !changed.replaced) {
            let loaded = self.load(block, state)?;
            if loaded.lengths[at].count > 0 {
                let range = layout::inside(loaded.keys.value(at));
                scan_all(&range, state, |entries| {
                    let (columns, expiries) = self.codec.decode(&entries.values)?;
                    for (row, expiry) in expiries.iter().enumerate() {
                        if !clock.is_over(*expiry) {
                            elements.push(T::read(&columns, row)?);
                        }
                    }
                    Ok(())
                })?;
            }
        }
        let added = self.changed.get(&at).map(|changed| changed.added.iter().cloned());
        elements.extend(added.into_iter().flatten());
        Ok(elements)
    }

    pub(super) fn exists(
        &mut self,
        block: &Block,
        at: usize,
        clock: Expiry,
        state: &dyn StateStore,
    ) -> Result<bool> {
        if self.ttl_ms.is_some() {
            return Ok(!self.get(block, at, clock, state)?.is_empty());
        }
        match self.changed.get(&at) {
            Some(changed) if changed.replaced || !changed.added.is_empty() => {
                Ok(!changed.added.is_empty())
            }
            _ => Ok(self.load(block, state)?.lengths[at].count > 0),
        }
    }

    pub(super) fn append(&mut self, at: usize, values: Vec<T>) -> Result<()> {
        self.not_empty(&values)?;
        self.changed.entry(at).or_default().added.extend(values);
        Ok(())
    }

    pub(super) fn put(&mut self, at: usize, values: Vec<T>) -> Result<()> {
        self.not_empty(&values)?;
        self.changed.insert(at, Changed { replaced: true, added: values });
        Ok(())
    }

    pub(super) fn clear(
        &mut self,
        block: &Block,
        at: usize,
        state: &dyn StateStore,
        tally: &mut Tally,
    ) -> Result<()> {
        let stored = self.load(block, state)?.lengths[at].count;
        let changed = self.changed.entry(at).or_default();
        let added = std::mem::take(&mut changed.added).len() as u64;
        // As in Spark: what was written before counts as written and as removed.
        tally.updated += added;
        self.removed += added + if changed.replaced { 0 } else { stored };
        changed.replaced = true;
        Ok(())
    }

    fn not_empty(&self, values: &[T]) -> Result<()> {
        if !values.is_empty() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "an empty list was written to state variable {}: clear it instead",
            self.name
        ))
        .with_condition("ILLEGAL_STATE_STORE_VALUE.EMPTY_LIST_VALUE"))
    }

    /// Removes the stored elements of a list.
    fn remove_stored(
        &self,
        list: &[u8],
        state: &mut dyn StateStore,
        writes: &mut Writes,
    ) -> Result<()> {
        let range = layout::inside(list);
        if self.ttl_ms.is_some() {
            scan_all(&range, state, |entries| {
                let (_, expiries) = self.codec.decode(&entries.values)?;
                for (row, expiry) in expiries.into_iter().enumerate() {
                    writes.expires(entries.keys.value(row), expiry, None);
                }
                Ok(())
            })?;
        }
        state.delete_range(&range)?;
        Ok(())
    }
}

impl<T: StateRow> Stored for Lists<T> {
    fn flush(
        &mut self,
        block: &Block,
        clock: Expiry,
        state: &mut dyn StateStore,
        tally: &mut Tally,
    ) -> Result<()> {
        tally.removed += std::mem::take(&mut self.removed);
        let changed = std::mem::take(&mut self.changed);
        if !changed.is_empty() {
            self.load(block, state)?;
        }
        let Some(loaded) = self.loaded.take().filter(|_| !changed.is_empty()) else {
            return Ok(());
        };
        let (mut writes, mut lengths) = (Writes::default(), Writes::default());
        let mut new_lengths = Vec::new();
        let mut columns = ColumnWriter::all(self.codec.fields());
        let expiry = clock.after(self.ttl_ms);
        for (at, Changed { replaced, added }) in changed {
            let (list, before) = (loaded.keys.value(at), loaded.lengths[at]);
            let mut length = before;
            if replaced {
                if before.count > 0 {
                    self.remove_stored(list, state, &mut writes)?;
                }
                length = Length::default();
            }
            tally.updated += added.len() as u64;
            for element in added {
                element.write(&mut columns)?;
                let key = layout::element(list, length.next);
                writes.expires(&key, None, expiry);
                writes.puts.push(key);
                length = Length { count: length.count + 1, next: length.next + 1 };
            }
            tally.change(
                self.slot,
                list,
                i64::from(length.count > 0) - i64::from(before.count > 0),
            );
            match length.count {
                0 => lengths.deletes.push(list.to_vec()),
                _ => {
                    lengths.puts.push(list.to_vec());
                    new_lengths.push(length.bytes());
                }
            }
        }
        let values = self.codec.encode(&mut columns, writes.puts.len(), expiry)?;
        writes.apply(&values, state)?;
        lengths.apply(&BinaryArray::from_iter_values(new_lengths), state)
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
        layout::index_of(key)?;
        let list = &key[..key.len() - size_of::<u64>()];
        let found = get(list, state)?;
        if found.is_null(0) {
            return Err(Error::corrupt("a list in the state has elements and no length"));
        }
        let mut length = Length::read(found.value(0))?;
        length.count = length.count.saturating_sub(1);
        if length.count == 0 {
            delete(list, state)?;
            tally.change(self.slot, list, -1);
        } else {
            let keys = BinaryArray::from_iter_values([list]);
            state.put_many(&keys, &BinaryArray::from_iter_values([length.bytes()]))?;
        }
        Ok(true)
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}
