//! A DataFusion session that speaks Spark.

use super::analyzer::{SparkCasts, SparkOperators};
use super::generators::Generators;
use super::guarded_filters::GuardingPlanner;
use super::planner::SparkPlanner;
use super::types::SparkTypes;
use super::union_types::UnionTypes;
use crate::functions;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::optimizer::Analyzer;
use datafusion::optimizer::analyzer::function_rewrite::ApplyFunctionRewrites;
use datafusion::prelude::SessionConfig;
use fluvial_core::NameCase;
use std::collections::HashMap;
use std::sync::Arc;

/// A builder with DataFusion's features and Spark's dialect and functions. The time zone is UTC;
/// set `datafusion.execution.time_zone` for another.
pub fn session_state_builder() -> SessionStateBuilder {
    configure(SessionConfig::new(), SessionStateBuilder::new().with_default_features())
}

/// The state with another rule for names: whether `K` finds a column or a field `k`.
pub fn with_name_case(state: SessionState, case: NameCase) -> SessionState {
    if name_case(&state) == case {
        return state;
    }
    let mut builder = rebuilt(state);
    builder.config().get_or_insert_default().set_extension(Arc::new(Names(case)));
    if let Some(ours) = builder.expr_planners().get_or_insert_default().first_mut() {
        *ours = Arc::new(SparkPlanner { case });
    }
    builder.build()
}

/// A builder of the same state again. DataFusion's own registers the functions anew in any order,
/// and of two that claim a name (`to_char` is also called `date_format`) the last one gets it.
pub fn rebuilt(state: SessionState) -> SessionStateBuilder {
    let scalar = in_order(state.scalar_functions(), |f| (f.name(), f.aliases()));
    let aggregate = in_order(state.aggregate_functions(), |f| (f.name(), f.aliases()));
    let higher_order = in_order(state.higher_order_functions(), |f| (f.name(), f.aliases()));
    SessionStateBuilder::new_from_existing(state)
        .with_scalar_functions(scalar)
        .with_aggregate_functions(aggregate)
        .with_higher_order_functions(higher_order)
}

/// The functions in an order in which each name comes last to the one that has it.
fn in_order<F>(
    functions: &HashMap<String, Arc<F>>,
    names: impl Fn(&F) -> (&str, &[String]),
) -> Vec<Arc<F>> {
    let mut sorted: Vec<(&String, &Arc<F>)> = functions.iter().collect();
    sorted.sort_by_key(|(name, _)| *name);
    let mut left: Vec<Arc<F>> = Vec::new();
    for (_, function) in sorted {
        if !left.iter().any(|other| Arc::ptr_eq(other, function)) {
            left.push(Arc::clone(function));
        }
    }
    let claims = |function: &F, owner: &Arc<F>| {
        let (name, aliases) = names(function);
        let mut claimed = aliases.iter().map(String::as_str).chain([name]);
        claimed.any(|name| functions.get(name).is_some_and(|has| Arc::ptr_eq(has, owner)))
    };
    let mut ordered = Vec::with_capacity(left.len());
    while !left.is_empty() {
        // One whose names nobody claims who still has to come; there is always one, unless two
        // have taken a name from each other.
        let free = left.iter().position(|function| {
            !left.iter().any(|other| !Arc::ptr_eq(other, function) && claims(other, function))
        });
        ordered.push(left.remove(free.unwrap_or(0)));
    }
    ordered
}

/// The rule for names of a session.
pub(super) fn name_case(state: &SessionState) -> NameCase {
    state.config().get_extension::<Names>().map_or(NameCase::Insensitive, |names| names.0)
}

/// How a session's config carries the rule.
struct Names(NameCase);

/// Gives a builder Spark's dialect and functions, with `config` changed where Spark's SQL needs
/// it: names keep their case, text is `Utf8`, numbers with a point are decimals.
///
/// Call it after `with_default_features`; what it registers replaces what has the same name.
pub fn configure(config: SessionConfig, builder: SessionStateBuilder) -> SessionStateBuilder {
    let mut config = config;
    let options = config.options_mut();
    options.sql_parser.enable_ident_normalization = false;
    options.sql_parser.collect_spans = true;
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.map_string_types_to_utf8view = false;
    options.sql_parser.default_null_ordering = "nulls_min".into();
    options.execution.parquet.schema_force_view_types = false;
    options.execution.enable_ansi_mode = true;
    if options.execution.time_zone.is_none() {
        options.execution.time_zone = Some("UTC".into());
    }
    let mut builder = builder
        .with_config(config)
        .with_type_planner(Arc::new(SparkTypes))
        .with_query_planner(Arc::new(GuardingPlanner));
    builder.expr_planners().get_or_insert_default().insert(0, Arc::new(SparkPlanner::default()));
    let relations = builder.relation_planners().get_or_insert_default();
    relations.insert(0, Arc::new(Generators));
    relations.insert(1, Arc::new(UnionTypes));
    let analyzer = builder.analyzer().get_or_insert_with(Analyzer::new);
    // Operators go by types, and those of a union of DataFrames are final only once it is widened.
    let operators = ApplyFunctionRewrites::new(vec![Arc::new(SparkOperators)]);
    analyzer.rules.insert(0, Arc::new(UnionTypes));
    analyzer.rules.insert(1, Arc::new(operators));
    analyzer.rules.push(Arc::new(SparkCasts));
    builder.scalar_functions().get_or_insert_default().extend(functions::scalar_functions());
    builder.aggregate_functions().get_or_insert_default().extend(functions::aggregate_functions());
    let higher_order = builder.higher_order_functions().get_or_insert_default();
    higher_order.extend(functions::higher_order_functions());
    builder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_that_is_built_again_has_the_same_functions_by_the_same_names() {
        let mut state = session_state_builder().build();
        for _ in 0..4 {
            let scalar = state.scalar_functions().clone();
            let aggregate = state.aggregate_functions().clone();
            state = rebuilt(state).build();
            // Not the same objects: a function that knows the settings is made anew with them.
            for (name, function) in &scalar {
                assert_eq!(function.name(), state.scalar_functions()[name].name(), "{name}");
            }
            for (name, function) in &aggregate {
                assert_eq!(function.name(), state.aggregate_functions()[name].name(), "{name}");
            }
        }
    }
}
