//! Negation.

use crate::functions::cast::{CastMode, cast_array, is_string};
use crate::functions::error::{overflow, unexpected_type};
use crate::functions::zone::Zone;
use arrow::compute::kernels::numeric;
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::error::ArrowError;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use std::sync::Arc;

/// `-x`: an error for the one integer that has no opposite.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Negate {
    signature: Signature,
}

impl Negate {
    pub(crate) fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

/// The function.
pub(crate) fn negate_udf() -> ScalarUDF {
    ScalarUDF::from(Negate::new())
}

impl ScalarUDFImpl for Negate {
    fn name(&self) -> &str {
        "negative"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let Some(arg) = args.first() else { return internal_err!("negation has an operand") };
        Ok(format!("(- {})", arg.schema_name()))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [t] if is_string(t) || *t == DataType::Null => Ok(DataType::Float64),
            [t] if t.is_numeric() || matches!(t, DataType::Interval(_) | DataType::Duration(_)) => {
                Ok(t.clone())
            }
            [t] => Err(unexpected_type("-", "a number or an interval", t)),
            _ => internal_err!("negation has one operand"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let [arg] = args.arg_fields else { return internal_err!("negation has one operand") };
        let result = self.return_type(&[arg.data_type().clone()])?;
        Ok(Arc::new(Field::new(self.name(), result, arg.is_nullable())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [arg] = args.args.as_slice() else { return internal_err!("negation has one operand") };
        let one = matches!(arg, ColumnarValue::Scalar(_));
        let array = arg.to_array(if one { 1 } else { args.number_rows })?;
        let array = cast_array(&array, args.return_field.data_type(), CastMode::Ansi, Zone::UTC)?;
        let result = numeric::neg(&array).map_err(|e| match e {
            ArrowError::ArithmeticOverflow(_) => overflow("the result of `-`"),
            other => other.into(),
        })?;
        if one {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?));
        }
        Ok(ColumnarValue::Array(result))
    }
}
