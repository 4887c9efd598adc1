//! Comparisons and the places where several values stand for one: everything is first brought to
//! one type.

use super::operators::{as_duration, is_interval};
use crate::functions::arithmetic::common_type;
use crate::functions::cast::cast_expr;
use crate::functions::error::{mismatch, spark};
use crate::functions::typing::Typed;
use arrow::datatypes::DataType;
use datafusion::common::{ExprSchema, Result};
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::{Expr, Operator};
use fluvial_core::ddl::ddl_name;

/// `left op right`; `None` if the types are the same already.
pub(super) fn binary(
    op: Operator,
    left: &Expr,
    right: &Expr,
    schema: &dyn ExprSchema,
) -> Result<Option<Expr>> {
    let (lt, rt) = (left.type_in(schema)?, right.type_in(schema)?);
    if matches!(lt, DataType::Map(..)) || matches!(rt, DataType::Map(..)) {
        return Err(spark(
            "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE",
            format!("`{op}` does not compare maps: {} and {}", ddl_name(&lt), ddl_name(&rt)),
        ));
    }
    if lt == rt {
        return Ok(None);
    }
    let (left, right) = if is_interval(&lt) && is_interval(&rt) {
        (as_duration(left.clone()), as_duration(right.clone()))
    } else {
        let Some(common) = common_type(&lt, &rt) else {
            return Err(mismatch(&op.to_string(), &[&lt, &rt]));
        };
        (cast_expr(left.clone(), &common, schema)?, cast_expr(right.clone(), &common, schema)?)
    };
    Ok(Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))))
}

/// All expressions in the one type that they have in common.
///
/// # Errors
///
/// `DATATYPE_MISMATCH.DATA_DIFF_TYPES` if there is none.
pub(super) fn to_common_type(
    what: &str,
    exprs: Vec<Expr>,
    schema: &dyn ExprSchema,
) -> Result<Vec<Expr>> {
    let mut common = DataType::Null;
    for expr in &exprs {
        let next = expr.type_in(schema)?;
        common = match common_type(&common, &next) {
            Some(common) => common,
            None => {
                return Err(spark(
                    "DATATYPE_MISMATCH.DATA_DIFF_TYPES",
                    format!(
                        "the values of `{what}` should be of one type, but there are {} and {}",
                        ddl_name(&common),
                        ddl_name(&next)
                    ),
                ));
            }
        };
    }
    exprs.into_iter().map(|expr| cast_expr(expr, &common, schema)).collect()
}
