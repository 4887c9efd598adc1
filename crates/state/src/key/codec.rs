//! The key codec.

use super::buffer::{Encoded, KeyBuffer};
use super::check::{RowCheck, Scratch};
use super::direct::Direct;
use super::layout::{
    GROUP_BYTES, KeyLayout, TIME_BYTES, group_range, parse_time, time_bytes, time_of, time_range,
};
use crate::plain::{Purpose, from_plain, plain_type, to_plain};
use arrow::array::{Array, ArrayRef, BinaryArray, TimestampMicrosecondArray};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, RowParser, SortField};
use fluvial_core::{Error, EventTime, KeyGroup, KeyGroupCount, KeyRange, PartitionId, Result};
use xxhash_rust::xxh3::xxh3_64;

/// Version of the bytes of keys, for [`fluvial_core::StateSchema::format`]. Tests with golden
/// bytes fail when a dependency would change them without a new number.
pub const KEY_FORMAT: u32 = 1;

/// Turns key columns into state keys and back, whole columns at a time.
///
/// - The order of keys as bytes is the order of (group, time, key) or (group, key, time),
///   column by column; nulls come first in a column, but a missing *time* comes last.
/// - Two keys are equal bytes exactly if their columns are equal, where -0.0 equals 0.0, every
///   NaN equals every other, and maps with the same entries are equal: at any nesting depth. A
///   null struct is not a struct of nulls.
/// - The group is a stable hash of the key *without* the time, so all times of a key are in one
///   partition.
/// - No key is a prefix of another key of the same codec.
#[derive(Debug)]
pub struct KeyCodec {
    layout: KeyLayout,
    declared: Vec<DataType>,
    plain: Vec<DataType>,
    key_groups: KeyGroupCount,
    converter: RowConverter,
    parser: RowParser,
    check: RowCheck,
    /// For columns that need no converter.
    direct: Option<Direct>,
}

/// State keys and where they belong; equally long.
#[derive(Debug, Clone)]
pub struct EncodedKeys {
    /// The keys, with their groups in front.
    pub keys: BinaryArray,
    /// The group of each.
    pub groups: Vec<KeyGroup>,
}

/// What [`KeyCodec::decode`] found; equally long.
#[derive(Debug, Clone)]
pub struct DecodedKeys {
    /// The key columns, in their declared types.
    pub columns: Vec<ArrayRef>,
    /// The times, if the layout has them.
    pub times: Option<TimestampMicrosecondArray>,
}

impl KeyCodec {
    /// A codec for key columns of these types. There may be none: then all rows have one key.
    ///
    /// # Errors
    ///
    /// `Invalid` for a type that cannot be a key.
    pub fn new(layout: KeyLayout, types: Vec<DataType>, key_groups: KeyGroupCount) -> Result<Self> {
        let plain: Vec<DataType> = types.iter().map(plain_type).collect::<Result<_>>()?;
        let fields = plain.iter().cloned().map(SortField::new).collect();
        let converter = RowConverter::new(fields)?;
        let parser = converter.parser();
        let (check, direct) = (RowCheck::new(&plain), Direct::new(&plain));
        Ok(Self { layout, declared: types, plain, key_groups, converter, parser, check, direct })
    }

    /// The layout.
    pub fn layout(&self) -> KeyLayout {
        self.layout
    }

    /// The declared types of the key columns.
    pub fn types(&self) -> &[DataType] {
        &self.declared
    }

    /// The number of key groups.
    pub fn key_groups(&self) -> KeyGroupCount {
        self.key_groups
    }

    /// Encodes `rows` rows. `times` must be there exactly if the layout has times; a null in it
    /// is a row without a time.
    ///
    /// # Errors
    ///
    /// `Invalid` if the columns are not those of this codec, or if their keys take more than
    /// 2 GiB together.
    pub fn encode(
        &self,
        columns: &[ArrayRef],
        times: Option<&TimestampMicrosecondArray>,
        rows: usize,
    ) -> Result<EncodedKeys> {
        if times.is_some() != self.layout.has_time() {
            return Err(Error::invalid(format!(
                "state keys of layout {:?} were given {} times",
                self.layout,
                if times.is_some() { "unexpected" } else { "no" }
            )));
        }
        if times.is_some_and(|t| t.len() != rows) {
            return Err(Error::invalid(format!("state keys need {rows} times, one for each row")));
        }
        let encoded = self.convert(columns, rows)?;
        let per_row = GROUP_BYTES + if self.layout.has_time() { TIME_BYTES } else { 0 };
        let mut keys = KeyBuffer::new(rows, encoded.length(rows) + rows * per_row)?;
        let mut groups = Vec::with_capacity(rows);
        for i in 0..rows {
            let start = keys.open();
            if let (KeyLayout::TimeKey, Some(times)) = (self.layout, times) {
                keys.push(&time_bytes(time_of(times, i)));
            }
            groups.push(keys.put(&encoded, i, start, self.key_groups));
            if let (KeyLayout::KeyTime, Some(times)) = (self.layout, times) {
                keys.push(&time_bytes(time_of(times, i)));
            }
            keys.end();
        }
        Ok(EncodedKeys { keys: keys.finish(), groups })
    }

    /// Encodes `rows` rows of a [`KeyLayout::KeyTime`] codec without their times: with
    /// [`KeyRange::prefix`] or [`Self::times_of`] each finds every time of its key.
    ///
    /// # Errors
    ///
    /// `Invalid` if the columns are not those of this codec, or too long.
    pub fn encode_prefixes(&self, columns: &[ArrayRef], rows: usize) -> Result<EncodedKeys> {
        let encoded = self.convert(columns, rows)?;
        let mut keys = KeyBuffer::new(rows, encoded.length(rows) + rows * GROUP_BYTES)?;
        let mut groups = Vec::with_capacity(rows);
        for i in 0..rows {
            let start = keys.open();
            groups.push(keys.put(&encoded, i, start, self.key_groups));
            keys.end();
        }
        Ok(EncodedKeys { keys: keys.finish(), groups })
    }

    /// The state keys of a [`KeyLayout::KeyTime`] codec, given what [`Self::encode_prefixes`] made
    /// of their columns.
    ///
    /// # Errors
    ///
    /// `Invalid` if there are not as many times, or the keys are too long together.
    ///
    /// # Panics
    ///
    /// If the layout is not [`KeyLayout::KeyTime`].
    pub fn with_times(
        &self,
        prefixes: &BinaryArray,
        times: &TimestampMicrosecondArray,
    ) -> Result<BinaryArray> {
        assert_eq!(self.layout, KeyLayout::KeyTime, "times after keys need keys first");
        let rows = prefixes.len();
        if times.len() != rows {
            return Err(Error::invalid(format!("state keys need {rows} times, one for each row")));
        }
        let mut keys = KeyBuffer::new(rows, prefixes.values().len() + rows * TIME_BYTES)?;
        for row in 0..rows {
            keys.push(prefixes.value(row));
            keys.push(&time_bytes(time_of(times, row)));
            keys.end();
        }
        Ok(keys.finish())
    }

    /// The partition of each of `rows` rows: for the exchange in front of a stateful operator.
    /// The same hash as in [`Self::encode`], so a row always meets its state.
    ///
    /// # Errors
    ///
    /// `Invalid` if the columns are not those of this codec.
    pub fn partitions(
        &self,
        columns: &[ArrayRef],
        rows: usize,
        partitions: u32,
    ) -> Result<Vec<PartitionId>> {
        let encoded = self.convert(columns, rows)?;
        let owner: Vec<PartitionId> = self
            .key_groups
            .all()
            .groups()
            .map(|group| self.key_groups.partition_of(group, partitions))
            .collect();
        let mut key = Vec::new();
        let partition = |i| {
            key.clear();
            encoded.put(i, &mut key);
            owner[usize::from(self.key_groups.group_of(xxh3_64(&key)).0)]
        };
        Ok((0..rows).map(partition).collect())
    }

    /// The group of the key without columns: where an operator without keys has its state.
    pub fn group_of_nothing(key_groups: KeyGroupCount) -> KeyGroup {
        key_groups.group_of(xxh3_64(&[]))
    }

    /// Decodes keys that this codec made.
    ///
    /// # Errors
    ///
    /// `Corrupt` for any other bytes; never a panic.
    pub fn decode(&self, keys: &BinaryArray) -> Result<DecodedKeys> {
        let mut rows = Vec::new();
        let mut reader = self.direct.as_ref().map(|direct| direct.reader(keys.len()));
        let mut times = Vec::with_capacity(if self.layout.has_time() { keys.len() } else { 0 });
        let mut scratch = Scratch::default();
        for i in 0..keys.len() {
            let bad = |what: &str| Error::corrupt(format!("state key {i} of a scan: {what}"));
            if keys.is_null(i) {
                return Err(bad("it is null"));
            }
            let (key, time) = self.split(keys.value(i)).map_err(bad)?;
            if let Some(reader) = &mut reader {
                reader.take(key).map_err(bad)?;
            } else {
                self.check.check(key, &mut scratch).map_err(bad)?;
                rows.push(key);
            }
            if let Some(time) = time {
                times.push(parse_time(time).map_err(bad)?.map(|t| t.0));
            }
        }
        let columns = match reader {
            Some(reader) => reader.finish()?,
            None => self.converter.convert_rows(rows.iter().map(|row| self.parser.parse(row)))?,
        };
        let columns = columns
            .iter()
            .zip(&self.declared)
            .map(|(column, declared)| from_plain(column, declared))
            .collect::<Result<_>>()?;
        let times = self.layout.has_time().then(|| TimestampMicrosecondArray::from(times));
        Ok(DecodedKeys { columns, times })
    }

    /// Takes each of `keys` apart that is `[group][key]` and something behind it: what this codec
    /// made of layout [`KeyLayout::Key`], and the rest.
    ///
    /// # Errors
    ///
    /// `Corrupt` if a key begins with something else.
    pub fn split_off<'k>(
        &self,
        keys: impl Iterator<Item = &'k [u8]>,
    ) -> Result<(BinaryArray, Vec<&'k [u8]>)> {
        let (mut fronts, mut rests) = (Vec::new(), Vec::new());
        let mut scratch = Scratch::default();
        for (i, key) in keys.enumerate() {
            let bad = |what: &str| Error::corrupt(format!("state key {i} of a scan: {what}"));
            let columns = key.get(GROUP_BYTES..).ok_or_else(|| bad("it is cut"))?;
            let rest = self.check.after(columns, &mut scratch).map_err(bad)?;
            fronts.push(&key[..key.len() - rest.len()]);
            rests.push(rest);
        }
        Ok((BinaryArray::from_iter_values(fronts), rests))
    }

    /// Every key of `group` whose time is at or before `until`: what a watermark expires. One
    /// range per group; keys without a time are never in it.
    ///
    /// # Panics
    ///
    /// If the layout is not [`KeyLayout::TimeKey`].
    pub fn expired(&self, group: KeyGroup, until: EventTime) -> KeyRange {
        assert_eq!(self.layout, KeyLayout::TimeKey, "expiry needs times before keys");
        time_range(&group.prefix(), None, until)
    }

    /// Every key of `group` whose time lies in `from..=until`.
    ///
    /// # Panics
    ///
    /// If the layout is not [`KeyLayout::TimeKey`].
    pub fn between(&self, group: KeyGroup, from: EventTime, until: EventTime) -> KeyRange {
        assert_eq!(self.layout, KeyLayout::TimeKey, "a time range needs times before keys");
        time_range(&group.prefix(), Some(from), until)
    }

    /// Every time in `from..=until` of the key whose prefix [`Self::encode_prefixes`] made.
    ///
    /// # Panics
    ///
    /// If the layout is not [`KeyLayout::KeyTime`].
    pub fn times_of(&self, prefix: &[u8], from: EventTime, until: EventTime) -> KeyRange {
        assert_eq!(self.layout, KeyLayout::KeyTime, "the times of a key need keys first");
        time_range(prefix, Some(from), until)
    }

    /// Every key of `group`.
    pub fn group(&self, group: KeyGroup) -> KeyRange {
        group_range(group)
    }

    /// Takes a key apart into its columns and its time.
    #[allow(clippy::type_complexity)]
    fn split<'a>(&self, key: &'a [u8]) -> Result<(&'a [u8], Option<&'a [u8]>), &'static str> {
        const CUT: &str = "it is cut";
        let (group, rest) = key.split_first_chunk::<GROUP_BYTES>().ok_or(CUT)?;
        let (key, time) = match self.layout {
            KeyLayout::Key => (rest, None),
            KeyLayout::TimeKey => {
                let (time, key) = rest.split_at_checked(TIME_BYTES).ok_or(CUT)?;
                (key, Some(time))
            }
            KeyLayout::KeyTime => {
                let at = rest.len().checked_sub(TIME_BYTES).ok_or(CUT)?;
                (&rest[..at], Some(&rest[at..]))
            }
        };
        if self.key_groups.group_of(xxh3_64(key)).prefix() != *group {
            return Err("it lies in another key group than its own");
        }
        Ok((key, time))
    }

    /// The columns, ready to be written row by row.
    fn convert(&self, columns: &[ArrayRef], rows: usize) -> Result<Encoded> {
        if columns.len() != self.plain.len() {
            return Err(Error::invalid(format!(
                "state keys have {} columns, not {}",
                self.plain.len(),
                columns.len()
            )));
        }
        if columns.is_empty() {
            return Ok(Encoded::Nothing);
        }
        let columns = columns
            .iter()
            .zip(&self.plain)
            .enumerate()
            .map(|(i, (column, plain))| {
                if column.len() != rows {
                    return Err(Error::invalid(format!(
                        "key column {i} has {} rows, not {rows}",
                        column.len()
                    )));
                }
                let column = to_plain(column, Purpose::Key)?;
                if !column.data_type().equals_datatype(plain) {
                    return Err(Error::invalid(format!(
                        "key column {i} is {}, not {plain}",
                        column.data_type()
                    )));
                }
                Ok(column)
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(match &self.direct {
            Some(direct) => Encoded::Direct(direct.sources(&columns)),
            None => Encoded::Rows(self.converter.convert_columns(&columns)?),
        })
    }
}
