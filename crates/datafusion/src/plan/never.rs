//! A condition that never holds, for filters whose input must be read all the same.

use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::scalar::ScalarValue;

/// A condition over the rows of `input` that never holds. Nothing folds it, since it may change
/// its mind, and nothing moves it below an operator, since it looks at columns.
pub(super) fn never(input: &LogicalPlan) -> Expr {
    let never = ScalarUDF::from(Never(Signature::variadic_any(Volatility::Volatile)));
    never.call(input.schema().columns().into_iter().map(Expr::Column).collect())
}

/// Whether an expression is such a condition.
pub(super) fn is_never(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.name() == NAME)
}

const NAME: &str = "never";

#[derive(Debug, PartialEq, Eq, Hash)]
struct Never(Signature);

impl ScalarUDFImpl for Never {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(ColumnarValue::Scalar(ScalarValue::Boolean(Some(false))))
    }
}
