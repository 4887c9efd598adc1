//! `Paged`: the stored rows of a side that lie in pages, in one batch.
//!
//! They are looked at by the rows that come within their reach, and decoded if these match.

use super::arrived::rows_of;
use super::counts::Counts;
use super::distinct::Distinct;
use super::keys::pages_of;
use super::kind::Side;
use super::matching::Candidates;
use super::{Config, JoinEviction};
use crate::pages::{Hits, NewRows, Pages, Row, tag_of};
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, TimestampMicrosecondArray,
};
use arrow::compute::filter;
use arrow::datatypes::TimestampMicrosecondType;
use fluvial_core::{BatchInfo, Result, StateStore};
use fluvial_state::{KeyCodec, ValueCodec};
use std::ops::Range;

/// One side that lies in pages.
#[derive(Debug)]
pub(super) struct Paged {
    side: Side,
    pages: Pages,
}

/// What rows are looked for by.
pub(super) struct Search<'a> {
    pub(super) config: &'a Config,
    pub(super) keys: &'a Distinct,
    /// Which keys the other side brings rows for that may match.
    pub(super) probed: &'a [bool],
    pub(super) key_codec: &'a KeyCodec,
    pub(super) codec: &'a ValueCodec,
}

/// Rows that were found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Their keys.
    pub(super) numbers: Vec<u32>,
    /// Their columns, part by part.
    pub(super) parts: Vec<Vec<ArrayRef>>,
}

/// The rows that came.
struct New {
    rows: BinaryArray,
    times: Option<TimestampMicrosecondArray>,
}

impl NewRows for New {
    fn bytes(&self, row: u32) -> &[u8] {
        self.rows.value(row as usize)
    }

    fn time(&self, row: u32) -> Option<i64> {
        time_of(self.times.as_ref(), row as usize)
    }

    fn stays(&self, _: u32) -> bool {
        true
    }
}

fn time_of(times: Option<&TimestampMicrosecondArray>, row: usize) -> Option<i64> {
    times.filter(|times| times.is_valid(row)).map(|times| times.value(row))
}

impl Paged {
    /// Reads the ledgers of a side.
    pub(super) fn read(
        config: &Config,
        info: &BatchInfo,
        side: Side,
        state: &dyn StateStore,
    ) -> Result<Self> {
        let until = config.side(side).eviction.threshold(info.evict).map(|until| until.0);
        Ok(Self { side, pages: Pages::read(pages_of(side), info.groups, until, state)? })
    }

    /// Finds out which pages must be looked at for the rows of the other side that came.
    pub(super) fn want(&mut self, config: &Config, keys: &Distinct, other: &Candidates) {
        let reach = Reach::new(config, self.side, other);
        for group in 0..self.pages.groups() {
            let rows = rows_of(&other.starts, group);
            if rows.is_empty() || self.pages.is_empty(group) {
                continue;
            }
            let window = match &reach {
                None => None,
                Some(reach) => match reach.of(rows.clone()) {
                    None => continue,
                    window => window,
                },
            };
            let numbers = other.numbers[rows].iter().map(|number| *number as usize);
            let tags = numbers.filter(|number| keys.joins(*number)).map(|number| keys.tag(number));
            self.pages.want(group, window, tags);
        }
    }

    /// Finds out what the new rows of this side will be written with.
    pub(super) fn expect(&mut self, config: &Config, keys: &Distinct, own: &Candidates) {
        let times = own.times_of(config, self.side);
        let span = config.range.and_then(|range| Some((range.lower?, range.upper?)));
        let span = span.map(|(lower, upper)| upper.0.saturating_sub(lower.0));
        let mut rows = Vec::new();
        for group in 0..self.pages.groups() {
            rows.clear();
            rows.extend(rows_of(&own.starts, group).map(|row| Row {
                time: time_of(times.as_ref(), row),
                tag: keys.tag(own.numbers[row] as usize),
                row: row as u32,
            }));
            self.pages.expect(group, span, &rows);
        }
    }

    /// The keys of all that will be read.
    pub(super) fn reads(&self) -> Result<BinaryArray> {
        self.pages.reads()
    }

    /// The rows of the wanted pages that have a probed key.
    pub(super) fn find(&self, search: &Search<'_>, state: &dyn StateStore) -> Result<Found> {
        let mut found = Found::default();
        let probed = |number: u32| search.probed[number as usize];
        let number_of = |group, tag| search.keys.numbers.find_tag(group, tag, probed);
        self.pages.look(state, number_of, |hits| self.check(hits, search, &mut found))?;
        Ok(found)
    }

    /// Keeps the rows that have the key that their tag promised, and have not left.
    fn check(&self, hits: Hits<'_>, search: &Search<'_>, found: &mut Found) -> Result<()> {
        let count = hits.rows.len();
        let mut columns = search.codec.decode_each(hits.rows)?;
        let own = search.config.stored_keys(self.side);
        let keys: Vec<ArrayRef> = own.into_iter().map(|at| ArrayRef::clone(&columns[at])).collect();
        let encoded = search.key_codec.encode(&keys, None, count)?.keys;
        let times = match search.config.side(self.side).eviction {
            JoinEviction::Time { column, .. } => {
                columns[column].as_primitive_opt::<TimestampMicrosecondType>()
            }
            _ => None,
        };
        let mut keep = Vec::with_capacity(count);
        let before = found.numbers.len();
        for (row, number) in hits.numbers.iter().enumerate() {
            let key = encoded.value(row);
            let number = match search.keys.key(*number as usize) == key {
                true => Some(*number),
                false => search.keys.numbers.find(hits.groups[row], tag_of(key), key),
            };
            let time = times.filter(|times| times.is_valid(row)).map(|times| times.value(row));
            let has_left = time.zip(hits.left[row]).is_some_and(|(time, until)| time <= until);
            let number = number.filter(|number| search.probed[*number as usize] && !has_left);
            keep.push(number.is_some());
            found.numbers.extend(number);
        }
        columns.truncate(search.config.side(self.side).width);
        if found.numbers.len() - before < count {
            let keep = BooleanArray::from(keep);
            let kept = columns.iter().map(|column| filter(column, &keep));
            columns = kept.collect::<std::result::Result<_, _>>()?;
        }
        found.parts.push(columns);
        Ok(())
    }

    /// Lets rows leave and stores the new ones. Returns how many have left: those that were stored
    /// by earlier batches.
    pub(super) fn write(
        &self,
        config: &Config,
        own: &Candidates,
        codec: &ValueCodec,
        state: &mut dyn StateStore,
        groups: &mut Counts,
    ) -> Result<u64> {
        let columns = [own.new_columns(), own.extra.clone()].concat();
        let rows = codec.encode(&columns, own.numbers.len())?;
        let new = New { rows, times: own.times_of(config, self.side) };
        let written = self.pages.write(&new, state, |group, by| groups.add(&group.prefix(), by))?;
        Ok(written.left)
    }
}

/// What the times of new rows say of the times of stored ones that may match them.
struct Reach {
    times: TimestampMicrosecondArray,
    back: Option<i64>,
    ahead: Option<i64>,
}

impl Reach {
    /// `None` if they say nothing.
    fn new(config: &Config, side: Side, other: &Candidates) -> Option<Self> {
        let range = config.range?;
        let (own, theirs) = match side {
            Side::Left => (range.left, range.right),
            Side::Right => (range.right, range.left),
        };
        match config.side(side).eviction {
            JoinEviction::Time { column, .. } if column == own => {}
            _ => return None,
        }
        let (lower, upper) = (range.lower.map(|by| by.0), range.upper.map(|by| by.0));
        let (back, ahead) = match side {
            Side::Left => (upper.map(i64::saturating_neg), lower.map(i64::saturating_neg)),
            Side::Right => (lower, upper),
        };
        let times = other.columns.get(theirs)?;
        let times = times.as_primitive_opt::<TimestampMicrosecondType>()?.clone();
        Some(Self { times, back, ahead })
    }

    /// The times that some of these rows may match; `None` if they match nothing.
    fn of(&self, rows: Range<usize>) -> Option<(i64, i64)> {
        let times = rows.filter(|row| self.times.is_valid(*row)).map(|row| self.times.value(row));
        let (first, last) = times
            .fold((i64::MAX, i64::MIN), |(first, last), time| (first.min(time), last.max(time)));
        (first <= last).then(|| {
            let from = self.back.map_or(i64::MIN, |by| first.saturating_add(by));
            (from, self.ahead.map_or(i64::MAX, |by| last.saturating_add(by)))
        })
    }
}
