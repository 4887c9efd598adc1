//! Every function under its names in Spark.

use super::arithmetic::{Arithmetic, Op};
use super::cast::CastMode;
use super::{aggregate, collection, datetime, json, lambda, math, string};
use super::{negate_udf, session_window_udf, window_time_udf, window_udf};
use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF};
use std::sync::{Arc, LazyLock};

/// Scalar functions, in order of registration: a later one replaces an earlier one.
pub fn scalar_functions() -> Vec<Arc<ScalarUDF>> {
    let mut functions = datafusion_spark::all_default_scalar_functions();
    functions.extend(arithmetic());
    functions.extend(collection::functions());
    functions.extend(datetime::functions());
    functions.extend(string::functions());
    functions.extend(math::functions());
    functions.extend(json::functions());
    functions.extend([window_udf(), window_time_udf(), session_window_udf()]);
    functions.push(super::marker::monotonically_increasing_id());
    functions
}

/// Aggregate functions, in order of registration.
pub fn aggregate_functions() -> Vec<Arc<AggregateUDF>> {
    aggregate::functions()
}

/// Functions that take a lambda, in order of registration.
pub fn higher_order_functions() -> Vec<Arc<HigherOrderUDF>> {
    lambda::functions()
}

/// The aggregate of Spark that has the name of `function`, if it is another one.
pub(crate) fn aggregate_of_spark(function: &AggregateUDF) -> Option<Arc<AggregateUDF>> {
    static ALL: LazyLock<Vec<Arc<AggregateUDF>>> = LazyLock::new(aggregate_functions);
    // A later one replaces an earlier one.
    let ours = ALL.iter().rev().find(|ours| ours.name() == function.name())?;
    (ours.as_ref() != function).then(|| Arc::clone(ours))
}

/// Registers all functions; what has the same name is replaced.
///
/// # Errors
///
/// What the registry refuses.
pub fn register_all(registry: &mut dyn FunctionRegistry) -> Result<()> {
    for function in scalar_functions() {
        registry.register_udf(function)?;
    }
    for function in aggregate_functions() {
        registry.register_udaf(function)?;
    }
    for function in higher_order_functions() {
        registry.register_higher_order_function(function)?;
    }
    Ok(())
}

/// The operators as functions, and their variants that give null.
fn arithmetic() -> Vec<Arc<ScalarUDF>> {
    let of = |op, mode| Arc::new(ScalarUDF::from(Arithmetic::new(op, mode)));
    let mut functions = vec![
        of(Op::Remainder, CastMode::Ansi),
        of(Op::PositiveRemainder, CastMode::Ansi),
        Arc::new(negate_udf()),
    ];
    for op in [Op::Add, Op::Subtract, Op::Multiply, Op::Divide, Op::Remainder] {
        functions.push(of(op, CastMode::Try));
    }
    functions
}
