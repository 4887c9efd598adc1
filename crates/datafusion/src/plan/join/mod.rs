//! Turns a join of two streams into a [`StreamJoinNode`].
//!
//! Equalities between the sides become keys. What concerns the rows of one side alone moves below
//! the join, unless that side is preserved: there a row that fails it must come out. Rows whose
//! keys are null, or whose times are where the condition compares them, match nothing, so they
//! leave below the join too; as in Spark such rows do not advance the watermark. So do rows that a
//! filter on the keys of the other side excludes.

mod infer;
mod keys;
mod linear;
mod merge;
mod null_keys;
mod range;
mod times;

pub(crate) use merge::filters_into_joins;
pub(crate) use null_keys::FilterNullKeys;
pub(crate) use times::{Kept, Times};

use super::join_node::{JoinConditions, StreamJoinNode};
use datafusion::common::{Column, JoinType, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{
    Between, BinaryExpr, Expr, Extension, Join, LogicalPlan, LogicalPlanBuilder, Operator,
};
use fluvial_core::{Error, OperatorId};
use fluvial_operators::{JoinKind, JoinRange, Side};
use keys::{Equality, of};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How the names of columns begin that are keys and nothing else.
pub(crate) const KEY_PREFIX: &str = "__join_key_";

/// The streaming form of a join.
///
/// # Errors
///
/// `STREAM_STREAM_JOIN_WITHOUT_EQUALITY` if no key is in its condition.
pub(crate) fn streaming(join: Join, operator: OperatorId) -> Result<LogicalPlan> {
    let (kind, join) = kind_of(join)?;
    let (keys, others) = keys::split(&join);
    if keys.is_empty() {
        return Err(crate::error::plan(
            Error::invalid(
                "a join of two streams needs an equality between them in its condition (a.k = \
                 b.k): without one every row would have to be compared with every other",
            )
            .with_condition("STREAM_STREAM_JOIN_WITHOUT_EQUALITY"),
        ));
    }
    let (left, right) = (Arc::unwrap_or_clone(join.left), Arc::unwrap_or_clone(join.right));
    let mut conditions = JoinConditions::default();
    let mut below: [Vec<Expr>; 2] = [Vec::new(), Vec::new()];
    let (mut lefts, mut rights, mut both) = (Vec::new(), Vec::new(), Vec::new());
    for conjunct in others {
        let of_left = of(&conjunct, left.schema());
        match (of_left, of(&conjunct, right.schema())) {
            _ if conjunct.is_volatile() => both.push(conjunct),
            (true, _) if kind.preserves(Side::Left) => lefts.push(conjunct),
            (true, _) => below[0].push(conjunct),
            (_, true) if kind.preserves(Side::Right) => rights.push(conjunct),
            (_, true) => below[1].push(conjunct),
            (false, false) => both.push(conjunct),
        }
    }
    let keyed = infer::plain(&keys);
    let turned: Vec<(Column, Column)> = keyed.iter().cloned().map(|(l, r)| (r, l)).collect();
    let of_lefts = [infer::known(&left)?, lefts.clone(), below[0].clone()].concat();
    let of_rights = [infer::known(&right)?, rights.clone(), below[1].clone()].concat();
    below[0].extend(infer::of_other(&of_rights, &turned)?);
    below[1].extend(infer::of_other(&of_lefts, &keyed)?);
    let compared = compared(&both);
    let inputs = [(Side::Left, left), (Side::Right, right)].map(|(side, input)| {
        if kind.preserves(side) {
            return Ok(input);
        }
        let at = if side == Side::Left { 0 } else { 1 };
        filtered(input, side, &keys, &compared, std::mem::take(&mut below[at]))
    });
    let [left, right] = inputs;
    let (inputs, keys) = keys::as_columns([left?, right?], keys)?;
    conditions.left = conjunction(lefts);
    conditions.right = conjunction(rights);
    conditions.both = conjunction(both);
    let node = StreamJoinNode::try_new(inputs, kind, keys, conditions, operator)?;
    Ok(LogicalPlan::Extension(Extension { node: Arc::new(node) }))
}

/// The kind of a join; a right semi join is a left one of the sides turned around.
fn kind_of(join: Join) -> Result<(JoinKind, Join)> {
    let kind = match join.join_type {
        JoinType::Inner => JoinKind::Inner,
        JoinType::Left => JoinKind::Left,
        JoinType::Right => JoinKind::Right,
        JoinType::Full => JoinKind::Full,
        JoinType::LeftSemi => JoinKind::LeftSemi,
        JoinType::RightSemi => {
            let on = join.on.into_iter().map(|(l, r)| (r, l)).collect();
            let (left, right) = (join.right, join.left);
            return Ok((JoinKind::LeftSemi, Join { left, right, on, ..join }));
        }
        other => {
            return Err(crate::error::plan(
                Error::invalid(format!("a {other} join of two streams is not supported"))
                    .with_condition("STREAM_STREAM_ANTI_JOIN_NOT_SUPPORTED"),
            ));
        }
    };
    Ok((kind, join))
}

/// The columns without which a comparison of the condition does not hold.
fn compared(conjuncts: &[Expr]) -> BTreeSet<Column> {
    let mut columns = BTreeSet::new();
    for conjunct in conjuncts {
        match conjunct {
            Expr::BinaryExpr(BinaryExpr {
                left,
                op:
                    Operator::Eq
                    | Operator::NotEq
                    | Operator::Lt
                    | Operator::LtEq
                    | Operator::Gt
                    | Operator::GtEq,
                right,
            }) => {
                needed(left, &mut columns);
                needed(right, &mut columns);
            }
            Expr::Between(Between { expr, low, high, negated: false }) => {
                [expr, low, high].into_iter().for_each(|part| needed(part, &mut columns));
            }
            _ => {}
        }
    }
    columns
}

/// The columns without which an expression is null.
fn needed(expr: &Expr, columns: &mut BTreeSet<Column>) {
    match expr {
        Expr::Column(column) => {
            columns.insert(column.clone());
        }
        Expr::Cast(cast) => needed(&cast.expr, columns),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus | Operator::Minus, right }) => {
            needed(left, columns);
            needed(right, columns);
        }
        Expr::ScalarFunction(call)
            if matches!(
                call.func.name(),
                "add" | "subtract" | "cast" | "multiply" | "negative"
            ) =>
        {
            call.args.iter().for_each(|arg| needed(arg, columns));
        }
        _ => {}
    }
}

/// A side without the rows that match nothing.
fn filtered(
    input: LogicalPlan,
    side: Side,
    keys: &[Equality],
    compared: &BTreeSet<Column>,
    mut conjuncts: Vec<Expr>,
) -> Result<LogicalPlan> {
    for key in keys.iter().filter(|key| !key.null_safe) {
        let expr = match side {
            Side::Left => &key.left,
            Side::Right => &key.right,
        };
        let mut columns = BTreeSet::new();
        needed(expr, &mut columns);
        match columns.is_empty() {
            true => conjuncts.push(expr.clone().is_not_null()),
            false => conjuncts.extend(columns.into_iter().map(|c| Expr::Column(c).is_not_null())),
        }
    }
    let own = compared.iter().filter(|column| input.schema().has_column(column));
    conjuncts.extend(own.map(|column| Expr::Column(column.clone()).is_not_null()));
    let mut seen = Vec::new();
    conjuncts.retain(|conjunct| {
        let new = !seen.contains(conjunct);
        seen.push(conjunct.clone());
        new
    });
    match conjunction(conjuncts) {
        Some(predicate) => LogicalPlanBuilder::from(input).filter(predicate)?.build(),
        None => Ok(input),
    }
}

/// The range of times of a planned join, by positions in its rows.
pub(crate) fn join_range(node: &StreamJoinNode, times: &Times) -> Result<Option<JoinRange>> {
    let Some(apart) = &times.apart else { return Ok(None) };
    let left = node.row_schema(Side::Left)?.index_of_column(&apart.left)?;
    let right = node.row_schema(Side::Right)?.index_of_column(&apart.right)?;
    Ok(Some(JoinRange { left, right, lower: apart.lower, upper: apart.upper }))
}

/// Refuses a side with several event times: which of them says that a row is late?
///
/// # Errors
///
/// `STREAMING_MULTIPLE_EVENT_TIMES`.
pub(crate) fn one_event_time(node: &StreamJoinNode) -> fluvial_core::Result<()> {
    for side in [Side::Left, Side::Right] {
        let times = node.event_times(side);
        if times.len() > 1 {
            let names: Vec<String> = times.iter().map(ToString::to_string).collect();
            return Err(Error::invalid(format!(
                "the {side} side of the join {} has several event times ({}): select one of them \
                 below it",
                node.operator,
                names.join(", ")
            ))
            .with_condition("STREAMING_MULTIPLE_EVENT_TIMES"));
        }
    }
    Ok(())
}

/// What there is to say of a full outer join that knows when the rows of one side only are done
/// with: Spark takes it, too.
pub(crate) fn warning(plan: &LogicalPlan) -> Option<String> {
    let LogicalPlan::Extension(Extension { node }) = plan else { return None };
    let node = node.as_any().downcast_ref::<StreamJoinNode>()?;
    let kept = node.times().ok()?.kept;
    let side = match (&kept[0], &kept[1]) {
        _ if node.kind != JoinKind::Full => return None,
        (Kept::ForEver, Kept::ForEver) => return None,
        (Kept::ForEver, _) => Side::Left,
        (_, Kept::ForEver) => Side::Right,
        _ => return None,
    };
    Some(format!(
        "the state of {} grows without bound: nothing says when a {side} row can no longer match, so \
         one that matches nothing never comes out; bound the other side's time in the condition",
        node.operator
    ))
}

/// Refuses a join that would never put out what it must, or never forget.
///
/// # Errors
///
/// `STREAM_STREAM_JOIN_WITHOUT_WATERMARK` with what is missing.
pub(crate) fn check(node: &StreamJoinNode) -> fluvial_core::Result<()> {
    let times = node.times().map_err(crate::error::from_datafusion)?;
    if times.suffices(node.kind) {
        return Ok(());
    }
    let (side, other) = match node.kind {
        JoinKind::Right => (Side::Right, Side::Left),
        _ => (Side::Left, Side::Right),
    };
    let missing = match node.event_times(other).first() {
        None => format!("the {other} side has no watermark: give it one with with_watermark"),
        Some(time) => format!(
            "nothing says how late {time} may be after a {side} row: add a bound to the condition \
             (such as {time} <= {side}_time + interval 10 minutes), or make the event times equal"
        ),
    };
    Err(Error::invalid(format!(
        "a {} join of two streams needs a watermark on a key, or a watermark on the {other} side \
         and a range of times in the condition, to know when a {side} row can no longer match; \
         {missing}",
        node.kind
    ))
    .with_condition("STREAM_STREAM_JOIN_WITHOUT_WATERMARK"))
}

#[cfg(test)]
mod tests;
