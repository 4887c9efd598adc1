//! `a + b - c * ..`: many operators one after the other as one call. As calls within calls they are
//! a tree as deep as there are operators, which takes the planner the square of it, and the stack.

use super::udf::operate;
use super::{Arithmetic, Op, types::Resolved};
use crate::functions::cast::{CastFunction, CastMode, cast_array};
use crate::functions::typing::{downcast, write_name};
use crate::functions::zone::Zone;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::{BinaryExpr, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use std::fmt::Write;
use std::sync::Arc;

/// Operators within operators that stay a tree: what people write, optimizers look into.
const TREE_MAX: usize = 16;

/// `first op operand op operand ..` from left to right.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Chain {
    steps: Vec<Step>,
    signature: Signature,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Step {
    op: Op,
    /// What the value so far is brought to. The operand has its type already.
    left: DataType,
    result: DataType,
}

/// `left op right` as a call of a chain, if `left` is one or a tree that is deep enough, and if the
/// operands are numbers.
pub(crate) fn chained(op: Op, left: &Expr, right: &Expr, types: &Resolved) -> Option<Expr> {
    let numbers = [&types.left, &types.right, &types.result];
    if !numbers.iter().all(|of| of.is_numeric()) {
        return None;
    }
    let step = Step { op, left: types.left.clone(), result: types.result.clone() };
    let (mut steps, mut args) = match left {
        Expr::ScalarFunction(call) if downcast::<Chain>(call).is_some() => {
            (downcast::<Chain>(call)?.steps.clone(), call.args.clone())
        }
        _ if depth(left) >= TREE_MAX => (Vec::new(), vec![left.clone()]),
        _ => return None,
    };
    steps.push(step);
    args.push(right.clone());
    let chain = Chain { steps, signature: Signature::user_defined(Volatility::Immutable) };
    Some(Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(chain)), args)))
}

/// How many operators are within each other on the left, as far as it matters.
fn depth(expr: &Expr) -> usize {
    let (mut expr, mut depth) = (expr, 0);
    while depth < TREE_MAX {
        expr = match expr {
            Expr::BinaryExpr(BinaryExpr { left, .. }) => {
                depth += 1;
                left
            }
            Expr::Cast(cast) => &cast.expr,
            Expr::ScalarFunction(call) if downcast::<Arithmetic>(call).is_some() => {
                depth += 1;
                &call.args[0]
            }
            Expr::ScalarFunction(call) if downcast::<CastFunction>(call).is_some() => &call.args[0],
            _ => break,
        };
    }
    depth
}

impl Chain {
    /// Whether it may divide by zero.
    pub(crate) fn divides(&self) -> bool {
        self.steps.iter().any(|step| !matches!(step.op, Op::Add | Op::Subtract | Op::Multiply))
    }

    /// Appends the name of a call.
    pub(crate) fn write_name(&self, args: &[Expr], out: &mut String) -> Result<()> {
        let Some((first, operands)) = args.split_first() else {
            return internal_err!("a chain begins with a value");
        };
        out.extend(std::iter::repeat_n('(', self.steps.len()));
        write_name(first, out)?;
        for (step, operand) in self.steps.iter().zip(operands) {
            write!(out, " {} ", step.op.symbol())?;
            write_name(operand, out)?;
            out.push(')');
        }
        Ok(())
    }
}

impl ScalarUDFImpl for Chain {
    fn name(&self) -> &str {
        "arithmetic"
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
        Ok(types.to_vec())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        match self.steps.last() {
            Some(step) => Ok(step.result.clone()),
            None => internal_err!("a chain has steps"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&[])?, nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let zone = Zone::of_session(&args.config_options)?;
        let cast = |value: ColumnarValue, to: &DataType| {
            if value.data_type() == *to {
                return Ok(value);
            }
            match value {
                ColumnarValue::Array(array) => {
                    cast_array(&array, to, CastMode::Ansi, zone).map(ColumnarValue::Array)
                }
                ColumnarValue::Scalar(value) => {
                    let one = cast_array(&value.to_array()?, to, CastMode::Ansi, zone)?;
                    ScalarValue::try_from_array(&one, 0).map(ColumnarValue::Scalar)
                }
            }
        };
        let mut operands = args.args.into_iter();
        let Some(mut value) = operands.next() else {
            return internal_err!("a chain begins with a value");
        };
        for (step, operand) in self.steps.iter().zip(operands) {
            let left = cast(value, &step.left)?;
            value = operate(step.op, CastMode::Ansi, &left, &operand, &step.result, zone)?;
        }
        Ok(value)
    }
}
