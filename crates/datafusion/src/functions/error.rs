//! Errors of expressions, under Spark's condition names.

use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result};
use fluvial_core::Error;
use fluvial_core::ddl::ddl_name;

/// An error in the data or the expression, under one of Spark's condition names.
pub(crate) fn spark(condition: &'static str, message: impl Into<String>) -> DataFusionError {
    crate::error::plan(Error::invalid(message).with_condition(condition))
}

pub(crate) fn overflow(what: &str) -> DataFusionError {
    spark(
        "ARITHMETIC_OVERFLOW",
        format!("{what} is out of the range of its type; the try_ function gives null instead"),
    )
}

pub(crate) fn divide_by_zero() -> DataFusionError {
    spark("DIVIDE_BY_ZERO", "division by zero; try_divide gives null instead")
}

pub(crate) fn remainder_by_zero() -> DataFusionError {
    spark("REMAINDER_BY_ZERO", "remainder by zero; try_mod gives null instead")
}

pub(crate) fn decimal_out_of_range(value: &str, precision: u8, scale: i8) -> DataFusionError {
    spark(
        "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION",
        format!(
            "{value} cannot be represented as DECIMAL({precision},{scale}); the try_ function \
             gives null instead"
        ),
    )
}

/// Two types that an operator or function cannot bring together.
pub(crate) fn mismatch(what: &str, types: &[&DataType]) -> DataFusionError {
    let names: Vec<String> = types.iter().map(|t| ddl_name(t)).collect();
    spark(
        "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES",
        format!("`{what}` cannot be applied to {}: cast one side", names.join(" and ")),
    )
}

/// A function argument of a type that the function does not take.
pub(crate) fn unexpected_type(function: &str, expected: &str, found: &DataType) -> DataFusionError {
    spark(
        "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE",
        format!("`{function}` takes {expected}, not {}", ddl_name(found)),
    )
}

/// A function called with too few or too many arguments.
pub(crate) fn wrong_arguments(function: &str, expected: &str, found: usize) -> DataFusionError {
    spark(
        "WRONG_NUM_ARGS.WITHOUT_SUGGESTION",
        format!("`{function}` takes {expected} arguments, not {found}"),
    )
}

/// Refuses a call with fewer than `required` or more than `most` arguments.
pub(crate) fn check_count(
    function: &str,
    required: usize,
    most: Option<usize>,
    found: usize,
) -> Result<()> {
    if found >= required && most.is_none_or(|most| found <= most) {
        return Ok(());
    }
    let expected = match most {
        None => format!("at least {required}"),
        Some(most) if most == required => most.to_string(),
        Some(most) => format!("{required} to {most}"),
    };
    Err(wrong_arguments(function, &expected, found))
}
