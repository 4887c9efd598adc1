//! The types and names of expressions, in time that grows with their depth. DataFusion's own ways
//! write out the name of everything inside at every level, which takes the cube of it.

use super::arithmetic::{Arithmetic, Chain};
use super::cast::CastFunction;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{ExprSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{Expr, ExprSchemable, ReturnFieldArgs};
use std::any::Any;
use std::fmt::Write;
use std::sync::Arc;

/// The type of an expression.
pub(crate) trait Typed {
    /// The type over these columns.
    ///
    /// # Errors
    ///
    /// What planning refuses.
    fn type_in(&self, schema: &dyn ExprSchema) -> Result<DataType>;
}

impl Typed for Expr {
    fn type_in(&self, schema: &dyn ExprSchema) -> Result<DataType> {
        match self {
            Expr::ScalarFunction(call) => match downcast::<CastFunction>(call) {
                Some(cast) => Ok(cast.to().clone()),
                None => Ok(field(call, schema)?.data_type().clone()),
            },
            other => other.get_type(schema),
        }
    }
}

fn field(call: &ScalarFunction, schema: &dyn ExprSchema) -> Result<FieldRef> {
    let of_argument = |argument: &Expr| match argument {
        Expr::ScalarFunction(call) => field(call, schema),
        Expr::Column(column) => Ok(Arc::clone(schema.field_from_column(column)?)),
        Expr::Literal(value, _) => Ok(Arc::new(Field::new("", value.data_type(), value.is_null()))),
        other => other.to_field(schema).map(|(_, field)| field),
    };
    let fields = call.args.iter().map(of_argument).collect::<Result<Vec<_>>>()?;
    let arg_fields = fields_with_udf(&fields, call.func.as_ref())?;
    let constants = call.args.iter().map(|argument| match argument {
        Expr::Literal(value, _) => Some(value),
        _ => None,
    });
    let scalar_arguments: Vec<_> = constants.collect();
    call.func.return_field_from_args(ReturnFieldArgs {
        arg_fields: &arg_fields,
        scalar_arguments: &scalar_arguments,
    })
}

/// The function of a call, if it is one of this type.
pub(crate) fn downcast<T: 'static>(call: &ScalarFunction) -> Option<&T> {
    (call.func.inner().as_ref() as &dyn Any).downcast_ref()
}

/// Appends the name of an expression, as `schema_name` has it.
pub(crate) fn write_name(expr: &Expr, out: &mut String) -> Result<()> {
    if let Expr::ScalarFunction(call) = expr {
        if let Some(arithmetic) = downcast::<Arithmetic>(call) {
            return arithmetic.write_name(&call.args, out);
        }
        if let Some(chain) = downcast::<Chain>(call) {
            return chain.write_name(&call.args, out);
        }
        if let Some(cast) = downcast::<CastFunction>(call) {
            return cast.write_name(&call.args, out);
        }
    }
    write!(out, "{}", expr.schema_name())?;
    Ok(())
}
