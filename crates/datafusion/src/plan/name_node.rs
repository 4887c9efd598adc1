//! `OperatorNameNode`: carries the name that a user gave to the last stateful operator.

use datafusion::common::{DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use fluvial_core::OperatorId;
use std::cmp::Ordering;
use std::fmt;

/// Names the nearest stateful operator below. Gone once a query is prepared.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OperatorNameNode {
    /// The rows.
    pub input: LogicalPlan,
    /// The name.
    pub name: OperatorId,
}

impl PartialOrd for OperatorNameNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for OperatorNameNode {
    fn name(&self) -> &str {
        "OperatorName"
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
        write!(f, "OperatorName: {}", self.name)
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let Some(input) = inputs.into_iter().next() else {
            return internal_err!("a name needs one input");
        };
        Ok(Self { input, name: self.name.clone() })
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output_columns.to_vec()])
    }
}
