//! A DataFusion session that speaks Spark.

use super::analyzer::{SparkCasts, SparkOperators};
use super::planner::SparkPlanner;
use super::types::SparkTypes;
use crate::functions;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::optimizer::Analyzer;
use datafusion::prelude::SessionConfig;
use fluvial_core::NameCase;
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
    let mut builder = SessionStateBuilder::new_from_existing(state);
    builder.config().get_or_insert_default().set_extension(Arc::new(Names(case)));
    if let Some(ours) = builder.expr_planners().get_or_insert_default().first_mut() {
        *ours = Arc::new(SparkPlanner { case });
    }
    builder.build()
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
    let mut builder = builder.with_config(config).with_type_planner(Arc::new(SparkTypes));
    builder.expr_planners().get_or_insert_default().insert(0, Arc::new(SparkPlanner::default()));
    let analyzer = builder.analyzer().get_or_insert_with(Analyzer::new);
    analyzer.add_function_rewrite(Arc::new(SparkOperators));
    analyzer.rules.push(Arc::new(SparkCasts));
    builder.scalar_functions().get_or_insert_default().extend(functions::scalar_functions());
    builder.aggregate_functions().get_or_insert_default().extend(functions::aggregate_functions());
    builder
}
