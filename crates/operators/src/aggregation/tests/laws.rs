//! The kit's laws on aggregations of several kinds.

use super::harness::{Query, aggregate, count_and_sum, partial, windowed};
use super::*;
use crate::{WindowSpec, window_type};
use arrow::array::{Int64Array, RecordBatch, TimestampMicrosecondArray};
use fluvial_conformance::operator::{self as kit, Event, Subject};
use fluvial_core::{EventDuration, KeyGroup};
use proptest::collection::vec;
use proptest::prelude::*;

/// Groups by ten-second windows and key, or by key alone.
struct Case {
    aggregation: Aggregation,
    mode: OutputMode,
    windows: Option<WindowSpec>,
}

impl Case {
    fn new(
        mode: OutputMode,
        windows: Option<WindowSpec>,
        aggregates: Vec<Arc<AggregateFunctionExpr>>,
    ) -> Self {
        let mut groups: Vec<FieldRef> = vec![Arc::new(Field::new("k", DataType::Int64, true))];
        let mut event_time = EventTimeKey::None;
        if windows.is_some() {
            groups.push(Arc::new(Field::new("window", window_type(None), true)));
            event_time = EventTimeKey::Window(1);
        }
        let aggregation =
            Aggregation::new(groups, aggregates, event_time, BTreeMap::new()).unwrap();
        Self { aggregation, mode, windows }
    }

    fn windowed(mode: OutputMode, aggregates: Vec<Arc<AggregateFunctionExpr>>) -> Self {
        let ten_seconds = WindowSpec::parse("10 seconds", None, Some("3 seconds")).unwrap();
        Self::new(mode, Some(ten_seconds), aggregates)
    }
}

impl Subject for Case {
    fn operator(&self) -> &dyn Operator {
        &self.aggregation
    }

    fn mode(&self) -> OutputMode {
        self.mode
    }

    fn rows(&self, _: usize, events: &[Event]) -> RecordBatch {
        let keys = Int64Array::from_iter_values(events.iter().map(|event| event.key));
        let mut groups: Vec<ArrayRef> = vec![Arc::new(keys)];
        if let Some(windows) = &self.windows {
            let times = events.iter().map(|event| event.time);
            let times = TimestampMicrosecondArray::from_iter_values(times);
            groups.push(Arc::new(windows.tumbling(&times)));
        }
        let values = Int64Array::from_iter_values(events.iter().map(|event| event.value));
        partial(&self.aggregation, groups, &(Arc::new(values) as ArrayRef))
    }

    fn groups(&self, _: usize, rows: &RecordBatch, key_groups: KeyGroupCount) -> Vec<KeyGroup> {
        let keys = self.aggregation.keys(key_groups).unwrap();
        let columns = &rows.columns()[..self.aggregation.config.groups.len()];
        let keys = keys.encode(columns, rows.num_rows()).unwrap();
        let group = |key: &[u8]| KeyGroup(u16::from_be_bytes([key[0], key[1]]));
        keys.iter().flatten().map(group).collect()
    }

    fn reach(&self) -> EventDuration {
        EventDuration(10_000_000)
    }
}

/// Aggregates whose states are lists and sketches, and whose results depend on order.
fn ordered() -> Vec<Arc<AggregateFunctionExpr>> {
    vec![
        aggregate(udaf::first_last::first_value_udaf(), "first"),
        aggregate(udaf::average::avg_udaf(), "average"),
        aggregate(udaf::median::median_udaf(), "median"),
    ]
}

/// Sketches are what they are for a given input, whatever the cut into chunks; but a sketch of
/// sketches is not the sketch of the whole, so the cut into batches shows.
fn sketches() -> Box<dyn Subject> {
    let aggregates = vec![
        aggregate(udaf::approx_percentile_cont::approx_percentile_cont_udaf(), "percentile"),
        aggregate(udaf::approx_distinct::approx_distinct_udaf(), "distinct"),
    ];
    Box::new(Case::new(OutputMode::Update, None, aggregates))
}

#[test]
fn sketches_are_deterministic() {
    kit::is_deterministic(&sketches);
    kit::is_chunk_invariant(&sketches);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// [`Query`] compares a store that is local, where new groups are written as they come, with
    /// one where all wait. Sums of numbers this large show in which order they were added.
    #[test]
    fn groups_that_do_not_wait_are_the_same(
        batches in vec(vec((0usize..4, 0i64..30, 0i64..i64::MAX), 0..40), 1..6),
    ) {
        let mut query = Query::new(windowed(1, ordered()), OutputMode::Append);
        for (at, batch) in (0i64..).zip(&batches) {
            let row = |&(key, minute, value): &(usize, i64, i64)| -> Row {
                (Some(["a", "b", "c", "d"][key]), Some(minute as f64 / 10.0), Some(value))
            };
            let rows: Vec<Row> = batch.iter().map(row).collect();
            query.run(&rows, None, Some(at / 3));
        }
    }
}

fluvial_conformance::operator!(
    timed: windows_append,
    || Case::windowed(OutputMode::Append, count_and_sum())
);
fluvial_conformance::operator!(
    timed: windows_append_ordered,
    || Case::windowed(OutputMode::Append, ordered())
);
fluvial_conformance::operator!(
    timed: windows_update,
    || Case::windowed(OutputMode::Update, count_and_sum())
);
fluvial_conformance::operator!(
    timeless: windows_complete,
    || Case::windowed(OutputMode::Complete, count_and_sum())
);
fluvial_conformance::operator!(
    timeless: keys_update,
    || Case::new(OutputMode::Update, None, ordered())
);
