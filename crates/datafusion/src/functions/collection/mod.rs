//! Elements of arrays, maps and structs.

mod build;
mod field;
mod list;
mod map;
mod order;
mod positions;
mod sequence;
mod sets;
mod subscript;

pub(crate) use field::{fields_of_items, find_field};
pub(crate) use map::check_keys;
pub(crate) use positions::with_positions;
pub(crate) use subscript::{Subscript, subscript};

use crate::functions::function::Spec;
use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;

/// The functions of this module that users call.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let mut functions: Vec<Arc<ScalarUDF>> =
        [Subscript::ElementAt, Subscript::TryElementAt, Subscript::Get]
            .into_iter()
            .map(|kind| Arc::new(subscript::udf(kind)))
            .collect();
    let specs = [
        build::functions(),
        list::functions(),
        map::functions(),
        order::functions(),
        sequence::functions(),
        sets::functions(),
    ];
    functions.extend(specs.into_iter().flatten().map(Spec::udf));
    functions
}

/// `concat` of arrays.
pub(crate) fn concat_udf() -> Arc<ScalarUDF> {
    list::concat_spec().udf()
}

/// `map(key, value, ...)`.
pub(crate) fn map_udf() -> Arc<ScalarUDF> {
    map::map_spec().udf()
}
