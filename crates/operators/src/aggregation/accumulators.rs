//! `Accumulators`: the aggregates of many groups, merged from partial states.

use crate::error::from_datafusion;
use arrow::array::{Array, ArrayRef, UInt64Array};
use arrow::compute::{cast, interleave, take};
use arrow::datatypes::{DataType, FieldRef};
use datafusion_expr::{EmitTo, GroupsAccumulator};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::GroupsAccumulatorAdapter;
use datafusion_physical_expr::aggregate::AggregateFunctionExpr;
use fluvial_core::{Error, Result};
use std::ops::Range;
use std::sync::Arc;

/// One aggregate of an aggregation, analysed once.
#[derive(Debug, Clone)]
pub(crate) struct Aggregate {
    pub(crate) expr: Arc<AggregateFunctionExpr>,
    /// The columns of its partial state.
    pub(crate) state: Vec<FieldRef>,
    /// Whether the result depends on the order in which states are merged.
    ordered: bool,
}

impl Aggregate {
    /// # Errors
    ///
    /// `Invalid` for an aggregate that streams do not have.
    pub(crate) fn new(expr: Arc<AggregateFunctionExpr>) -> Result<Self> {
        if expr.is_distinct() {
            // Its state would be a set in no order, and it would grow for ever.
            return Err(Error::invalid(format!(
                "distinct aggregates are not supported on streams: {}; use \
                 approx_count_distinct, or drop duplicates first",
                expr.name()
            ))
            .with_condition("STREAMING_DISTINCT_AGGREGATE_NOT_SUPPORTED"));
        }
        let state = expr.state_fields().map_err(from_datafusion)?;
        let ordered = !is_commutative(expr.fun().name());
        Ok(Self { expr, state, ordered })
    }

    /// The name of the output column.
    pub(crate) fn name(&self) -> &str {
        self.expr.name()
    }

    /// The output column.
    pub(crate) fn field(&self) -> FieldRef {
        self.expr.field()
    }

    /// Its columns among those of all aggregates, from `at` on, which is moved behind them.
    fn own<'c>(&self, columns: &'c [ArrayRef], at: &mut usize) -> Result<&'c [ArrayRef]> {
        let own = columns.get(*at..*at + self.state.len()).ok_or_else(|| {
            Error::invalid(format!("{} lacks columns of its partial state", self.name()))
        })?;
        *at += self.state.len();
        Ok(own)
    }

    pub(crate) fn create(&self) -> Result<Box<dyn GroupsAccumulator>> {
        if self.expr.groups_accumulator_supported() {
            return self.expr.create_groups_accumulator().map_err(from_datafusion);
        }
        let expr = Arc::clone(&self.expr);
        Ok(Box::new(GroupsAccumulatorAdapter::new(move || expr.create_accumulator())))
    }
}

/// Aggregates for which `a merged with b` is `b merged with a`, bit for bit. All others, known or
/// not, get what is older first: `first`, lists and sketches depend on it.
fn is_commutative(name: &str) -> bool {
    matches!(
        name,
        "count" | "sum" | "avg" | "min" | "max" | "bool_and" | "bool_or" | "bit_and" | "bit_or"
    )
}

/// Partial states: the state columns of all aggregates, in order, and the group of each row.
pub(crate) struct States {
    pub(crate) columns: Vec<ArrayRef>,
    pub(crate) groups: Vec<usize>,
}

/// The accumulators of all aggregates over the same groups.
pub(crate) struct Accumulators {
    aggregates: Arc<[Aggregate]>,
    accumulators: Vec<Box<dyn GroupsAccumulator>>,
}

impl Accumulators {
    pub(crate) fn new(aggregates: &Arc<[Aggregate]>) -> Result<Self> {
        let accumulators = aggregates.iter().map(Aggregate::create).collect::<Result<_>>()?;
        Ok(Self { aggregates: Arc::clone(aggregates), accumulators })
    }

    /// Merges partial states: row `i` belongs to group `groups[i]` of `total`.
    pub(crate) fn merge(
        &mut self,
        columns: &[ArrayRef],
        groups: &[usize],
        total: usize,
    ) -> Result<()> {
        let mut at = 0;
        for (aggregate, accumulator) in self.aggregates.iter().zip(&mut self.accumulators) {
            let own = aggregate.own(columns, &mut at)?;
            accumulator.merge_batch(own, groups, total).map_err(from_datafusion)?;
        }
        Ok(())
    }

    /// Merges states that are older than everything merged so far.
    ///
    /// Where the order matters, what is there is taken out and merged again after them: once per
    /// batch and group, so that what comes row by row need not wait for the state.
    pub(crate) fn merge_older(&mut self, older: &[States], total: usize) -> Result<()> {
        if older.is_empty() {
            return Ok(());
        }
        let order = Order::new(older, total);
        let mut at = 0;
        for (aggregate, accumulator) in self.aggregates.iter().zip(&mut self.accumulators) {
            let columns = at..at + aggregate.state.len();
            at = columns.end;
            if aggregate.ordered {
                let newer = accumulator.state(EmitTo::All).map_err(from_datafusion)?;
                *accumulator = aggregate.create()?;
                let (first, second) = order.sort(older, columns, &newer)?;
                let all: Vec<usize> = (0..total).collect();
                accumulator.merge_batch(&first, &all, total).map_err(from_datafusion)?;
                accumulator.merge_batch(&second, &order.again, total).map_err(from_datafusion)?;
                continue;
            }
            for states in older {
                let own = aggregate.own(&states.columns, &mut columns.start.clone())?;
                accumulator.merge_batch(own, &states.groups, total).map_err(from_datafusion)?;
            }
        }
        Ok(())
    }

    /// The states of all groups. There must be at least one.
    pub(crate) fn into_states(mut self) -> Result<Vec<ArrayRef>> {
        let mut columns = Vec::new();
        for (aggregate, accumulator) in self.aggregates.iter().zip(&mut self.accumulators) {
            let own = accumulator.state(EmitTo::All).map_err(from_datafusion)?;
            if own.len() != aggregate.state.len() {
                return Err(Error::invalid(format!(
                    "{} has {} state columns, not {}",
                    aggregate.name(),
                    own.len(),
                    aggregate.state.len()
                )));
            }
            for (column, field) in own.into_iter().zip(&aggregate.state) {
                columns.push(declared(column, field.data_type())?);
            }
        }
        Ok(columns)
    }

    /// The results of all groups. There must be at least one.
    pub(crate) fn into_results(mut self) -> Result<Vec<ArrayRef>> {
        let each = self.aggregates.iter().zip(&mut self.accumulators);
        each.map(|(aggregate, accumulator)| {
            let result = accumulator.evaluate(EmitTo::All).map_err(from_datafusion)?;
            declared(result, aggregate.field().data_type())
        })
        .collect()
    }
}

/// How older and newer states are put in order: first a row for *every* group, the older one if
/// it has one, then the newer rows of those. An accumulator takes it for granted that every group
/// it is told of has had a row, so groups without an older row must not be left for later.
struct Order {
    /// Chunk and row of each group's first state; the last chunk is the newer states.
    first: Vec<(usize, usize)>,
    /// The groups that have an older state.
    again: Vec<usize>,
}

impl Order {
    fn new(older: &[States], total: usize) -> Self {
        let mut first: Vec<_> = (0..total).map(|group| (older.len(), group)).collect();
        let mut again = Vec::new();
        for (chunk, states) in older.iter().enumerate() {
            for (row, &group) in states.groups.iter().enumerate() {
                first[group] = (chunk, row);
                again.push(group);
            }
        }
        Self { first, again }
    }

    /// The first states of all groups, and the second ones of the groups in `again`.
    fn sort(
        &self,
        older: &[States],
        columns: Range<usize>,
        newer: &[ArrayRef],
    ) -> Result<(Vec<ArrayRef>, Vec<ArrayRef>)> {
        let again = UInt64Array::from_iter_values(self.again.iter().map(|&group| group as u64));
        let (mut first, mut second) = (Vec::new(), Vec::new());
        for (at, newer) in columns.zip(newer) {
            let stored = |states: &States| {
                let column = states.columns.get(at);
                column.map(|column| declared(Arc::clone(column), newer.data_type()))
            };
            let mut chunks: Vec<ArrayRef> =
                older.iter().filter_map(stored).collect::<Result<_>>()?;
            chunks.push(Arc::clone(newer));
            let chunks: Vec<&dyn Array> = chunks.iter().map(AsRef::as_ref).collect();
            first.push(interleave(&chunks, &self.first)?);
            second.push(take(newer, &again, None)?);
        }
        Ok((first, second))
    }
}

/// The column in its declared type: some accumulators name the items of their lists differently.
fn declared(column: ArrayRef, data_type: &DataType) -> Result<ArrayRef> {
    if column.data_type() == data_type { Ok(column) } else { Ok(cast(&column, data_type)?) }
}
