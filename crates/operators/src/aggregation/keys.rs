//! `GroupKeys`: the state keys of groups.

use crate::event_time::{EventTimeKey, event_times};
use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, StructArray, TimestampMicrosecondArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Fields, TimeUnit};
use fluvial_core::{Error, EventTime, KeyGroup, KeyGroupCount, KeyRange, PartitionId, Result};
use fluvial_state::{KeyCodec, KeyLayout};
use std::sync::Arc;

/// Turns grouping columns into state keys and back, whole columns at a time.
///
/// A key begins with its time. Where that is the end of a window, only the start of the window
/// stands among the columns behind it: they are most of a key's bytes.
#[derive(Debug)]
pub struct GroupKeys {
    codec: KeyCodec,
    event_time: EventTimeKey,
    /// Position and fields of the window whose end is the time.
    window: Option<(usize, Fields)>,
}

impl GroupKeys {
    /// For grouping columns of these types.
    ///
    /// # Errors
    ///
    /// `Invalid` for a type that cannot be a key.
    pub(super) fn new(
        mut types: Vec<DataType>,
        event_time: EventTimeKey,
        key_groups: KeyGroupCount,
    ) -> Result<Self> {
        let layout = match event_time {
            EventTimeKey::None => KeyLayout::Key,
            EventTimeKey::Column(_) | EventTimeKey::Window(_) => KeyLayout::TimeKey,
        };
        let mut window = None;
        if let EventTimeKey::Window(at) = event_time
            && let Some(DataType::Struct(fields)) = types.get(at)
            && is_plain_window(fields)
        {
            window = Some((at, fields.clone()));
            types[at] = fields[0].data_type().clone();
        }
        Ok(Self { codec: KeyCodec::new(layout, types, key_groups)?, event_time, window })
    }

    /// The keys of rows.
    ///
    /// # Errors
    ///
    /// As [`KeyCodec::encode`].
    pub fn encode(&self, columns: &[ArrayRef], rows: usize) -> Result<BinaryArray> {
        let times = self.event_time.times(columns)?;
        Ok(self.codec.encode(&self.stored(columns)?, times.as_ref(), rows)?.keys)
    }

    /// The partition of each row, for the exchange in front of the aggregation.
    ///
    /// # Errors
    ///
    /// As [`KeyCodec::partitions`].
    pub fn partitions(
        &self,
        columns: &[ArrayRef],
        rows: usize,
        partitions: u32,
    ) -> Result<Vec<PartitionId>> {
        self.codec.partitions(&self.stored(columns)?, rows, partitions)
    }

    /// The grouping columns of keys.
    ///
    /// # Errors
    ///
    /// As [`KeyCodec::decode`].
    pub(super) fn decode(&self, keys: &BinaryArray) -> Result<Vec<ArrayRef>> {
        let decoded = self.codec.decode(keys)?;
        let mut columns = decoded.columns;
        if let (Some((at, fields)), Some(times)) = (&self.window, decoded.times) {
            columns[*at] = window(fields, &columns[*at], times)?;
        }
        Ok(columns)
    }

    /// The keys of `group` that a watermark at `until` expires.
    pub(super) fn expired(&self, group: KeyGroup, until: EventTime) -> KeyRange {
        self.codec.expired(group, until)
    }

    /// The columns behind the time.
    fn stored(&self, columns: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        let mut columns = columns.to_vec();
        if let Some((at, _)) = &self.window
            && let Some(column) = columns.get_mut(*at)
        {
            let windows = column.as_struct_opt().filter(|w| w.num_columns() == 2);
            let windows = windows.ok_or_else(|| {
                Error::invalid(format!("key column {at} is {}, no window", column.data_type()))
            })?;
            *column = start_of(windows)?;
        }
        Ok(columns)
    }
}

/// Whether these are the fields of a window: two times that are there whenever the window is.
fn is_plain_window(fields: &Fields) -> bool {
    let [start, end] = fields.as_ref() else { return false };
    let is_edge = |field: &arrow::datatypes::FieldRef, name: &str| {
        field.name() == name
            && !field.is_nullable()
            && matches!(field.data_type(), DataType::Timestamp(TimeUnit::Microsecond, _))
    };
    is_edge(start, "start") && is_edge(end, "end") && start.data_type() == end.data_type()
}

/// The starts of windows, null where the window is.
fn start_of(windows: &StructArray) -> Result<ArrayRef> {
    let start = windows.column(0);
    let times = event_times(start)?;
    let nulls = NullBuffer::union(windows.nulls(), start.nulls());
    let times = TimestampMicrosecondArray::try_new(times.values().clone(), nulls)?;
    Ok(Arc::new(times.with_data_type(start.data_type().clone())))
}

/// Windows from their starts and their ends, null where these are.
fn window(fields: &Fields, start: &ArrayRef, ends: TimestampMicrosecondArray) -> Result<ArrayRef> {
    let starts = event_times(start)?;
    let missing =
        |times: &TimestampMicrosecondArray| times.logical_nulls().filter(|n| n.null_count() > 0);
    if missing(&starts) != missing(&ends) {
        return Err(Error::corrupt("a window in a state key has a start or an end and not both"));
    }
    let edge = |times: &TimestampMicrosecondArray| -> Result<ArrayRef> {
        let times = TimestampMicrosecondArray::try_new(times.values().clone(), None)?;
        Ok(Arc::new(times.with_data_type(fields[0].data_type().clone())))
    };
    let edges = vec![edge(&starts)?, edge(&ends)?];
    Ok(Arc::new(StructArray::try_new(fields.clone(), edges, missing(&starts))?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WindowSpec;
    use arrow::array::Int64Array;

    #[test]
    fn windows_come_back_whole_from_keys_that_hold_their_end_once() {
        for zone in [None, Some("UTC")] {
            let times = vec![Some(7_000_000), None, Some(i64::MAX), Some(i64::MIN), Some(-1)];
            let times = TimestampMicrosecondArray::from(times).with_timezone_opt(zone);
            let spec = WindowSpec::parse("10 seconds", None, None).unwrap();
            let windows: ArrayRef = Arc::new(spec.tumbling(&times));
            let numbers: ArrayRef = Arc::new(Int64Array::from(vec![5, 4, 3, 2, 1]));
            let columns = vec![Arc::clone(&numbers), Arc::clone(&windows)];
            let types = vec![DataType::Int64, windows.data_type().clone()];
            let key_groups = KeyGroupCount::DEFAULT;
            let keys = GroupKeys::new(types, EventTimeKey::Window(1), key_groups).unwrap();
            let encoded = keys.encode(&columns, 5).unwrap();
            // Group, time, a number and a start with a flag each.
            assert_eq!(encoded.value(0).len(), 2 + 9 + 9 + 9);
            assert_eq!(keys.decode(&encoded).unwrap(), columns);
            let owners = keys.partitions(&columns, 5, 7).unwrap();
            for (key, owner) in encoded.iter().flatten().zip(owners) {
                let group = KeyGroup(u16::from_be_bytes([key[0], key[1]]));
                assert_eq!(key_groups.partition_of(group, 7), owner);
            }
        }
    }
}
