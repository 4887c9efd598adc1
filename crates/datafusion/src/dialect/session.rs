//! A DataFusion session that speaks Spark.

use super::analyzer::{SparkCasts, SparkOperators};
use super::planner::SparkPlanner;
use super::types::SparkTypes;
use crate::functions;
use datafusion::execution::SessionStateBuilder;
use datafusion::optimizer::Analyzer;
use datafusion::prelude::SessionConfig;
use std::sync::Arc;

/// A builder with DataFusion's features and Spark's dialect and functions. The time zone is UTC;
/// set `datafusion.execution.time_zone` for another.
pub fn session_state_builder() -> SessionStateBuilder {
    configure(SessionConfig::new(), SessionStateBuilder::new().with_default_features())
}

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
    builder.expr_planners().get_or_insert_default().insert(0, Arc::new(SparkPlanner));
    let analyzer = builder.analyzer().get_or_insert_with(Analyzer::new);
    analyzer.add_function_rewrite(Arc::new(SparkOperators));
    analyzer.rules.push(Arc::new(SparkCasts));
    builder.scalar_functions().get_or_insert_default().extend(functions::scalar_functions());
    builder.aggregate_functions().get_or_insert_default().extend(functions::aggregate_functions());
    builder
}
