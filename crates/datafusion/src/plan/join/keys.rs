//! The equalities of a join's condition.

use super::super::join_node::JoinKey;
use super::KEY_PREFIX;
use datafusion::common::NullEquality;
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{BinaryExpr, Expr, Join, LogicalPlan, LogicalPlanBuilder, Operator};

/// An equality between an expression of each side.
pub(super) struct Equality {
    pub(super) left: Expr,
    pub(super) right: Expr,
    pub(super) null_safe: bool,
}

/// The conjuncts of a join's condition: equalities of the sides, and the others.
pub(super) fn split(join: &Join) -> (Vec<Equality>, Vec<Expr>) {
    let null_safe = join.null_equality == NullEquality::NullEqualsNull;
    let mut keys: Vec<Equality> = join
        .on
        .iter()
        .map(|(left, right)| Equality { left: left.clone(), right: right.clone(), null_safe })
        .collect();
    let mut others = Vec::new();
    for conjunct in join.filter.iter().cloned().flat_map(split_conjunction_owned) {
        match equality(&conjunct, join.left.schema(), join.right.schema()) {
            Some(key) => keys.push(key),
            None => others.push(conjunct),
        }
    }
    (keys, others)
}

fn equality(conjunct: &Expr, left: &DFSchema, right: &DFSchema) -> Option<Equality> {
    let Expr::BinaryExpr(BinaryExpr { left: l, op, right: r }) = conjunct else { return None };
    let null_safe = match op {
        Operator::Eq => false,
        Operator::IsNotDistinctFrom => true,
        _ => return None,
    };
    if l.is_volatile() || r.is_volatile() {
        return None;
    }
    if of(l, left) && of(r, right) {
        return Some(Equality { left: (**l).clone(), right: (**r).clone(), null_safe });
    }
    (of(r, left) && of(l, right)).then(|| Equality {
        left: (**r).clone(),
        right: (**l).clone(),
        null_safe,
    })
}

/// Whether an expression reads columns, and only those of `schema`.
pub(super) fn of(expr: &Expr, schema: &DFSchema) -> bool {
    let columns = expr.column_refs();
    !columns.is_empty() && columns.into_iter().all(|column| schema.has_column(column))
}

/// Both inputs with a column for every key.
pub(super) fn as_columns(
    [left, right]: [LogicalPlan; 2],
    keys: Vec<Equality>,
) -> Result<([LogicalPlan; 2], Vec<JoinKey>)> {
    let (mut lefts, mut rights) = (Vec::new(), Vec::new());
    let mut columns = Vec::new();
    for (n, key) in keys.into_iter().enumerate() {
        let left = column(key.left, n, &mut lefts);
        let right = column(key.right, n, &mut rights);
        columns.push(JoinKey { left, right, null_safe: key.null_safe });
    }
    Ok(([with(left, lefts)?, with(right, rights)?], columns))
}

/// The column that a key is, or one that is to be added for it.
fn column(key: Expr, n: usize, added: &mut Vec<Expr>) -> Column {
    match key {
        Expr::Column(column) => column,
        other => {
            // The name says what the key is: it is compared at a restart.
            let name = format!("{KEY_PREFIX}{n}: {other}");
            added.push(other.alias(&name));
            Column::new_unqualified(name)
        }
    }
}

fn with(input: LogicalPlan, added: Vec<Expr>) -> Result<LogicalPlan> {
    if added.is_empty() {
        return Ok(input);
    }
    let columns = input.schema().columns().into_iter().map(Expr::Column);
    let all: Vec<Expr> = columns.chain(added).collect();
    LogicalPlanBuilder::from(input).project(all)?.build()
}
