//! `StreamJoinNode`: a join of two streams, whose rows wait in state.

use super::event_time::is_event_time;
use super::join::{KEY_PREFIX, Times};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, TableReference, internal_err};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use fluvial_core::OperatorId;
use fluvial_operators::{JoinKind, Side};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// One key of a join: a column of each side.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct JoinKey {
    pub(crate) left: Column,
    pub(crate) right: Column,
    /// Whether null equals null: `<=>`.
    pub(crate) null_safe: bool,
}

/// What rows must satisfy beyond equal keys.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(crate) struct JoinConditions {
    /// Of preserved left rows alone.
    pub(crate) left: Option<Expr>,
    /// Of preserved right rows alone.
    pub(crate) right: Option<Expr>,
    /// Of both.
    pub(crate) both: Option<Expr>,
}

/// Joins two streams. Columns whose names begin with [`KEY_PREFIX`] are keys only: they are not
/// stored and do not come out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StreamJoinNode {
    pub(crate) left: LogicalPlan,
    pub(crate) right: LogicalPlan,
    pub(crate) kind: JoinKind,
    pub(crate) keys: Vec<JoinKey>,
    pub(crate) conditions: JoinConditions,
    /// The operator's name in the checkpoint.
    pub(crate) operator: OperatorId,
    schema: DFSchemaRef,
}

/// The fields of the rows of a side.
type Fields = Vec<(Option<TableReference>, arrow::datatypes::FieldRef)>;

/// The columns of a side that are stored: all but what is only a key.
fn row_fields(input: &LogicalPlan, filled: bool) -> Fields {
    let fields = input.schema().iter().filter(|(_, field)| !field.name().starts_with(KEY_PREFIX));
    fields
        .map(|(qualifier, field)| {
            let field = match filled && !field.is_nullable() {
                true => Arc::new(field.as_ref().clone().with_nullable(true)),
                false => Arc::clone(field),
            };
            (qualifier.cloned(), field)
        })
        .collect()
}

impl StreamJoinNode {
    pub(crate) fn try_new(
        [left, right]: [LogicalPlan; 2],
        kind: JoinKind,
        keys: Vec<JoinKey>,
        conditions: JoinConditions,
        operator: OperatorId,
    ) -> Result<Self> {
        let mut fields = row_fields(&left, kind.preserves(Side::Right));
        if kind != JoinKind::LeftSemi {
            fields.extend(row_fields(&right, kind.preserves(Side::Left)));
        }
        let schema = Arc::new(DFSchema::new_with_metadata(fields, Default::default())?);
        Ok(Self { left, right, kind, keys, conditions, operator, schema })
    }

    /// The same node under another name.
    #[must_use]
    pub(crate) fn named(&self, operator: OperatorId) -> Self {
        Self { operator, ..self.clone() }
    }

    pub(crate) fn input(&self, side: Side) -> &LogicalPlan {
        match side {
            Side::Left => &self.left,
            Side::Right => &self.right,
        }
    }

    /// The columns of a side's rows.
    pub(crate) fn row_schema(&self, side: Side) -> Result<DFSchema> {
        DFSchema::new_with_metadata(row_fields(self.input(side), false), Default::default())
    }

    /// What the condition on both sides reads: left rows, then right rows.
    pub(crate) fn pair_schema(&self) -> Result<DFSchema> {
        let fields = [row_fields(&self.left, false), row_fields(&self.right, false)].concat();
        DFSchema::new_with_metadata(fields, Default::default())
    }

    /// The event times of a side: there should be one at most.
    pub(crate) fn event_times(&self, side: Side) -> Vec<Column> {
        let schema = self.input(side).schema();
        let marked = schema.iter().filter(|(_, field)| is_event_time(field));
        marked.map(|(qualifier, field)| Column::new(qualifier.cloned(), field.name())).collect()
    }

    /// When its rows leave, and what the condition says of their times.
    pub(crate) fn times(&self) -> Result<Times> {
        Times::of(self)
    }

    fn conditions(&self) -> impl Iterator<Item = &Expr> {
        let JoinConditions { left, right, both } = &self.conditions;
        left.iter().chain(right).chain(both)
    }
}

impl Hash for StreamJoinNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.left.hash(state);
        self.right.hash(state);
        self.operator.hash(state);
    }
}

impl PartialOrd for StreamJoinNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for StreamJoinNode {
    fn name(&self) -> &str {
        "StreamJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.left, &self.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let keys = self.keys.iter().flat_map(|key| [&key.left, &key.right]);
        keys.cloned().map(Expr::Column).chain(self.conditions().cloned()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let key = |key: &JoinKey| {
            let equals = if key.null_safe { "<=>" } else { "=" };
            format!("{} {equals} {}", key.left, key.right)
        };
        let keys: Vec<String> = self.keys.iter().map(key).collect();
        let conditions: Vec<String> = self.conditions().map(ToString::to_string).collect();
        let (operator, kind, keys) = (&self.operator, self.kind, keys.join(", "));
        write!(f, "StreamJoin: operator={operator}, {kind}, keys=[{keys}]")?;
        if !conditions.is_empty() {
            write!(f, ", condition={}", conditions.join(" AND "))?;
        }
        let times = self.times().map_err(|_| fmt::Error)?;
        write!(f, ", left rows {}, right rows {}", times.kept(0), times.kept(1))
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let Ok(inputs) = <[LogicalPlan; 2]>::try_from(inputs) else {
            return internal_err!("a join of streams needs two inputs");
        };
        let mut exprs = exprs.into_iter();
        let mut column = || match exprs.next().map(Expr::unalias) {
            Some(Expr::Column(column)) => Ok(column),
            other => internal_err!("a key of a join of streams is a column, not {other:?}"),
        };
        let mut keys = Vec::with_capacity(self.keys.len());
        for key in &self.keys {
            let (left, right) = (column()?, column()?);
            keys.push(JoinKey { left, right, null_safe: key.null_safe });
        }
        let mut condition = |before: &Option<Expr>| before.as_ref().and_then(|_| exprs.next());
        let JoinConditions { left, right, both } = &self.conditions;
        let (left, right, both) = (condition(left), condition(right), condition(both));
        let conditions = JoinConditions { left, right, both };
        Self::try_new(inputs, self.kind, keys, conditions, self.operator.clone())
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        // Keys, conditions and event times stay: pruning must not change what matches or is late.
        let used: Vec<Expr> = self.expressions();
        let used: Vec<&Column> = used.iter().flat_map(Expr::column_refs).collect();
        let mut emitted = output_columns.to_vec();
        let mut needed = Vec::new();
        for side in [Side::Left, Side::Right] {
            let schema = self.input(side).schema();
            let rows: Vec<usize> = (0..schema.fields().len())
                .filter(|i| !schema.field(*i).name().starts_with(KEY_PREFIX))
                .collect();
            let mut own: Vec<usize> = match side {
                Side::Right if self.kind == JoinKind::LeftSemi => Vec::new(),
                _ => emitted.iter().filter_map(|i| rows.get(*i).copied()).collect(),
            };
            emitted = emitted.iter().filter_map(|i| i.checked_sub(rows.len())).collect();
            own.extend(used.iter().filter_map(|column| schema.maybe_index_of_column(column)));
            own.extend((0..schema.fields().len()).filter(|i| is_event_time(schema.field(*i))));
            own.sort_unstable();
            own.dedup();
            needed.push(own);
        }
        Some(needed)
    }
}
