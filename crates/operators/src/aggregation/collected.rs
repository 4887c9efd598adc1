//! `Collected`: the groups of a batch that wait for its end.

use super::accumulators::{Accumulators, Aggregate, States};
use super::groups::Groups;
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray};
use arrow::compute::{concat, filter, is_not_null};
use fluvial_core::{Error, Result, StateStore};
use fluvial_state::ValueCodec;
use std::sync::Arc;

/// What a batch adds to groups, merged in the order of the input.
pub(super) struct Collected {
    groups: Groups,
    accumulators: Accumulators,
    /// Of each group, whether this batch had put it into the state, and what it put is merged
    /// already; empty if it puts none.
    own: Vec<bool>,
    /// The groups of the rows that are being added: kept for its memory.
    numbers: Vec<usize>,
}

impl Collected {
    pub(super) fn new(aggregates: &Arc<[Aggregate]>) -> Result<Self> {
        Ok(Self {
            groups: Groups::default(),
            accumulators: Accumulators::new(aggregates)?,
            own: Vec::new(),
            numbers: Vec::new(),
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.len() == 0
    }

    /// The keys of the groups.
    pub(super) fn keys(&self) -> impl Iterator<Item = BinaryArray> {
        self.groups.keys()
    }

    /// Adds rows.
    pub(super) fn add(&mut self, keys: &BinaryArray, states: &[ArrayRef]) -> Result<()> {
        self.numbers.clear();
        self.groups.intern(keys, &mut self.numbers)?;
        self.accumulators.merge(states, &self.numbers, self.groups.len())
    }

    /// Adds rows of groups that have a state. What this batch put there came before them, and is
    /// merged before them, so that the result is the same as if it had waited too.
    pub(super) fn add_known(
        &mut self,
        keys: &BinaryArray,
        states: &[ArrayRef],
        values: &ValueCodec,
        state: &dyn StateStore,
    ) -> Result<()> {
        let mut next = self.groups.len();
        self.numbers.clear();
        self.groups.intern(keys, &mut self.numbers)?;
        let is_first = self.numbers.iter().map(|number| {
            let is_first = *number == next;
            next += usize::from(is_first);
            is_first
        });
        let is_first = BooleanArray::from(is_first.collect::<Vec<bool>>());
        let firsts = filter(keys, &is_first)?;
        let firsts = firsts.as_binary();
        let put = state.get_new_many(firsts)?.ok_or_else(|| {
            Error::invalid("a state store keeps its writes apart at one time and not at another")
        })?;
        let first_own = self.own.len();
        self.own.extend(put.iter().map(|value| value.is_some()));
        if put.null_count() == put.len() {
            return self.accumulators.merge(states, &self.numbers, self.groups.len());
        }
        let put = values.decode(filter(&put, &is_not_null(&put)?)?.as_binary())?;
        let groups = (first_own..self.own.len()).filter(|group| self.own[*group]);
        self.numbers.splice(0..0, groups);
        let both = put.iter().zip(states).map(|(put, new)| concat(&[put.as_ref(), new.as_ref()]));
        let both: Vec<ArrayRef> = both.collect::<Result<_, _>>()?;
        self.accumulators.merge(&both, &self.numbers, self.groups.len())
    }

    /// The keys and states of all groups over what is stored of them, and how many of them this
    /// batch had not put there before. There must be at least one.
    pub(super) fn over_stored(
        mut self,
        values: &ValueCodec,
        state: &dyn StateStore,
    ) -> Result<(Vec<BinaryArray>, Vec<ArrayRef>, usize)> {
        let total = self.groups.len();
        let keys = self.groups.into_keys();
        let older = older(&keys, &self.own, values, state)?;
        self.accumulators.merge_older(&older, total)?;
        let own = self.own.iter().filter(|own| **own).count();
        Ok((keys, self.accumulators.into_states()?, total - own))
    }
}

/// The stored states of groups, but for those that are merged already.
fn older(
    keys: &[BinaryArray],
    merged: &[bool],
    values: &ValueCodec,
    state: &dyn StateStore,
) -> Result<Vec<States>> {
    let mut older = Vec::new();
    let mut first = 0;
    for chunk in keys {
        let is_merged = |group: &usize| merged.get(*group).copied().unwrap_or(false);
        let mut groups: Vec<usize> = (first..first + chunk.len()).collect();
        groups.retain(|group| !is_merged(group));
        let found = if groups.len() == chunk.len() {
            state.get_many(chunk)?
        } else {
            let left = (first..first + chunk.len()).map(|group| Some(!is_merged(&group)));
            let left = filter(chunk, &BooleanArray::from_iter(left))?;
            state.get_many(left.as_binary())?
        };
        first += chunk.len();
        if found.null_count() < found.len() {
            let mut is_valid = found.iter().map(|value| value.is_some());
            groups.retain(|_| is_valid.next() == Some(true));
            let present = filter(&found, &is_not_null(&found)?)?;
            older.push(States { columns: values.decode(present.as_binary())?, groups });
        }
    }
    Ok(older)
}
