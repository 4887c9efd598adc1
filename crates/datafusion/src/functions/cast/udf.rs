//! The casts as function calls, which DataFusion's optimizer does not look into.

use super::{CastMode, can_cast, cast_array, is_string, no_such_cast};
use crate::functions::error::spark;
use crate::functions::typing::{Typed, write_name};
use crate::functions::zone::Zone;
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::{ExprSchema, Result, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, TryCast, Volatility,
};
use fluvial_core::ddl::ddl_name;
use std::fmt::Write;
use std::sync::Arc;

/// `CAST(x AS to)` or `TRY_CAST(x AS to)`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct CastFunction {
    to: DataType,
    mode: CastMode,
    signature: Signature,
}

impl CastFunction {
    pub(crate) fn new(to: DataType, mode: CastMode) -> Self {
        // Depends on the session's time zone, which is fixed for a query.
        Self { to, mode, signature: Signature::any(1, Volatility::Immutable) }
    }

    /// The type that it casts to.
    pub(crate) fn to(&self) -> &DataType {
        &self.to
    }

    /// Appends the name of a call.
    pub(crate) fn write_name(&self, args: &[Expr], out: &mut String) -> Result<()> {
        let Some(arg) = args.first() else { return internal_err!("a cast has an operand") };
        write!(out, "{}(", self.name().to_uppercase())?;
        write_name(arg, out)?;
        write!(out, " AS {})", ddl_name(&self.to))?;
        Ok(())
    }
}

impl ScalarUDFImpl for CastFunction {
    fn name(&self) -> &str {
        match self.mode {
            CastMode::Ansi => "cast",
            CastMode::Try => "try_cast",
        }
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let mut name = String::new();
        self.write_name(args, &mut name)?;
        Ok(name)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let [arg] = args.arg_fields else { return internal_err!("a cast has one operand") };
        if !can_cast(arg.data_type(), &self.to) {
            return Err(no_such_cast(arg.data_type(), &self.to));
        }
        let nullable = arg.is_nullable() || self.mode == CastMode::Try;
        Ok(Arc::new(Field::new(self.name(), self.to.clone(), nullable)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let zone = Zone::of_session(&args.config_options)?;
        let [arg] = args.args.as_slice() else { return internal_err!("a cast has one operand") };
        match arg {
            ColumnarValue::Array(array) => {
                cast_array(array, &self.to, self.mode, zone).map(ColumnarValue::Array)
            }
            ColumnarValue::Scalar(value) => {
                let array = cast_array(&value.to_array()?, &self.to, self.mode, zone)?;
                datafusion::common::ScalarValue::try_from_array(&array, 0)
                    .map(ColumnarValue::Scalar)
            }
        }
    }
}

/// `expr` as `to`, failing the query for a value that does not fit.
///
/// # Errors
///
/// If Spark has no cast between the types.
pub(crate) fn cast_expr(expr: Expr, to: &DataType, schema: &dyn ExprSchema) -> Result<Expr> {
    let from = expr.type_in(schema)?;
    if from == *to {
        return Ok(expr);
    }
    if !can_cast(&from, to) {
        return Err(no_such_cast(&from, to));
    }
    if arrow_agrees(&from, to) {
        return Ok(Expr::Cast(Cast::new(Box::new(expr), to.clone())));
    }
    Ok(call(expr, to, CastMode::Ansi))
}

/// `expr` as `to`, null for a value that does not fit.
///
/// # Errors
///
/// If Spark has no cast between the types.
pub(crate) fn try_cast_expr(expr: Expr, to: &DataType, schema: &dyn ExprSchema) -> Result<Expr> {
    let from = expr.type_in(schema)?;
    if !can_cast(&from, to) {
        return Err(no_such_cast(&from, to));
    }
    if from == *to || arrow_agrees(&from, to) {
        return Ok(Expr::TryCast(TryCast::new(Box::new(expr), to.clone())));
    }
    Ok(call(expr, to, CastMode::Try))
}

fn call(expr: Expr, to: &DataType, mode: CastMode) -> Expr {
    let function = ScalarUDF::from(CastFunction::new(to.clone(), mode));
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(function), vec![expr]))
}

/// Whether Arrow's own cast gives Spark's result for every value: then it stays, since the
/// optimizer knows it.
pub(crate) fn arrow_agrees(from: &DataType, to: &DataType) -> bool {
    use DataType::{Boolean, Float32, Float64, Int8, Int16, Int32, Int64, Null, Timestamp};
    match (from, to) {
        (Null, _) => true,
        (Int8, Int16 | Int32 | Int64 | Float32 | Float64)
        | (Int16, Int32 | Int64 | Float32 | Float64)
        | (Int32, Int64 | Float32 | Float64)
        | (Int64, Float32 | Float64)
        | (Float32, Float64)
        | (Float64, Float32)
        | (Boolean, Int8 | Int16 | Int32 | Int64 | Float32 | Float64) => true,
        // The unit or the name of the zone only; the instant is the same.
        (Timestamp(_, a), Timestamp(TimeUnit::Microsecond, b)) => a.is_some() == b.is_some(),
        (from, to) => is_string(from) && is_string(to),
    }
}

/// What a literal of a type such as `DATE '2026-02-30'` is refused with.
pub(crate) fn bad_literal(to: &DataType, text: &str) -> datafusion::common::DataFusionError {
    spark(
        "INVALID_TYPED_LITERAL",
        format!("the value of the typed literal {} '{text}' is invalid", ddl_name(to)),
    )
}
