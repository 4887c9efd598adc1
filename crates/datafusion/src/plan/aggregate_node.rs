//! `StreamAggregateNode`: an aggregation whose groups live in state.

use super::event_time::{is_event_time, is_window};
use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::utils::exprlist_to_fields;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use fluvial_core::OperatorId;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Which grouping column is event time, and in which form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventTimeGroup {
    /// None: state is kept for ever.
    None,
    /// The column at this position, a timestamp.
    Column(usize),
    /// The column at this position, a window.
    Window(usize),
}

/// Groups by columns of its input and keeps every group's aggregates in state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamAggregateNode {
    /// The rows, windows already assigned.
    pub input: LogicalPlan,
    /// The grouping columns.
    pub group: Vec<Expr>,
    /// The aggregate functions.
    pub aggregates: Vec<Expr>,
    /// The operator's name in the checkpoint.
    pub operator: OperatorId,
    /// Names of the grouping columns as the user wrote them, for the checkpoint's messages.
    pub key_names: Vec<String>,
    /// Settings that give stored groups their meaning: window size, slide, start.
    pub meaning: BTreeMap<String, String>,
    /// The position of the group that is a session window.
    pub session: Option<usize>,
    schema: DFSchemaRef,
}

impl StreamAggregateNode {
    /// An aggregation of `input`.
    pub fn try_new(
        input: LogicalPlan,
        group: Vec<Expr>,
        aggregates: Vec<Expr>,
        operator: OperatorId,
        key_names: Vec<String>,
        meaning: BTreeMap<String, String>,
    ) -> Result<Self> {
        let all: Vec<Expr> = group.iter().chain(&aggregates).cloned().collect();
        let fields = exprlist_to_fields(&all, &input)?;
        let metadata = input.schema().metadata().clone();
        let schema = Arc::new(DFSchema::new_with_metadata(fields, metadata)?);
        let session = None;
        Ok(Self { input, group, aggregates, operator, key_names, meaning, session, schema })
    }

    /// The same node under another name.
    #[must_use]
    pub fn named(&self, operator: OperatorId) -> Self {
        Self { operator, ..self.clone() }
    }

    /// Which grouping column carries the event-time mark.
    pub fn event_time(&self) -> EventTimeGroup {
        let marked = (0..self.group.len()).find(|i| is_event_time(self.schema.field(*i)));
        match marked {
            Some(i) if is_window(self.schema.field(i).data_type()) => EventTimeGroup::Window(i),
            Some(i) if matches!(self.schema.field(i).data_type(), DataType::Timestamp(..)) => {
                EventTimeGroup::Column(i)
            }
            _ => EventTimeGroup::None,
        }
    }
}

impl Hash for StreamAggregateNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.input.hash(state);
        self.operator.hash(state);
    }
}

impl PartialOrd for StreamAggregateNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for StreamAggregateNode {
    fn name(&self) -> &str {
        "StreamAggregate"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        self.group.iter().chain(&self.aggregates).cloned().collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let list = |items: Vec<String>| items.join(", ");
        let aggregates = list(self.aggregates.iter().map(|e| e.to_string()).collect());
        let (operator, keys) = (&self.operator, list(self.key_names.clone()));
        write!(f, "StreamAggregate: operator={operator}, keys=[{keys}], aggregates=[{aggregates}]")
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let Some(input) = inputs.into_iter().next() else {
            return internal_err!("a streaming aggregation needs one input");
        };
        let mut group = exprs;
        let aggregates = group.split_off(self.group.len());
        let (keys, meaning) = (self.key_names.clone(), self.meaning.clone());
        let node = Self::try_new(input, group, aggregates, self.operator.clone(), keys, meaning)?;
        // Optimiser rules may reword an expression but not rename its column.
        Ok(Self { schema: Arc::clone(&self.schema), session: self.session, ..node })
    }

    fn necessary_children_exprs(&self, _output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        // All groups and aggregates are state, whatever is selected above.
        let mut needed: Vec<usize> = self
            .expressions()
            .iter()
            .flat_map(|e| e.column_refs().into_iter().cloned().collect::<Vec<_>>())
            .filter_map(|c| self.input.schema().maybe_index_of_column(&c))
            .collect();
        needed.sort_unstable();
        needed.dedup();
        Some(vec![needed])
    }
}
