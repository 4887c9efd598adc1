//! `Times`: when the rows of a join leave its state.

use super::super::join_node::StreamJoinNode;
use super::range::{Apart, apart, eviction};
use crate::plan::event_time::{can_be_event_time, is_event_time};
use datafusion::common::{Column, ExprSchema, Result};
use datafusion::logical_expr::utils::split_conjunction_owned;
use fluvial_core::EventDuration;
use fluvial_operators::{JoinKind, Side};

/// When the rows of one side leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Never.
    ForEver,
    /// When the watermark reaches the time of this key.
    ByKey(usize),
    /// When the time in this column is at or before the watermark and this.
    ByTime(Column, EventDuration),
}

/// What is known of the times of a join's rows.
#[derive(Debug, Clone)]
pub(crate) struct Times {
    /// Left, then right.
    pub(crate) kept: [Kept; 2],
    pub(super) apart: Option<Apart>,
}

impl Times {
    pub(crate) fn of(node: &StreamJoinNode) -> Result<Self> {
        let pairs = node.pair_schema()?;
        let conjuncts: Vec<_> =
            node.conditions.both.iter().cloned().flat_map(split_conjunction_owned).collect();
        let (left, right) = (node.left.schema(), node.right.schema());
        let apart = apart(&conjuncts, left, right, &pairs);
        if let Some(key) = timed_key(node) {
            return Ok(Self { kept: [Kept::ByKey(key), Kept::ByKey(key)], apart });
        }
        let kept = [Side::Left, Side::Right].map(|side| {
            let other = match side {
                Side::Left => Side::Right,
                Side::Right => Side::Left,
            };
            let own = node.event_times(side);
            // As in Spark a side without a watermark of its own keeps its rows, unless they have
            // to come out some day.
            if own.is_empty() && !node.kind.preserves(side) {
                return Kept::ForEver;
            }
            let bound = node.event_times(other).first().and_then(|time| {
                eviction(&conjuncts, node.input(side).schema(), own.first(), time, &pairs)
            });
            bound.map_or(Kept::ForEver, |(column, offset)| Kept::ByTime(column, offset))
        });
        Ok(Self { kept, apart })
    }

    /// Whether every row that has to come out, or has to be forgotten, does so some day.
    pub(crate) fn suffices(&self, kind: JoinKind) -> bool {
        let bounded = |side: usize| self.kept[side] != Kept::ForEver;
        match kind {
            JoinKind::Inner => true,
            JoinKind::Left | JoinKind::LeftSemi => bounded(0),
            JoinKind::Right => bounded(1),
            JoinKind::Full => bounded(0) || bounded(1),
        }
    }

    /// For people: how long rows of a side are kept.
    pub(crate) fn kept(&self, side: usize) -> String {
        match &self.kept[side] {
            Kept::ForEver => "for ever".to_owned(),
            Kept::ByKey(key) => format!("until the watermark reaches key {}", key + 1),
            Kept::ByTime(column, EventDuration(micros)) => {
                let (sign, ms) =
                    (if *micros < 0 { '-' } else { '+' }, micros.unsigned_abs() / 1000);
                format!("until {column} <= watermark {sign} {ms} ms")
            }
        }
    }
}

/// The first key that is event time on either side: then it is on both, since they are equal.
fn timed_key(node: &StreamJoinNode) -> Option<usize> {
    let marked = |side: Side, column: &Column| {
        let field = node.input(side).schema().field_from_column(column).ok();
        field.is_some_and(|f| is_event_time(f) && can_be_event_time(f.data_type()))
    };
    let left = node.keys.iter().position(|key| marked(Side::Left, &key.left));
    left.or_else(|| node.keys.iter().position(|key| marked(Side::Right, &key.right)))
}
