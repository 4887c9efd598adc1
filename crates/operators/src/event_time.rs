//! Which column of a row is its event time, and which rows came too late.

use crate::watermark::OutputWatermark;
use crate::window::window_ends;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, TimestampMicrosecondArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use fluvial_core::{Error, LateWatermark, OutputMode, Result, TimeColumn, TimeKind};

/// The event time among the columns of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventTimeKey {
    /// No column is event time: nothing is late and nothing is ever evicted.
    None,
    /// The column at this position is the time itself.
    Column(usize),
    /// The column at this position is a window: its end is the time.
    Window(usize),
}

impl EventTimeKey {
    /// How the watermark of the input passes an operator with such a key: its rows leave when
    /// their time is passed, or have no event time.
    pub fn output_watermark(self) -> OutputWatermark {
        match self {
            Self::None => OutputWatermark::Ends,
            Self::Column(_) | Self::Window(_) => OutputWatermark::Passes,
        }
    }

    /// As it is recorded in checkpoints.
    pub(crate) fn recorded(self) -> Option<TimeColumn> {
        let (column, kind) = match self {
            Self::None => return None,
            Self::Column(column) => (column, TimeKind::Instant),
            Self::Window(column) => (column, TimeKind::Window),
        };
        Some(TimeColumn { column, kind })
    }

    /// The key of a recorded layout; sessions are none.
    pub(crate) fn of_recorded(recorded: Option<TimeColumn>) -> Self {
        match recorded {
            Some(TimeColumn { column, kind: TimeKind::Instant }) => Self::Column(column),
            Some(TimeColumn { column, kind: TimeKind::Window }) => Self::Window(column),
            Some(TimeColumn { kind: TimeKind::Session, .. }) | None => Self::None,
        }
    }

    /// The position of the column.
    pub fn column(self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Column(at) | Self::Window(at) => Some(at),
        }
    }

    /// Checks that the column of this position is what it should be.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is not.
    pub(crate) fn check(self, types: &[&DataType]) -> Result<()> {
        let is_time = |t: &DataType| matches!(t, DataType::Timestamp(TimeUnit::Microsecond, _));
        let fits = match self {
            Self::None => true,
            Self::Column(at) => types.get(at).is_some_and(|t| is_time(t)),
            Self::Window(at) => types.get(at).is_some_and(|t| match t {
                DataType::Struct(fields) => {
                    fields.find("end").is_some_and(|(_, end)| is_time(end.data_type()))
                }
                _ => false,
            }),
        };
        if fits {
            return Ok(());
        }
        Err(Error::invalid(format!("{self:?} is no event time among key columns of {types:?}")))
    }

    /// The times that decide when each of these keys expires; null is never.
    ///
    /// # Errors
    ///
    /// `Invalid` if the column is not what it should be.
    pub(crate) fn times(self, keys: &[ArrayRef]) -> Result<Option<TimestampMicrosecondArray>> {
        match self.column() {
            None => Ok(None),
            Some(at) => {
                let column = keys.get(at).ok_or_else(|| {
                    Error::invalid(format!("the event time is column {at} of {}", keys.len()))
                })?;
                event_times(column.as_ref()).map(Some)
            }
        }
    }
}

/// Whether a type is a window: a struct with a start and an end.
pub(crate) fn is_window_type(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.find("start").is_some() && fields.find("end").is_some(),
        _ => false,
    }
}

/// The event times of a column of timestamps or of windows, whose time is their end.
///
/// # Errors
///
/// `Invalid` for any other column.
pub fn event_times(column: &dyn Array) -> Result<TimestampMicrosecondArray> {
    if let Some(windows) = column.as_struct_opt() {
        return window_ends(windows);
    }
    column.as_primitive_opt::<TimestampMicrosecondType>().cloned().ok_or_else(|| {
        Error::invalid(format!(
            "event time is a timestamp in microseconds or a window, not {}",
            column.data_type()
        ))
    })
}

/// The watermark that judges what comes to an operator: none in complete mode, which keeps
/// every group for ever and so takes rows of any age.
pub fn late_watermark(mode: OutputMode, late: LateWatermark) -> LateWatermark {
    match mode {
        OutputMode::Complete => LateWatermark(None),
        OutputMode::Append | OutputMode::Update => late,
    }
}

/// Tells rows that came too late from the others.
///
/// It stands below partial aggregation, so that rows are counted and not groups of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LateFilter {
    watermark: LateWatermark,
}

/// What [`LateFilter::judge`] found.
#[derive(Debug, Clone, PartialEq)]
pub struct LateRows {
    /// Which rows to keep; has no nulls.
    pub keep: BooleanArray,
    /// How many to drop; never zero.
    pub count: u64,
}

impl LateFilter {
    /// Judges by `watermark`; see [`late_watermark`].
    pub fn new(watermark: LateWatermark) -> Self {
        Self { watermark }
    }

    /// The late rows of a column of times or windows; `None` if there are none. A null is never
    /// late.
    ///
    /// # Errors
    ///
    /// `Invalid` if the column holds neither timestamps in microseconds nor windows.
    pub fn judge(&self, column: &dyn Array) -> Result<Option<LateRows>> {
        match self.watermark.0 {
            None => Ok(None),
            Some(_) => Ok(self.judge_times(&event_times(column)?)),
        }
    }

    /// As [`Self::judge`], of times.
    pub(crate) fn judge_times(&self, times: &TimestampMicrosecondArray) -> Option<LateRows> {
        let watermark = self.watermark.0?.0;
        let values = times.values();
        // Whole words of bits; what lies in the slot of a null is put right by its bitmap.
        let mut late = BooleanBuffer::collect_bool(values.len(), |i| values[i] <= watermark);
        if let Some(nulls) = times.nulls() {
            late = &late & nulls.inner();
        }
        let count = late.count_set_bits() as u64;
        (count > 0).then(|| LateRows { keep: BooleanArray::new(!&late, None), count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WindowSpec;
    use fluvial_core::{EventDuration, EventTime};

    fn times() -> TimestampMicrosecondArray {
        TimestampMicrosecondArray::from(vec![Some(4), Some(5), None, Some(6), Some(-1)])
    }

    fn filter(watermark: i64) -> LateFilter {
        LateFilter::new(LateWatermark(Some(EventTime(watermark))))
    }

    /// Trap A9.
    #[test]
    fn a_row_at_the_watermark_is_late_and_a_null_is_not() {
        let late = filter(5).judge(&times()).unwrap().unwrap();
        assert_eq!(late.keep, BooleanArray::from(vec![false, false, true, true, false]));
        assert_eq!(late.count, 3);
        assert_eq!(filter(-2).judge(&times()).unwrap(), None);
    }

    #[test]
    fn a_window_is_late_when_its_end_is() {
        let ten = EventDuration(10);
        let windows = WindowSpec::new(ten, ten, EventDuration(0)).unwrap().tumbling(&times());
        assert_eq!(filter(9).judge(&windows).unwrap().unwrap().count, 1);
        let late = filter(10).judge(&windows).unwrap().unwrap();
        assert_eq!(late.keep, BooleanArray::from(vec![false, false, true, false, false]));
    }

    #[test]
    fn before_the_first_event_nothing_is_late() {
        let filter = LateFilter::new(LateWatermark(None));
        assert_eq!(filter.judge(&times()).unwrap(), None);
        let late = LateWatermark(Some(EventTime(0)));
        assert_eq!(late_watermark(OutputMode::Complete, late), LateWatermark(None));
        assert_eq!(late_watermark(OutputMode::Update, late), late);
    }

    #[test]
    fn sliced_columns_are_judged_by_their_rows() {
        let late = filter(5).judge(&times().slice(1, 3)).unwrap().unwrap();
        assert_eq!(late.keep, BooleanArray::from(vec![false, true, true]));
    }

    #[test]
    fn other_columns_are_refused() {
        assert!(filter(5).judge(&BooleanArray::from(vec![true])).is_err());
    }
}
