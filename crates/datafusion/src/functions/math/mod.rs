//! Numbers.

mod checks;
mod doubles;
mod random;
mod rounding;
mod whole;

pub(crate) use random::{Draw, DrawCall, next};

use crate::functions::function::Spec;
use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;

/// The functions of this module.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let mut functions: Vec<Arc<ScalarUDF>> =
        [doubles::functions(), rounding::functions(), checks::functions(), whole::functions()]
            .into_iter()
            .flatten()
            .map(Spec::udf)
            .collect();
    functions.extend(random::functions());
    functions
}
