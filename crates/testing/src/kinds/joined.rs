//! Joins of two streams, of each kind.

use super::pieces::{EVENTS, Files, SALES, query, stateful};
use crate::query::{Cut, Query};
use fluvial::datafusion::logical_expr::Operator as Op;
use fluvial::datafusion::physical_expr::PhysicalExpr;
use fluvial::datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};
use fluvial::datafusion::scalar::ScalarValue;
use fluvial_core::{EventDuration, KeyGroupCount, Result};
use fluvial_engine::OperatorRunner;
use fluvial_operators::{JoinEviction, JoinKind, JoinRange, JoinSide, StreamJoin};
use std::sync::Arc;

/// A sale belongs to the events of its page in the ten seconds before it.
const WITHIN: EventDuration = EventDuration(10_000_000);

type Expr = Arc<dyn PhysicalExpr>;

fn binary(left: Expr, op: Op, right: Expr) -> Expr {
    Arc::new(BinaryExpr::new(left, op, right))
}

/// `sold >= at and sold <= at + 10 seconds`, over the columns of both sides.
fn condition() -> Expr {
    let at = || -> Expr { Arc::new(Column::new("at", EVENTS.time)) };
    let sold = || -> Expr { Arc::new(Column::new("sold", 4 + SALES.time)) };
    let within = ScalarValue::new_interval_mdn(0, 0, WITHIN.0 * 1000);
    let until = binary(at(), Op::Plus, Arc::new(Literal::new(within)));
    let from = binary(sold(), Op::GtEq, at());
    binary(from, Op::And, binary(sold(), Op::LtEq, until))
}

fn side(files: Files, key: usize, offset: EventDuration) -> Result<JoinSide> {
    let input = files.schema()?;
    let eviction = JoinEviction::Time { column: files.time, offset };
    let width = input.fields().len();
    let event_time = Some(files.time);
    Ok(JoinSide { input, width, keys: vec![key], event_time, filter: None, eviction })
}

fn join(name: &str, kind: JoinKind) -> Result<Query> {
    // An event waits for sales until ten seconds later; a sale for no event after it.
    let left = side(EVENTS, 1, EventDuration(-WITHIN.0 - 1000))?;
    let right = side(SALES, 0, EventDuration(-1000))?;
    let range = JoinRange {
        left: EVENTS.time,
        right: SALES.time,
        lower: Some(EventDuration(0)),
        upper: Some(WITHIN),
    };
    let join = StreamJoin::new(kind, [left, right], vec![false], Some(condition()), Some(range))?;
    let codec = join.key_codec(KeyGroupCount::DEFAULT)?;
    let stateful =
        stateful(Arc::new(join), vec![vec![1], vec![0]], move |columns, rows, groups| {
            codec.partitions(columns, rows, groups)
        })?;
    let inputs = vec![EVENTS.input(0, EVENTS.time, None)?, SALES.input(1, SALES.time, None)?];
    Ok(query(name, vec![EVENTS, SALES], OperatorRunner::stateful(inputs, stateful)))
}

/// Events with the sales that follow.
pub(super) fn inner(name: &'static str) -> Result<Query> {
    join(name, JoinKind::Inner)
}

/// And events without.
pub(super) fn left(name: &'static str) -> Result<Query> {
    join(name, JoinKind::Left)
}

/// And sales without.
pub(super) fn full(name: &'static str) -> Result<Query> {
    join(name, JoinKind::Full)
}

/// Events that a sale follows, once each. Whether a row that matched is stored depends on whether
/// both came in one batch.
pub(super) fn semi(name: &'static str) -> Result<Query> {
    Ok(join(name, JoinKind::LeftSemi)?.cut(Cut::Fixed))
}
