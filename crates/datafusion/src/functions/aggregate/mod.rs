//! Aggregate functions with Spark's results for nulls, NaN, overflow and empty groups.
//!
//! Every state is made of plain columns, so that it can be stored, merged in any order of
//! batches, and read by a later version.

mod average;
mod collect;
mod count_if;
mod definition;
mod distinct;
mod extreme;
mod first;
mod fixed;
mod frequency;
mod groups;
mod histogram;
mod moments;
mod pairs;
mod percentile;
mod pick;
mod quantile;
mod refused;
mod sliding;
mod sum;
#[cfg(test)]
mod tests;
mod text;

pub use refused::unsupported_aggregates;

use datafusion::functions_aggregate as df;
use datafusion::logical_expr::AggregateUDF;
use std::sync::Arc;

/// All aggregate functions under their names in Spark.
pub(crate) fn functions() -> Vec<Arc<AggregateUDF>> {
    let mut functions = vec![
        df::count::count_udaf(),
        renamed(&df::bool_and_or::bool_and_udaf(), &["every"]),
        renamed(&df::bool_and_or::bool_or_udaf(), &["some", "any"]),
        df::bit_and_or_xor::bit_and_udaf(),
        df::bit_and_or_xor::bit_or_udaf(),
        df::bit_and_or_xor::bit_xor_udaf(),
    ];
    functions.extend(sum::functions());
    functions.extend(average::functions());
    functions.extend(extreme::functions());
    functions.extend(first::functions());
    functions.extend(collect::functions());
    functions.extend(frequency::functions());
    functions.extend(percentile::functions());
    functions.extend(moments::functions());
    functions.extend(pairs::functions());
    functions.extend(pick::functions());
    functions.extend([
        count_if::function(),
        distinct::function(),
        quantile::function(),
        histogram::function(),
        text::function(),
    ]);
    functions
}

/// A function under more names.
fn renamed(function: &AggregateUDF, aliases: &[&'static str]) -> Arc<AggregateUDF> {
    Arc::new(function.clone().with_aliases(aliases.iter().copied()))
}
