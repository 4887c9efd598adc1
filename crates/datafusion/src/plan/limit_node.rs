//! `StreamLimitNode`: the first rows of a whole stream, counted across batches.

use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use fluvial_core::OperatorId;
use std::cmp::Ordering;
use std::fmt;

/// Passes the first `rows` rows of the stream; how many have passed is state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StreamLimitNode {
    /// The rows.
    pub input: LogicalPlan,
    /// How many may pass.
    pub rows: u64,
    /// The operator's name in the checkpoint.
    pub operator: OperatorId,
}

impl PartialOrd for StreamLimitNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for StreamLimitNode {
    fn name(&self) -> &str {
        "StreamLimit"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "StreamLimit: operator={}, rows={}", self.operator, self.rows)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let Some(input) = inputs.into_iter().next() else {
            return internal_err!("a streaming limit needs one input");
        };
        Ok(Self { input, ..self.clone() })
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output_columns.to_vec()])
    }
}
