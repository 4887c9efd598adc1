//! Sessions in state: by key and start, and again by their end.
//!
//! ```text
//! by key     [group][key][start]             end, states
//! by end     [group][0xFE][end][key][start]  end, states
//! ```
//!
//! The second is there in append mode only, and is what a watermark reads: one range per key group.
//! It has the states too, so that nothing but that range need be read.

use super::Config;
use crate::aggregation::accumulators::Accumulators;
use arrow::array::{
    ArrayRef, AsArray, BinaryArray, RecordBatch, StructArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, TimestampMicrosecondType};
use fluvial_core::{Error, EventTime, KeyGroup, KeyGroupCount, KeyRange, Result};
use fluvial_state::{KeyCodec, ValueCodec};
use std::sync::Arc;

/// Follows the key group in the names of sessions by their end. No encoded key column begins with
/// it: they begin with a flag that is at most 2.
const TAG: u8 = 0xFE;

const GROUP_BYTES: usize = 2;
const END_BYTES: usize = 8;

/// The codecs of one run.
pub(super) struct Codecs {
    pub(super) keys: KeyCodec,
    pub(super) values: ValueCodec,
}

/// Sessions that were decoded; all columns are equally long.
pub(super) struct Sessions {
    pub(super) starts: TimestampMicrosecondArray,
    pub(super) ends: TimestampMicrosecondArray,
    pub(super) keys: Vec<ArrayRef>,
    pub(super) states: Vec<ArrayRef>,
}

fn end_bytes(end: EventTime) -> [u8; END_BYTES] {
    (end.0 ^ i64::MIN).to_be_bytes()
}

/// The name by its end of a session that is called `name` by its key.
pub(super) fn name_by_end(name: &[u8], end: EventTime, into: &mut Vec<u8>) {
    let (group, rest) = name.split_at(GROUP_BYTES);
    into.extend_from_slice(group);
    into.push(TAG);
    into.extend_from_slice(&end_bytes(end));
    into.extend_from_slice(rest);
}

/// The name by its key of a session that is called `name` by its end.
fn name_by_key(name: &[u8]) -> Result<Vec<u8>> {
    let damaged = || Error::corrupt("the name of a session is damaged: restore the checkpoint");
    let (group, rest) = name.split_at_checked(GROUP_BYTES).ok_or_else(damaged)?;
    let rest = rest.get(1 + END_BYTES..).ok_or_else(damaged)?;
    Ok([group, rest].concat())
}

pub(super) fn names_by_key(names: &BinaryArray) -> Result<BinaryArray> {
    let names: Vec<Vec<u8>> = names.iter().flatten().map(name_by_key).collect::<Result<_>>()?;
    Ok(BinaryArray::from_iter_values(names))
}

/// The sessions of a key group that end at or before `until`, by their end.
pub(super) fn over(group: KeyGroup, until: EventTime) -> KeyRange {
    let [high, low] = group.prefix();
    let start = vec![high, low, TAG];
    let mut last = start.clone();
    last.extend_from_slice(&end_bytes(until));
    KeyRange { start, end: KeyRange::prefix(&last).end }
}

/// All sessions of a key group, by key.
pub(super) fn all(group: KeyGroup) -> KeyRange {
    let [high, low] = group.prefix();
    KeyRange { start: vec![high, low], end: vec![high, low, TAG] }
}

/// Whether a state key is the name of a session by its end.
#[cfg(test)]
pub(super) fn is_by_end(name: &[u8]) -> bool {
    name.get(GROUP_BYTES) == Some(&TAG)
}

impl Codecs {
    pub(super) fn new(config: &Config, key_groups: KeyGroupCount) -> Result<Self> {
        Ok(Self { keys: config.key_codec(key_groups)?, values: config.value_codec()? })
    }

    /// Decodes sessions by key.
    pub(super) fn decode(&self, names: &BinaryArray, values: &BinaryArray) -> Result<Sessions> {
        let keys = self.keys.decode(names)?;
        let mut states = self.values.decode(values)?;
        let ends = states.remove(0).as_primitive::<TimestampMicrosecondType>().clone();
        let starts = keys.times.ok_or_else(|| {
            Error::corrupt("a stored session has no start: restore the checkpoint")
        })?;
        Ok(Sessions { starts, ends, keys: keys.columns, states })
    }
}

/// The column of sessions, as the plan has it.
pub(super) fn windows(
    starts: &TimestampMicrosecondArray,
    ends: &TimestampMicrosecondArray,
    data_type: &DataType,
) -> Result<ArrayRef> {
    let DataType::Struct(fields) = data_type else {
        return Err(Error::invalid(format!("a session is a struct, not {data_type}")));
    };
    let zoned = |times: &TimestampMicrosecondArray, zone: &DataType| -> ArrayRef {
        match zone {
            DataType::Timestamp(_, zone) => Arc::new(times.clone().with_timezone_opt(zone.clone())),
            _ => Arc::new(times.clone()),
        }
    };
    let edges = [("start", starts), ("end", ends)];
    let column = |name: &str| edges.iter().find(|(edge, _)| *edge == name).map(|(_, times)| times);
    let columns = fields
        .iter()
        .map(|field| match column(field.name()) {
            Some(times) => Ok(zoned(times, field.data_type())),
            None => Err(Error::invalid(format!("a session has no {}", field.name()))),
        })
        .collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(StructArray::try_new(fields.clone(), columns, None)?))
}

/// The output rows of sessions.
pub(super) fn evaluate(config: &Config, sessions: Sessions) -> Result<RecordBatch> {
    let rows = sessions.starts.len();
    let mut columns = sessions.keys.clone();
    let session = config.groups[config.session].data_type();
    columns.insert(config.session, windows(&sessions.starts, &sessions.ends, session)?);
    let mut accumulators = Accumulators::new(&config.aggregates)?;
    let groups: Vec<usize> = (0..rows).collect();
    accumulators.merge(&sessions.states, &groups, rows)?;
    columns.extend(accumulators.into_results()?);
    Ok(RecordBatch::try_new(Arc::clone(&config.output), columns)?)
}
