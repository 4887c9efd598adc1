//! From times to windows and back, a column at a time.

use super::WindowSpec;
use arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray, TimestampMicrosecondArray};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Field, Fields, TimeUnit, TimestampMicrosecondType};
use fluvial_core::{Error, Result};
use std::sync::Arc;

/// The type of a window over times in `zone`: a struct of `start` and `end`.
pub fn window_type(zone: Option<Arc<str>>) -> DataType {
    DataType::Struct(window_fields(zone))
}

fn window_fields(zone: Option<Arc<str>>) -> Fields {
    let time = DataType::Timestamp(TimeUnit::Microsecond, zone);
    Fields::from(vec![Field::new("start", time.clone(), false), Field::new("end", time, false)])
}

impl WindowSpec {
    /// The window that each time lies in; null for null. Of overlapping windows the latest.
    ///
    /// Edges beyond the range of times are moved to its ends.
    pub fn tumbling(&self, times: &TimestampMicrosecondArray) -> StructArray {
        let aligned = Aligned::new(self);
        let size = self.size().0;
        let starts: Vec<i64> = times.values().iter().map(|&time| aligned.start_of(time)).collect();
        let ends: Vec<i64> = starts.iter().map(|start| start.saturating_add(size)).collect();
        windows_of(starts, ends, times.nulls().cloned(), times.timezone().map(Arc::from))
    }

    /// The windows that each time lies in, the latest first; none for null.
    ///
    /// # Errors
    ///
    /// `Invalid` if there are more than 2^31 windows: pass fewer rows at a time.
    pub fn sliding(&self, times: &TimestampMicrosecondArray) -> Result<ListArray> {
        let aligned = Aligned::new(self);
        let (size, slide, overlaps) = (self.size().0, self.slide().0, self.overlaps());
        let most = (times.len() as i128 - times.null_count() as i128) * i128::from(overlaps);
        if most > i128::from(i32::MAX) {
            return Err(Error::invalid(format!(
                "{} rows lie in up to {most} windows: read fewer rows at a time",
                times.len()
            )));
        }
        let mut starts: Vec<i64> = Vec::with_capacity(most as usize);
        let mut ends: Vec<i64> = Vec::with_capacity(most as usize);
        let mut offsets: Vec<i32> = Vec::with_capacity(times.len() + 1);
        offsets.push(0);
        for (row, &time) in times.values().iter().enumerate() {
            if times.is_valid(row) {
                let mut start = aligned.start_of(time);
                for _ in 0..overlaps {
                    let end = start.saturating_add(size);
                    // The earliest may end before the time, if the slide does not divide the size.
                    if end <= time && end < i64::MAX {
                        break;
                    }
                    starts.push(start);
                    ends.push(end);
                    match start.checked_sub(slide) {
                        Some(earlier) => start = earlier,
                        None => break,
                    }
                }
            }
            offsets.push(starts.len() as i32);
        }
        let item = windows_of(starts, ends, None, times.timezone().map(Arc::from));
        let field = Arc::new(Field::new_list_field(item.data_type().clone(), false));
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        Ok(ListArray::try_new(field, offsets, Arc::new(item), None)?)
    }
}

/// Starts of windows, with the divisions that do not depend on the row done.
struct Aligned {
    slide: i64,
    start: i64,
}

impl Aligned {
    fn new(spec: &WindowSpec) -> Self {
        let slide = spec.slide().0;
        Self { slide, start: spec.start().0.rem_euclid(slide) }
    }

    /// Start of the latest window that begins at or before `time`. Remainders are never
    /// negative, so times before the epoch lie in their windows too, and nothing overflows.
    fn start_of(&self, time: i64) -> i64 {
        let past = time.rem_euclid(self.slide) - self.start;
        time.saturating_sub(if past < 0 { past + self.slide } else { past })
    }
}

/// A column of windows over times in `zone`.
fn windows_of(
    starts: Vec<i64>,
    ends: Vec<i64>,
    nulls: Option<NullBuffer>,
    zone: Option<Arc<str>>,
) -> StructArray {
    let column = |values: Vec<i64>| -> ArrayRef {
        Arc::new(TimestampMicrosecondArray::from(values).with_timezone_opt(zone.clone()))
    };
    let columns = vec![column(starts), column(ends)];
    StructArray::new(window_fields(zone.clone()), columns, nulls)
}

/// The time that a window stands for: a microsecond before its end; null for null.
///
/// # Errors
///
/// `Invalid` unless the column is a struct with a timestamp `end`.
pub fn window_time(windows: &StructArray) -> Result<TimestampMicrosecondArray> {
    let ends = window_ends(windows)?;
    Ok(ends
        .unary::<_, TimestampMicrosecondType>(|end| end.saturating_sub(1))
        .with_timezone_opt(ends.timezone()))
}

/// The ends of windows, null where the window is.
pub(crate) fn window_ends(windows: &StructArray) -> Result<TimestampMicrosecondArray> {
    let ends = windows
        .column_by_name("end")
        .and_then(|ends| ends.as_primitive_opt::<TimestampMicrosecondType>())
        .ok_or_else(|| {
            Error::invalid(format!(
                "a window is a struct with a timestamp `end` in microseconds, not {}",
                windows.data_type()
            ))
        })?;
    let nulls = NullBuffer::union(windows.nulls(), ends.nulls());
    let values = ends.values().clone();
    Ok(TimestampMicrosecondArray::try_new(values, nulls)?.with_timezone_opt(ends.timezone()))
}
