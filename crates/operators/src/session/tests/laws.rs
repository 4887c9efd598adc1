//! The kit's laws on sessions.

use super::super::state::is_by_end;
use super::super::{SessionAggregation, SessionTime};
use super::{by, partial};
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::DataType;
use fluvial_conformance::operator::{Contents, Event, Subject};
use fluvial_core::{EventDuration, KeyGroup, KeyGroupCount, Operator, OutputMode};
use std::sync::Arc;

struct Case {
    sessions: SessionAggregation,
    mode: OutputMode,
    gap: fn(&Event) -> i64,
}

fn case(mode: OutputMode, gap: fn(&Event) -> i64) -> Case {
    Case { sessions: by(DataType::Int64, SessionTime::EventTime), mode, gap }
}

impl Subject for Case {
    fn operator(&self) -> &dyn Operator {
        &self.sessions
    }

    fn mode(&self) -> OutputMode {
        self.mode
    }

    fn rows(&self, _: usize, events: &[Event]) -> RecordBatch {
        let keys = Int64Array::from_iter_values(events.iter().map(|event| event.key));
        let edges = events.iter().map(|event| (event.time, event.time + (self.gap)(event)));
        let keys: ArrayRef = Arc::new(keys);
        let values = events.iter().map(|event| event.value).collect();
        partial(&self.sessions, keys, edges, values)
    }

    fn groups(&self, _: usize, rows: &RecordBatch, key_groups: KeyGroupCount) -> Vec<KeyGroup> {
        let codec = self.sessions.key_codec(key_groups).unwrap();
        let keys: Vec<ArrayRef> =
            self.sessions.keys().into_iter().map(|at| Arc::clone(rows.column(at))).collect();
        codec.encode_prefixes(&keys, rows.num_rows()).unwrap().groups
    }

    fn rows_in(&self, contents: &Contents) -> u64 {
        contents.keys().filter(|key| !is_by_end(key)).count() as u64
    }

    fn reach(&self) -> EventDuration {
        EventDuration(10_000_000)
    }
}

fn fixed(_: &Event) -> i64 {
    5_000_000
}

fn varying(event: &Event) -> i64 {
    1 + event.value * 1_000_000
}

fluvial_conformance::operator!(timed: append, || case(OutputMode::Append, fixed));
fluvial_conformance::operator!(timed: append_varying, || case(OutputMode::Append, varying));
fluvial_conformance::operator!(timeless: complete, || case(OutputMode::Complete, fixed));
