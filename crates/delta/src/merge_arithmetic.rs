//! `+ - *` of whole numbers in the rules of a table that is merged into.
//!
//! The library checks and computes rules as plain DataFusion, where a literal has 64 bits and what
//! has no place in its type wraps around. In Spark a literal that fits is an INT, a result has the
//! wider type of both sides, and what has no place in it is an error.

use arrow::compute::kernels::numeric::{add, mul, sub};
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, exec_datafusion_err, internal_err};
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, cast, lit,
};
use datafusion::physical_expr_common::datum::apply;
use deltalake::delta_datafusion::create_session;
use std::sync::Arc;

/// A session that computes rules as Spark does.
pub(crate) fn session() -> Result<SessionState> {
    let mut state = create_session().state();
    state.register_function_rewrite(Arc::new(WholeNumbers))?;
    Ok(state)
}

/// Types of whole numbers, the narrowest first.
const WHOLE: [DataType; 4] = [DataType::Int8, DataType::Int16, DataType::Int32, DataType::Int64];

fn width(of: &DataType) -> Option<usize> {
    WHOLE.iter().position(|whole| whole == of)
}

#[derive(Debug)]
struct WholeNumbers;

impl FunctionRewrite for WholeNumbers {
    fn name(&self) -> &str {
        "whole_numbers_of_rules"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        // What a merge itself says names its columns with their table, and means what it says.
        if expr.column_refs().iter().any(|column| column.relation.is_some()) {
            return Ok(Transformed::no(expr));
        }
        match checked(&expr, schema)? {
            Some(checked) => Ok(Transformed::yes(checked)),
            None => Ok(Transformed::no(expr)),
        }
    }
}

/// The operation with Spark's type, cast to the type that is expected here; `None` if it is
/// another one. Operations inside of it are done already.
fn checked(expr: &Expr, schema: &DFSchema) -> Result<Option<Expr>> {
    let (operation, left, right) = match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let operation = match op {
                Operator::Plus => Operation::Add,
                Operator::Minus => Operation::Subtract,
                Operator::Multiply => Operation::Multiply,
                _ => return Ok(None),
            };
            (operation, as_written(left), as_written(right))
        }
        Expr::Negative(inner) => {
            let inner = as_written(inner);
            // A literal of another type is no use.
            let Ok(zero) = ScalarValue::new_zero(&inner.get_type(schema)?) else { return Ok(None) };
            (Operation::Subtract, Expr::Literal(zero, None), inner)
        }
        _ => return Ok(None),
    };
    let (l, r) = (width(&left.get_type(schema)?), width(&right.get_type(schema)?));
    let (Some(l), Some(r)) = (l, r) else { return Ok(None) };
    let common = &WHOLE[l.max(r)];
    let operands = vec![as_type(left, common, schema)?, as_type(right, common, schema)?];
    let function = Arc::new(ScalarUDF::from(Checked::new(operation)));
    let call = Expr::ScalarFunction(ScalarFunction::new_udf(function, operands));
    as_type(call, &expr.get_type(schema)?, schema).map(Some)
}

/// An operand before it was brought to the type of the other: rules that are let through have no
/// casts of their own.
fn as_written(operand: &Expr) -> Expr {
    match operand {
        Expr::Cast(cast) => as_written(&cast.expr),
        Expr::Literal(ScalarValue::Int64(Some(value)), _) => match i32::try_from(*value) {
            Ok(value) => lit(value),
            Err(_) => operand.clone(),
        },
        _ => operand.clone(),
    }
}

fn as_type(expr: Expr, to: &DataType, schema: &DFSchema) -> Result<Expr> {
    Ok(if expr.get_type(schema)? == *to { expr } else { cast(expr, to.clone()) })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Operation {
    Add,
    Subtract,
    Multiply,
}

/// Of two numbers of one type; an error if the result has no place in it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operation: Operation,
    signature: Signature,
}

impl Checked {
    fn new(operation: Operation) -> Self {
        Self { operation, signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.operation {
            Operation::Add => "checked_add",
            Operation::Subtract => "checked_subtract",
            Operation::Multiply => "checked_multiply",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [left, right] if left == right => Ok(left.clone()),
            _ => internal_err!("{} of {types:?}", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return internal_err!("{} takes two numbers", self.name());
        };
        let found = match self.operation {
            Operation::Add => apply(left, right, add),
            Operation::Subtract => apply(left, right, sub),
            Operation::Multiply => apply(left, right, mul),
        };
        let condition = match args.return_field.data_type() {
            DataType::Int8 | DataType::Int16 => "BINARY_ARITHMETIC_OVERFLOW",
            _ => "ARITHMETIC_OVERFLOW",
        };
        found.map_err(|error| {
            exec_datafusion_err!(
                "[{condition}] a constraint or computed column of the table comes to a number that \
                 is out of the range of its type: {}",
                error.strip_backtrace()
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int8Array, Int32Array, Int64Array, RecordBatch};
    use arrow::datatypes::{Field, Schema};

    /// What a rule gives for a row of the largest TINYINT, INT and BIGINT, as text.
    fn value(rule: &str) -> Result<String> {
        let field = |name, of: &DataType| Field::new(name, of.clone(), true);
        let fields = vec![field("t", &WHOLE[0]), field("i", &WHOLE[2]), field("b", &WHOLE[3])];
        let row = RecordBatch::try_new(
            Arc::new(Schema::new(fields)),
            vec![
                Arc::new(Int8Array::from(vec![i8::MAX])),
                Arc::new(Int32Array::from(vec![i32::MAX])),
                Arc::new(Int64Array::from(vec![i64::MAX])),
            ],
        )
        .unwrap();
        let state = session().unwrap();
        let schema = DFSchema::try_from(row.schema()).unwrap();
        let expr = state.create_logical_expr(rule, &schema).unwrap();
        let expr = state.create_physical_expr(expr, &schema).unwrap();
        let value = expr.evaluate(&row)?.into_array(1)?;
        Ok(ScalarValue::try_from_array(&value, 0)?.to_string())
    }

    #[test]
    fn what_has_no_place_in_spark_s_type_is_an_error() {
        for (rule, expected) in [
            ("t + 1", "128"),
            ("i - 1 + t", "OVERFLOW"),
            ("i + 1", "OVERFLOW"),
            ("i + 1 > 0", "OVERFLOW"),
            ("t + t > 0", "OVERFLOW"),
            ("1 + i IN (1, 2)", "OVERFLOW"),
            ("i * 2 BETWEEN 1 AND 4294967294", "OVERFLOW"),
            ("i + 2147483648", "4294967295"),
            ("b - i > i", "true"),
            ("b + 1", "OVERFLOW"),
            ("b * i", "OVERFLOW"),
            ("-i - 1", "-2147483648"),
            ("-i - 2", "OVERFLOW"),
            ("-(-t - 1)", "128"),
            ("-(-i - 1)", "OVERFLOW"),
            ("i * 1.5 > i", "true"),
        ] {
            let found = value(rule).unwrap_or_else(|error| {
                assert!(error.to_string().contains("ARITHMETIC_OVERFLOW] "), "{rule}: {error}");
                "OVERFLOW".into()
            });
            assert_eq!(found, expected, "{rule}");
        }
    }
}
