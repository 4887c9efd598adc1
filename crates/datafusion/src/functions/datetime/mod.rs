//! Dates and times.

mod clock;
mod epoch;
mod fields;
mod format;
mod make;
mod pattern;
mod read;
mod shift;
mod text;
mod truncate;

pub(crate) use fields::date_part_udf;
pub(crate) use pattern::Pattern;

use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;

/// The functions of this module.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let mut functions = clock::functions();
    let specs = [
        epoch::functions(),
        fields::functions(),
        make::functions(),
        shift::functions(),
        text::functions(),
        truncate::functions(),
    ];
    functions.extend(specs.into_iter().flatten().map(crate::functions::function::Spec::udf));
    functions.push(date_part_udf());
    functions
}
