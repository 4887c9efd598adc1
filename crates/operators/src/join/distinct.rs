//! `Distinct`: the keys of a batch, those of both sides numbered together, and what is known of
//! them.

use crate::numbers::KeyNumbers;
use crate::pages::tag_of;
use arrow::array::{Array, BinaryArray, BooleanArray, TimestampMicrosecondArray};
use fluvial_core::Result;

/// The keys of rows, and what is known of them. Equally long.
pub(super) struct Keys<'a> {
    pub(super) keys: &'a BinaryArray,
    /// Their times, where keys have one.
    pub(super) times: Option<&'a TimestampMicrosecondArray>,
    /// Which of them match nothing.
    pub(super) nulls: Option<&'a BooleanArray>,
}

/// Keys and their numbers.
#[derive(Debug, Default)]
pub(super) struct Distinct {
    pub(super) numbers: KeyNumbers,
    /// The time in each key, where keys have one.
    times: Vec<Option<i64>>,
    /// Which keys may match: those without a null that matches nothing.
    joinable: Vec<bool>,
}

impl Distinct {
    /// Room for so many rows of each group, numbered from 0.
    pub(super) fn with_room(rows: impl Iterator<Item = usize>) -> Self {
        Self { numbers: KeyNumbers::with_room(rows), ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The key with this number, its group in front.
    pub(super) fn key(&self, number: usize) -> &[u8] {
        self.numbers.key(number)
    }

    /// The tag of the key.
    pub(super) fn tag(&self, number: usize) -> u32 {
        self.numbers.tag(number)
    }

    /// The time in the key.
    pub(super) fn time(&self, number: usize) -> Option<i64> {
        self.times.get(number).copied().flatten()
    }

    /// Whether rows of this key may match.
    pub(super) fn joins(&self, number: usize) -> bool {
        self.joinable[number]
    }

    /// The number of the key in row `row` of `keys`. There must be room for it.
    pub(super) fn intern(&mut self, group: usize, keys: &Keys<'_>, row: usize) -> Result<u32> {
        let key = keys.keys.value(row);
        let number = self.numbers.intern(group, tag_of(key), key)?;
        if self.joinable.len() < self.len() {
            if let Some(times) = keys.times {
                self.times.push(times.is_valid(row).then(|| times.value(row)));
            }
            self.joinable.push(keys.nulls.is_none_or(|nulls| !nulls.value(row)));
        }
        Ok(number)
    }
}
