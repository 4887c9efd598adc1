//! Text.

mod basic;
pub(crate) use basic::reverse;
mod encoding;
mod find;
mod hash;
mod like;
mod number;
mod regex;

pub(crate) use like::{like_pattern, like_pattern_udf};

use crate::functions::function::Spec;
use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;

/// The functions of this module.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    [
        basic::functions(),
        encoding::functions(),
        find::functions(),
        hash::functions(),
        number::functions(),
        regex::functions(),
    ]
    .into_iter()
    .flatten()
    .map(Spec::udf)
    .collect()
}

/// `concat` of texts.
pub(crate) fn concat_udf() -> Arc<ScalarUDF> {
    basic::concat_spec().udf()
}
