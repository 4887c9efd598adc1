//! Spark's functions by Spark's names.
//!
//! Where `datafusion-spark` or DataFusion has a function with Spark's behaviour it is used; the
//! others are here. `docs/functions.md` lists them all.

mod aggregate;
pub(crate) mod arithmetic;
pub(crate) mod calendar;
pub(crate) mod cast;
pub(crate) mod collection;
pub(crate) mod datetime;
pub(crate) mod error;
pub(crate) mod function;
mod json;
mod lambda;
mod marker;
mod math;
mod registry;
mod string;
pub(crate) mod typing;
mod window;
pub(crate) mod zone;

pub use aggregate::unsupported_aggregates;
pub(crate) use arithmetic::negate_udf;
use string::reverse as string_reverse;
pub(crate) use string::{like_pattern, like_pattern_udf};

use datafusion::logical_expr::ScalarUDF;
pub(crate) use json::json_of_rows;
pub(crate) use math::{Draw, DrawCall, next as next_random};
pub(crate) use registry::aggregate_of_spark;
pub use registry::{aggregate_functions, higher_order_functions, register_all, scalar_functions};
use std::sync::Arc;
pub use window::{session_window_udf, window_time_udf, window_udf};

/// `concat` of arrays or of texts.
pub(crate) fn concat_udf(of_arrays: bool) -> Arc<ScalarUDF> {
    if of_arrays { collection::concat_udf() } else { string::concat_udf() }
}
