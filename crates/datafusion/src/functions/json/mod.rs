//! JSON in columns of text.

mod get;
mod read;
mod value;
mod write;

use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;
pub(crate) use write::json_of_rows;

/// The functions of this module.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let mut functions = vec![read::from_json_udf()];
    functions.extend(get::functions().into_iter().map(crate::functions::function::Spec::udf));
    functions.extend(write::functions().into_iter().map(crate::functions::function::Spec::udf));
    functions
}
