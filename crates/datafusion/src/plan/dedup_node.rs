//! `StreamDedupNode`: the first row of every key of a stream.

use super::event_time::is_event_time;
use datafusion::common::{Column, DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use fluvial_core::{EventDuration, OperatorId};
use std::cmp::Ordering;
use std::fmt;

/// How long a key is remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Remembered {
    /// Until the watermark passes the event time among the keys; for ever if there is none.
    ByKey,
    /// Until the watermark passes the first row's event time plus the delay of the watermark,
    /// which is known once the query is prepared.
    WithinWatermark(Option<EventDuration>),
}

/// Lets the first row of each key pass; keys are state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StreamDedupNode {
    /// The rows.
    pub input: LogicalPlan,
    /// The key columns.
    pub keys: Vec<Column>,
    /// How long a key is remembered.
    pub remembered: Remembered,
    /// The operator's name in the checkpoint.
    pub operator: OperatorId,
}

impl StreamDedupNode {
    /// Positions of the key columns.
    ///
    /// # Errors
    ///
    /// If the input has no such column.
    pub fn key_indices(&self) -> Result<Vec<usize>> {
        self.keys.iter().map(|key| self.input.schema().index_of_column(key)).collect()
    }

    /// Whether the watermark bounds its state.
    pub fn is_bounded(&self) -> bool {
        let keys = self.key_indices().unwrap_or_default();
        self.remembered != Remembered::ByKey
            || self.event_time().is_some_and(|time| keys.contains(&time))
    }

    /// Position of the event time by which rows are late: rather one that is a key.
    pub fn event_time(&self) -> Option<usize> {
        let schema = self.input.schema();
        let marked = |at: &usize| is_event_time(schema.field(*at));
        let keys = self.key_indices().unwrap_or_default();
        keys.into_iter().find(marked).or_else(|| (0..schema.fields().len()).find(marked))
    }
}

impl PartialOrd for StreamDedupNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for StreamDedupNode {
    fn name(&self) -> &str {
        "StreamDedup"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        self.keys.iter().cloned().map(Expr::Column).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let keys = self.keys.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        write!(f, "StreamDedup: operator={}, keys=[{keys}]", self.operator)?;
        match self.remembered {
            Remembered::ByKey => Ok(()),
            Remembered::WithinWatermark(None) => write!(f, ", within the watermark"),
            Remembered::WithinWatermark(Some(delay)) => {
                write!(f, ", within the watermark of {} ms", delay.0 / 1000)
            }
        }
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let Some(input) = inputs.into_iter().next() else {
            return internal_err!("dropping duplicates needs one input");
        };
        let mut keys = Vec::with_capacity(exprs.len());
        for expr in exprs {
            match expr.unalias() {
                Expr::Column(column) => keys.push(column),
                other => return internal_err!("duplicates are dropped by columns, not by {other}"),
            }
        }
        Ok(Self { input, keys, ..self.clone() })
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let mut needed = output_columns.to_vec();
        needed.extend(self.key_indices().ok()?);
        // The event time stays, or pruning would change what is late.
        needed.extend(self.event_time());
        needed.sort_unstable();
        needed.dedup();
        Some(vec![needed])
    }
}
