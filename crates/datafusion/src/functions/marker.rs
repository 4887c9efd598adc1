//! Functions that are known by name only, so that a query that calls one is refused for what it
//! is, not for a misspelt name.

use super::error::spark;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// `monotonically_increasing_id()`: its numbers depend on how rows are spread over tasks.
pub(super) fn monotonically_increasing_id() -> Arc<ScalarUDF> {
    let signature = Signature::nullary(Volatility::Volatile);
    Arc::new(ScalarUDF::from(MonotonicallyIncreasingId { signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct MonotonicallyIncreasingId {
    signature: Signature,
}

impl ScalarUDFImpl for MonotonicallyIncreasingId {
    fn name(&self) -> &str {
        "monotonically_increasing_id"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Err(spark(
            "UNSUPPORTED_FUNCTION",
            "`monotonically_increasing_id` is not supported: its numbers would differ from run \
             to run",
        ))
    }
}
