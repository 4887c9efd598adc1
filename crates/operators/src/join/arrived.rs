//! `Arrived`: the rows of a side that came in a batch, in the order of their key groups.

use super::distinct::{Distinct, Keys};
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, RecordBatch, UInt32Array};
use arrow::compute::take;
use fluvial_core::{Error, KeyGroup, KeyGroupRange, Result};
use fluvial_state::EncodedKeys;
use std::ops::Range;

/// Rows by group, so that what is done for a group touches little memory. Rows of a group keep
/// their order.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) columns: Vec<ArrayRef>,
    pub(super) keys: BinaryArray,
    /// Where the rows of each group of the partition start; one more than there are groups.
    pub(super) starts: Vec<u32>,
}

impl Arrived {
    /// Puts rows in order.
    pub(super) fn new(
        rows: &RecordBatch,
        encoded: EncodedKeys,
        groups: KeyGroupRange,
    ) -> Result<Self> {
        let EncodedKeys { keys, groups: own } = encoded;
        let mut starts = vec![0u32; usize::from(groups.end.saturating_sub(groups.start)) + 1];
        let place = |group: &KeyGroup| usize::from(group.0.wrapping_sub(groups.start));
        for group in &own {
            let start = starts.get_mut(place(group) + 1).ok_or_else(|| {
                let group = group.0;
                Error::invalid(format!(
                    "a row of key group {group} came to the partition of groups {groups}: rows of a \
                     join must be exchanged by its keys"
                ))
            })?;
            *start += 1;
        }
        for group in 1..starts.len() {
            starts[group] += starts[group - 1];
        }
        let columns = rows.columns().to_vec();
        if own.is_sorted() {
            return Ok(Self { columns, keys, starts });
        }
        let mut next = starts.clone();
        let mut order = vec![0u32; own.len()];
        for (row, group) in own.iter().enumerate() {
            let at = &mut next[place(group)];
            order[*at as usize] = row as u32;
            *at += 1;
        }
        let order = UInt32Array::from(order);
        let columns = columns.iter().map(|column| take(column, &order, None));
        Ok(Self {
            columns: columns.collect::<Result<_, _>>()?,
            keys: take(&keys, &order, None)?.as_binary().clone(),
            starts,
        })
    }

    /// The rows of a group.
    pub(super) fn rows(&self, group: usize) -> Range<usize> {
        rows_of(&self.starts, group)
    }
}

/// The rows of a group.
pub(super) fn rows_of(starts: &[u32], group: usize) -> Range<usize> {
    starts[group] as usize..starts[group + 1] as usize
}

/// Numbers the keys of both sides; the numbers of each side's rows.
pub(super) fn number(
    sides: &[Arrived; 2],
    keys: &[Keys<'_>; 2],
) -> Result<(Distinct, [Vec<u32>; 2])> {
    let groups = sides[0].starts.len() - 1;
    let rows = |group: usize| sides.iter().map(|side| side.rows(group).len()).sum();
    let mut distinct = Distinct::with_room((0..groups).map(rows));
    let mut numbers = sides.each_ref().map(|side| Vec::with_capacity(side.keys.len()));
    for group in 0..groups {
        for (at, side) in sides.iter().enumerate() {
            for row in side.rows(group) {
                numbers[at].push(distinct.intern(group, &keys[at], row)?);
            }
        }
    }
    Ok((distinct, numbers))
}
