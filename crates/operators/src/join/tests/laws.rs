//! The kit's laws on joins of every kind.

use super::harness::{SECOND, Within, keyed, r, ranged, rows, stored};
use crate::join::{JoinKind, Side, StreamJoin};
use arrow::array::RecordBatch;
use fluvial_conformance::operator::{Contents, Event, Subject};
use fluvial_core::{EventDuration, KeyGroup, KeyGroupCount, Operator, OutputMode};

struct Case {
    join: StreamJoin,
    mode: OutputMode,
    /// Times of keys are rounded up to this, so that some are equal.
    round: i64,
}

impl Case {
    fn ranged(kind: JoinKind) -> Self {
        let join = ranged(kind, Within { lower: -20, upper: 30 });
        Self { join, mode: OutputMode::Append, round: 1 }
    }

    fn keyed(kind: JoinKind) -> Self {
        Self { join: keyed(kind), mode: OutputMode::Append, round: 20 * SECOND }
    }
}

impl Subject for Case {
    fn operator(&self) -> &dyn Operator {
        &self.join
    }

    fn mode(&self) -> OutputMode {
        self.mode
    }

    fn rows(&self, port: usize, events: &[Event]) -> RecordBatch {
        let row = |event: &Event| {
            let mut row = r(event.key, 0, event.value * 2 + port as i64);
            row.t = Some((event.time + self.round - 1).div_euclid(self.round) * self.round);
            row
        };
        rows(&events.iter().map(row).collect::<Vec<_>>())
    }

    fn groups(&self, _: usize, rows: &RecordBatch, key_groups: KeyGroupCount) -> Vec<KeyGroup> {
        let codec = self.join.key_codec(key_groups).unwrap();
        let keys = &rows.columns()[..codec.types().len()];
        codec.encode(keys, None, rows.num_rows()).unwrap().groups
    }

    fn meaning(&self, contents: &Contents) -> Contents {
        let semi = self.join.join_kind() == JoinKind::LeftSemi;
        let mut meaning = Contents::new();
        for (side, key, matched, columns) in stored(contents) {
            // A left row that has come out can do nothing any more: whether it is still there
            // depends on which of the two came first.
            if semi && side == Side::Left && matched {
                continue;
            }
            let row = [&[side.index() as u8, u8::from(matched)], key.as_slice(), &columns].concat();
            meaning.entry(row).or_insert_with(|| vec![0])[0] += 1;
        }
        meaning
    }

    fn rows_in(&self, contents: &Contents) -> u64 {
        stored(contents).len() as u64
    }

    fn reach(&self) -> EventDuration {
        EventDuration(30 * SECOND)
    }
}

fn update(kind: JoinKind) -> Case {
    Case { mode: OutputMode::Update, ..Case::ranged(kind) }
}

fluvial_conformance::operator!(timed: ranged_inner, || Case::ranged(JoinKind::Inner));
fluvial_conformance::operator!(timed: ranged_left, || Case::ranged(JoinKind::Left));
fluvial_conformance::operator!(timed: ranged_right, || Case::ranged(JoinKind::Right));
fluvial_conformance::operator!(timed: ranged_full, || Case::ranged(JoinKind::Full));
fluvial_conformance::operator!(timed: ranged_semi, || Case::ranged(JoinKind::LeftSemi));
fluvial_conformance::operator!(timed: keyed_inner, || Case::keyed(JoinKind::Inner));
fluvial_conformance::operator!(timed: keyed_left, || Case::keyed(JoinKind::Left));
fluvial_conformance::operator!(timed: keyed_right, || Case::keyed(JoinKind::Right));
fluvial_conformance::operator!(timed: keyed_full, || Case::keyed(JoinKind::Full));
fluvial_conformance::operator!(timed: keyed_semi, || Case::keyed(JoinKind::LeftSemi));
fluvial_conformance::operator!(timed: inner_in_update_mode, || update(JoinKind::Inner));
fluvial_conformance::operator!(timed: semi_in_update_mode, || update(JoinKind::LeftSemi));
