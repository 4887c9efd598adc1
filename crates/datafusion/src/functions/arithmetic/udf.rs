//! The operators as function calls: DataFusion's own wrap around on overflow.

use super::{Op, decimal, interval, number, resolve};
use crate::functions::cast::CastMode;
use crate::functions::typing::write_name;
use crate::functions::zone::Zone;
use arrow::array::{ArrayRef, Datum};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use std::fmt::Write;
use std::sync::Arc;

/// `left op right`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Arithmetic {
    op: Op,
    mode: CastMode,
    signature: Signature,
}

impl Arithmetic {
    pub(crate) fn new(op: Op, mode: CastMode) -> Self {
        Self { op, mode, signature: Signature::user_defined(Volatility::Immutable) }
    }

    /// Appends the name of a call.
    pub(crate) fn write_name(&self, args: &[Expr], out: &mut String) -> Result<()> {
        let [left, right] = args else { return internal_err!("an operator has two operands") };
        let infix = self.mode == CastMode::Ansi && self.op != Op::PositiveRemainder;
        if !infix {
            out.push_str(self.name());
        }
        out.push('(');
        write_name(left, out)?;
        match infix {
            true => write!(out, " {} ", self.op.symbol())?,
            false => out.push_str(", "),
        }
        write_name(right, out)?;
        out.push(')');
        Ok(())
    }
}

/// `left op right` as an expression.
pub(crate) fn call(op: Op, mode: CastMode, left: Expr, right: Expr) -> Expr {
    let function = Arc::new(ScalarUDF::from(Arithmetic::new(op, mode)));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![left, right]))
}

impl ScalarUDFImpl for Arithmetic {
    fn name(&self) -> &str {
        self.op.function(self.mode)
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let mut name = String::new();
        self.write_name(args, &mut name)?;
        Ok(name)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [left, right] = types else {
            return Err(crate::functions::error::wrong_arguments(self.name(), "2", types.len()));
        };
        let resolved = resolve(self.op, left, right)?;
        Ok(vec![resolved.left, resolved.right])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [left, right] = types else { return internal_err!("an operator has two operands") };
        Ok(resolve(self.op, left, right)?.result)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|f| f.data_type().clone()).collect();
        let result = self.return_type(&types)?;
        let nullable =
            self.mode == CastMode::Try || args.arg_fields.iter().any(|f| f.is_nullable());
        Ok(Arc::new(Field::new(self.name(), result, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let zone = Zone::of_session(&args.config_options)?;
        let result = args.return_field.data_type();
        let [left, right] = args.args.as_slice() else {
            return internal_err!("an operator has two operands");
        };
        operate(self.op, self.mode, left, right, result, zone)
    }
}

/// `left op right` of values in the types that the operator takes.
pub(super) fn operate(
    op: Op,
    mode: CastMode,
    left: &ColumnarValue,
    right: &ColumnarValue,
    result: &DataType,
    zone: Zone,
) -> Result<ColumnarValue> {
    let apply = |l: &dyn Datum, r: &dyn Datum| -> Result<ArrayRef> {
        let (lt, rt) = (l.get().0.data_type(), r.get().0.data_type());
        if interval::applies(lt, rt) {
            interval::apply(op, mode, l, r, result, zone)
        } else if matches!(lt, DataType::Decimal128(..)) {
            decimal::apply(op, mode, l, r, result)
        } else {
            number::apply(op, mode, l, r)
        }
    };
    let array = match (left, right) {
        (ColumnarValue::Array(l), ColumnarValue::Array(r)) => apply(l, r)?,
        (ColumnarValue::Array(l), ColumnarValue::Scalar(r)) => apply(l, &r.to_scalar()?)?,
        (ColumnarValue::Scalar(l), ColumnarValue::Array(r)) => apply(&l.to_scalar()?, r)?,
        (ColumnarValue::Scalar(l), ColumnarValue::Scalar(r)) => {
            let one = apply(&l.to_array()?, &r.to_array()?)?;
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&one, 0)?));
        }
    };
    Ok(ColumnarValue::Array(array))
}
