//! Functions that take a function: `transform(items, x -> x + 1)`.
//!
//! The body of a lambda is evaluated over the elements of all rows at once, as one batch in which
//! the columns that it reads from outside are repeated for each element of their row.

mod elements;
mod fold;
mod function;
mod list;
mod map;

use datafusion::logical_expr::HigherOrderUDF;
use function::Spec;
use std::sync::Arc;

/// The functions of this module.
pub(crate) fn functions() -> Vec<Arc<HigherOrderUDF>> {
    let specs = [list::functions(), fold::functions(), map::functions()];
    specs.into_iter().flatten().map(Spec::udf).collect()
}
