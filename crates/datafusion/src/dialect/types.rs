//! Spark's names of types.

use crate::functions::error::spark;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::DataType as SqlType;
use fluvial_core::ddl::parse_type;
use std::sync::Arc;

/// Gives the types of casts and column definitions Spark's meaning: `timestamp` is an instant in
/// microseconds, `decimal` has ten digits, `long` is a `bigint`.
#[derive(Debug)]
pub(super) struct SparkTypes;

impl TypePlanner for SparkTypes {
    fn plan_type_field(&self, sql_type: &SqlType) -> Result<Option<FieldRef>> {
        let data_type = type_named(&sql_type.to_string())?;
        Ok(Some(Arc::new(Field::new("", data_type, true))))
    }
}

/// The type of a name in SQL.
///
/// # Errors
///
/// `UNSUPPORTED_DATATYPE` or `PARSE_SYNTAX_ERROR`.
pub(super) fn type_named(name: &str) -> Result<DataType> {
    parse_type(name).map_err(crate::error::plan)
}

/// `bigint`, `array<int>`, `struct<a:int>`: what `typeof` gives.
pub(super) fn simple_name(data_type: &DataType) -> String {
    let fields = |fields: &arrow::datatypes::Fields| {
        let field = |f: &FieldRef| format!("{}:{}", f.name(), simple_name(f.data_type()));
        fields.iter().map(field).collect::<Vec<_>>().join(",")
    };
    match data_type {
        DataType::List(item) => format!("array<{}>", simple_name(item.data_type())),
        DataType::Struct(f) => format!("struct<{}>", fields(f)),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(f) if f.len() == 2 => {
                let [key, value] = [simple_name(f[0].data_type()), simple_name(f[1].data_type())];
                format!("map<{key},{value}>")
            }
            other => other.to_string(),
        },
        other => fluvial_core::ddl::ddl_name(other).to_lowercase(),
    }
}

/// The function that a name of a type is in Spark: `double('NaN')`.
pub(super) fn type_of_function(name: &str) -> Option<&'static str> {
    Some(match name.to_ascii_lowercase().as_str() {
        "boolean" => "boolean",
        "tinyint" => "tinyint",
        "smallint" => "smallint",
        "int" => "int",
        "bigint" => "bigint",
        "float" => "float",
        "double" => "double",
        "decimal" => "decimal",
        "string" => "string",
        "binary" => "binary",
        "date" => "date",
        "timestamp" => "timestamp",
        _ => return None,
    })
}

/// A literal of a type that has none.
pub(super) fn no_literal(name: &str) -> datafusion::common::DataFusionError {
    spark(
        "UNSUPPORTED_TYPED_LITERAL",
        format!(
            "literals of the type {name} are not supported; there are DATE, TIMESTAMP, \
             TIMESTAMP_NTZ, TIMESTAMP_LTZ and INTERVAL"
        ),
    )
}
