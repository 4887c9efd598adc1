//! How many rows wait, per key group: one small entry each, so that no batch has to count them.

use super::keys::{counts_key, group_of};
use crate::entries::Bytes;
use arrow::array::{Array, BinaryArray};
use fluvial_core::{Error, KeyGroup, KeyGroupRange, Result, StateStore};

/// The rows of the groups of one partition.
#[derive(Debug)]
pub(super) struct Counts {
    groups: KeyGroupRange,
    changes: Vec<i64>,
}

impl Counts {
    pub(super) fn new(groups: KeyGroupRange) -> Self {
        let groups_count = usize::from(groups.end.saturating_sub(groups.start));
        Self { groups, changes: vec![0; groups_count] }
    }

    /// The keys of all entries.
    pub(super) fn keys(&self) -> Result<BinaryArray> {
        let mut keys = Bytes::default();
        for group in self.groups.groups() {
            counts_key(keys.open(), group);
            keys.end()?;
        }
        Ok(keys.take())
    }

    /// Notes that rows came to a group, or left it. The group is that of a key.
    pub(super) fn add(&mut self, key: &[u8], rows: i64) {
        let KeyGroup(group) = group_of(key);
        if let Some(change) =
            self.changes.get_mut(usize::from(group.wrapping_sub(self.groups.start)))
        {
            *change += rows;
        }
    }

    /// Writes what was noted; returns how many rows there are.
    pub(super) fn write(&mut self, state: &mut dyn StateStore) -> Result<u64> {
        let keys = self.keys()?;
        let found = state.get_many(&keys)?;
        let (mut put, mut values, mut gone) =
            (Bytes::default(), Bytes::default(), Bytes::default());
        let mut total = 0;
        for (at, change) in self.changes.iter_mut().enumerate() {
            let before = match found.is_valid(at) {
                true => read(found.value(at))?,
                false => 0,
            };
            let after = before.checked_add_signed(*change).ok_or_else(|| {
                Error::corrupt("a key group of a join counts fewer rows than have left it")
            })?;
            total += after;
            if after == before {
                continue;
            }
            *change = 0;
            let key = keys.value(at);
            if after == 0 {
                gone.open().extend_from_slice(key);
                gone.end()?;
            } else {
                put.open().extend_from_slice(key);
                put.end()?;
                values.open().extend_from_slice(&after.to_le_bytes());
                values.end()?;
            }
        }
        state.put_many(&put.take(), &values.take())?;
        state.delete_many(&gone.take())?;
        Ok(total)
    }
}

fn read(value: &[u8]) -> Result<u64> {
    let bytes =
        value.try_into().map_err(|_| Error::corrupt("a join's count of rows is damaged"))?;
    Ok(u64::from_le_bytes(bytes))
}
