//! What a condition says of the times of both sides: when rows of a side can no longer match, and
//! how far apart the rows of a pair may be.

use super::linear::{Linear, linear};
use datafusion::common::{Column, DFSchema, ExprSchema};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};
use fluvial_core::EventDuration;

/// Watermarks are whole milliseconds; what lies between is not behind one yet.
const MILLISECOND: i128 = 1000;

/// `later - earlier + constant > 0`, or `>= 0`: a comparison of times.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Order {
    later: Column,
    earlier: Column,
    constant: i128,
    strict: bool,
    /// As in [`Linear`].
    cut: bool,
    days: bool,
}

impl Order {
    /// By how much times may be further apart than the constant says.
    fn slack(&self) -> i128 {
        let cut = if self.cut { 2_000_000 } else { 0 };
        cut + if self.days { 2 * 3_600_000_000 } else { 0 }
    }
}

/// The comparisons of two times among conjuncts.
fn orders<'e>(
    conjuncts: impl IntoIterator<Item = &'e Expr>,
    schema: &dyn ExprSchema,
) -> Vec<Order> {
    let mut found = Vec::new();
    for conjunct in conjuncts {
        match conjunct {
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
                found.extend(order(left, *op, right, schema));
            }
            Expr::Between(Between { expr, negated: false, low, high }) => {
                found.extend(order(low, Operator::LtEq, expr, schema));
                found.extend(order(expr, Operator::LtEq, high, schema));
            }
            _ => {}
        }
    }
    found
}

fn order(left: &Expr, op: Operator, right: &Expr, schema: &dyn ExprSchema) -> Option<Order> {
    let (small, large, strict) = match op {
        Operator::Lt => (left, right, true),
        Operator::LtEq => (left, right, false),
        Operator::Gt => (right, left, true),
        Operator::GtEq => (right, left, false),
        _ => return None,
    };
    let difference = linear(large, schema)?.add(linear(small, schema)?.negate());
    let Linear { plus, minus, constant, cut, days } = difference;
    match (plus.as_slice(), minus.as_slice()) {
        ([later], [earlier]) => Some(Order {
            later: later.clone(),
            earlier: earlier.clone(),
            constant,
            strict,
            cut,
            days,
        }),
        _ => None,
    }
}

/// From when on rows of a side can no longer match: the column of their time, and what is added
/// to the watermark of the other side. `time` is that side's event time.
///
/// A row of this side matches rows of the other that are after the watermark only, so
/// `own > other - constant` says that what is at or before `watermark - constant` is done with; a
/// millisecond less if equal times match. Of several bounds the lowest counts, as in Spark.
pub(super) fn eviction(
    conjuncts: &[Expr],
    own: &DFSchema,
    preferred: Option<&Column>,
    time: &Column,
    schema: &DFSchema,
) -> Option<(Column, EventDuration)> {
    let bounds: Vec<Order> = orders(conjuncts, schema)
        .into_iter()
        .filter(|order| order.earlier == *time && own.has_column(&order.later))
        .collect();
    let chosen = bounds
        .iter()
        .find(|order| preferred == Some(&order.later))
        .or_else(|| bounds.first())?
        .later
        .clone();
    let offsets = bounds.iter().filter(|order| order.later == chosen).map(|order| {
        // Equal seconds may be almost a second apart before fractions are cut off.
        let behind = match (order.strict, order.cut) {
            (true, _) => 0,
            (false, false) => MILLISECOND,
            (false, true) => 1000 * MILLISECOND,
        };
        clamp(-order.constant - behind)
    });
    let offset = offsets.min()?;
    Some((chosen, offset))
}

/// How far a right time may be ahead of a left time in a pair: the first pair of columns that the
/// condition compares, and all it says of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Apart {
    pub(super) left: Column,
    pub(super) right: Column,
    pub(super) lower: Option<EventDuration>,
    pub(super) upper: Option<EventDuration>,
}

pub(super) fn apart(
    conjuncts: &[Expr],
    left: &DFSchema,
    right: &DFSchema,
    schema: &DFSchema,
) -> Option<Apart> {
    let mut found: Option<Apart> = None;
    for order in orders(conjuncts, schema) {
        let (l, r, ahead) = match left.has_column(&order.later) {
            true => (&order.later, &order.earlier, false),
            false => (&order.earlier, &order.later, true),
        };
        if !left.has_column(l) || !right.has_column(r) {
            continue;
        }
        let apart = found.get_or_insert_with(|| Apart {
            left: l.clone(),
            right: r.clone(),
            lower: None,
            upper: None,
        });
        if (&apart.left, &apart.right) != (l, r) {
            continue;
        }
        match ahead {
            // right - left >= -constant
            true => {
                let bound = clamp(-order.constant - order.slack());
                apart.lower = Some(apart.lower.map_or(bound, |other| other.max(bound)));
            }
            // right - left <= constant
            false => {
                let bound = clamp(order.constant + order.slack());
                apart.upper = Some(apart.upper.map_or(bound, |other| other.min(bound)));
            }
        }
    }
    found
}

fn clamp(micros: i128) -> EventDuration {
    EventDuration(micros.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}
