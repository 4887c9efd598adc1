//! `now()` in a streaming query is the time of the batch, fixed by its plan.
//!
//! Before optimisation the clock functions become a placeholder that nothing folds; every batch
//! puts its own time in its place.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, cast,
};
use datafusion::scalar::ScalarValue;
use fluvial_core::BatchTime;

const PLACEHOLDER: &str = "batch_time";

/// Functions that read the clock, by name, and the type they give.
fn clock_type(name: &str) -> Option<DataType> {
    match name {
        "now" | "current_timestamp" => Some(instant()),
        "current_date" | "curdate" | "today" => Some(DataType::Date32),
        _ => None,
    }
}

fn instant() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// Stands for the batch's time until a batch is bound.
#[derive(Debug, PartialEq, Eq, Hash)]
struct BatchTimePlaceholder(Signature);

impl ScalarUDFImpl for BatchTimePlaceholder {
    fn name(&self) -> &str {
        PLACEHOLDER
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(instant())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!("the time of a batch is known only inside the batch")
    }
}

/// Replaces the clock functions of a plan by the placeholder.
pub(crate) fn hide_clock(plan: LogicalPlan) -> Result<LogicalPlan> {
    let placeholder =
        ScalarUDF::from(BatchTimePlaceholder(Signature::nullary(Volatility::Volatile)));
    rewrite_calls(plan, &mut |call| {
        let data_type = clock_type(call.func.name())?;
        let time = placeholder.call(Vec::new());
        Some(if data_type == instant() { time } else { cast(time, data_type) })
    })
}

/// Puts the batch's time in place of the placeholder.
pub(crate) fn bind_batch(plan: LogicalPlan, time: BatchTime) -> Result<LogicalPlan> {
    let micros = time.0.saturating_mul(1000);
    let value = ScalarValue::TimestampMicrosecond(Some(micros), Some("UTC".into()));
    rewrite_calls(plan, &mut |call| {
        (call.func.name() == PLACEHOLDER).then(|| Expr::Literal(value.clone(), None))
    })
}

fn rewrite_calls(
    plan: LogicalPlan,
    replacement: &mut dyn FnMut(&ScalarFunction) -> Option<Expr>,
) -> Result<LogicalPlan> {
    let changed = plan.transform_down_with_subqueries(|node| {
        let schema_names: Vec<String> = match &node {
            LogicalPlan::Projection(p) => {
                p.expr.iter().map(|e| e.schema_name().to_string()).collect()
            }
            LogicalPlan::Aggregate(a) => {
                let all = a.group_expr.iter().chain(&a.aggr_expr);
                all.map(|e| e.schema_name().to_string()).collect()
            }
            _ => Vec::new(),
        };
        let mut position = 0;
        node.map_expressions(|expr| {
            let here = position;
            position += 1;
            let changed = expr.transform_up(|e| match &e {
                Expr::ScalarFunction(call) => match replacement(call) {
                    Some(new) => Ok(Transformed::yes(new)),
                    None => Ok(Transformed::no(e)),
                },
                _ => Ok(Transformed::no(e)),
            })?;
            // Projections and aggregations keep their column names.
            Ok(match schema_names.get(here) {
                Some(name) if changed.transformed => changed.update_data(|e| {
                    if e.schema_name().to_string() == *name { e } else { e.alias(name) }
                }),
                _ => changed,
            })
        })
    })?;
    if changed.transformed { changed.data.recompute_schema() } else { Ok(changed.data) }
}
