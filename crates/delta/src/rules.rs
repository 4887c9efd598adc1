//! What a table asks of the rows that are written: constraints that must hold, and columns that
//! are computed from others.
//!
//! Their expressions are texts in the table's metadata, in SQL. Who knows that language reads them
//! ([`Compile`]); here they are kept to.

use crate::error::about_values;
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Float32Array, Float64Array, RecordBatch,
};
use arrow::compute::{CastOptions, cast_with_options, kernels::cmp::not_distinct};
use arrow::datatypes::{DataType, FieldRef, Float32Type, Float64Type, SchemaRef};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::DFSchema;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::prelude::SessionContext;
use deltalake::table::config::TablePropertiesExt;
use deltalake::table::state::DeltaTableState;
use fluvial_core::{Error, Result};
use serde_json::Value;
use std::sync::Arc;

/// Keys of a column's metadata.
const INVARIANT: &str = "delta.invariants";
const GENERATED: &str = "delta.generationExpression";

/// Reads an expression over the columns of a table.
pub type Compile = dyn Fn(&str, &DFSchema) -> Result<Arc<dyn PhysicalExpr>> + Send + Sync;

/// What plain DataFusion makes of an expression.
pub(crate) fn plain(text: &str, columns: &DFSchema) -> Result<Arc<dyn PhysicalExpr>> {
    let context = SessionContext::new();
    let parsed = context.parse_sql_expr(text, columns);
    parsed
        .and_then(|expr| context.create_physical_expr(expr, columns))
        .map_err(|e| Error::invalid(e.strip_backtrace()))
}

/// One rule, as the table has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// A CHECK constraint: its name and what must be true.
    Check(String, String),
    /// An invariant of a column.
    Invariant(String, String),
    /// A column and what it is computed from.
    Generated(String, String),
}

/// The rules of a table, in an order that is always the same.
pub(crate) fn rules(state: &DeltaTableState) -> Result<Vec<Rule>> {
    let checks = state.table_config().get_constraints();
    let mut rules: Vec<Rule> =
        checks.into_iter().map(|check| Rule::Check(check.name, check.expr)).collect();
    for field in state.snapshot().arrow_schema().fields() {
        let name = field.name().clone();
        if let Some(text) = field.metadata().get(INVARIANT) {
            rules.push(Rule::Invariant(name.clone(), invariant(&name, text)?));
        }
        if let Some(text) = generation(field) {
            rules.push(Rule::Generated(name, text.to_owned()));
        }
    }
    rules.sort();
    Ok(rules)
}

/// What a column is computed from, if it is.
pub(crate) fn generation(field: &FieldRef) -> Option<&str> {
    field.metadata().get(GENERATED).map(String::as_str)
}

/// `{"expression":{"expression":"v > 0"}}`, as the protocol has it.
fn invariant(column: &str, text: &str) -> Result<String> {
    let parsed: Option<Value> = serde_json::from_str(text).ok();
    let inner = parsed.as_ref().and_then(|v| v.get("expression")?.get("expression")?.as_str());
    inner.map(str::to_owned).ok_or_else(|| {
        Error::corrupt(format!("the invariant of column {column:?} cannot be read: {text}"))
    })
}

/// The rules of a table, ready to be kept to.
pub(crate) struct Rules {
    schema: SchemaRef,
    generated: Vec<Generated>,
    checks: Vec<Check>,
}

struct Generated {
    index: usize,
    text: String,
    value: Arc<dyn PhysicalExpr>,
}

struct Check {
    what: String,
    holds: Arc<dyn PhysicalExpr>,
    /// The columns that it looks at, in order.
    columns: Vec<usize>,
}

impl Rules {
    /// Reads the rules of a table.
    ///
    /// # Errors
    ///
    /// `Invalid` (`DELTA_FEATURE_NOT_SUPPORTED`) for an expression that `compile` does not know.
    pub(crate) fn new(state: &DeltaTableState, compile: &Compile) -> Result<Self> {
        let schema = state.snapshot().arrow_schema();
        let (mut generated, mut checks) = (Vec::new(), Vec::new());
        let columns = DFSchema::try_from(schema.as_ref().clone()).map_err(unreadable)?;
        for rule in rules(state)? {
            let (what, text) = match &rule {
                Rule::Check(name, text) => (format!("CHECK constraint {name}"), text),
                Rule::Invariant(name, text) => (format!("the invariant of column {name:?}"), text),
                Rule::Generated(name, text) => (format!("the value of column {name:?}"), text),
            };
            let expr = compile(text, &columns).map_err(|e| {
                Error::invalid(format!(
                    "{what} is {text}, which cannot be computed here: {}",
                    e.message()
                ))
                .with_condition("DELTA_FEATURE_NOT_SUPPORTED")
            })?;
            if let Rule::Generated(name, text) = rule {
                let index = schema.index_of(&name)?;
                generated.push(Generated { index, text, value: expr });
                continue;
            }
            let mut columns: Vec<usize> =
                collect_columns(&expr).iter().map(|column| column.index()).collect();
            columns.sort_unstable();
            checks.push(Check { what: format!("{what} ({text})"), holds: expr, columns });
        }
        Ok(Self { schema, generated, checks })
    }

    /// None at all.
    #[cfg(test)]
    pub(crate) fn none(schema: &SchemaRef) -> Self {
        Self { schema: schema.clone(), generated: Vec::new(), checks: Vec::new() }
    }

    /// Computes the columns that are computed and were not given, and compares those that were.
    ///
    /// # Errors
    ///
    /// `Invalid` (`DELTA_VIOLATE_CONSTRAINT_WITH_VALUES`) naming a row that says otherwise.
    pub(crate) fn generate(
        &self,
        columns: &mut [ArrayRef],
        given: impl Fn(&str) -> bool,
    ) -> Result<()> {
        if self.generated.is_empty() {
            return Ok(());
        }
        // Without NOT NULL, which holds only once everything is computed.
        let open: Vec<_> = self.schema.fields().iter().zip(columns.iter()).collect();
        let open = open.into_iter().map(|(field, column)| (field.name(), column.clone(), true));
        let rows = RecordBatch::try_from_iter_with_nullable(open)?;
        for Generated { index, text, value } in &self.generated {
            let field = self.schema.field(*index);
            let strict = CastOptions { safe: false, ..CastOptions::default() };
            let computed = evaluate(value, &rows)?;
            let computed = cast_with_options(&computed, field.data_type(), &strict)
                .map_err(|e| Error::from(e).at(format!("column {:?}", field.name())))?;
            if !given(field.name()) {
                columns[*index] = computed;
                continue;
            }
            let same = null_safe_equal(&columns[*index], &computed)?;
            let what = format!("CHECK constraint Generated Column ({} <=> {text})", field.name());
            let mut looked: Vec<usize> =
                collect_columns(value).iter().map(|column| column.index()).collect();
            looked.push(*index);
            looked.sort_unstable();
            demand(&same, &what, &rows, &looked)?;
        }
        Ok(())
    }

    /// Checks rows that are complete.
    ///
    /// # Errors
    ///
    /// `Invalid` (`DELTA_VIOLATE_CONSTRAINT_WITH_VALUES`) naming the constraint and a row.
    pub(crate) fn check(&self, rows: &RecordBatch) -> Result<()> {
        for Check { what, holds, columns } in &self.checks {
            let found = evaluate(holds, rows)?;
            let found = found.as_boolean_opt().ok_or_else(|| {
                Error::invalid(format!("{what} is neither true nor false: make it a condition"))
            })?;
            demand(found, what, rows, columns)?;
        }
        Ok(())
    }
}

/// Spark's `<=>`: nulls are equal, and so are zeros of both signs, and all that are no numbers;
/// the comparison's own order knows each of them apart.
fn null_safe_equal(given: &ArrayRef, computed: &ArrayRef) -> Result<BooleanArray> {
    Ok(not_distinct(&plain_zeros(given), &plain_zeros(computed))?)
}

fn plain_zeros(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float32 => {
            let plain = |v: f32| if v.is_nan() { f32::NAN } else { v + 0.0 };
            let plain: Float32Array = column.as_primitive::<Float32Type>().unary(plain);
            Arc::new(plain)
        }
        DataType::Float64 => {
            let plain = |v: f64| if v.is_nan() { f64::NAN } else { v + 0.0 };
            let plain: Float64Array = column.as_primitive::<Float64Type>().unary(plain);
            Arc::new(plain)
        }
        _ => column.clone(),
    }
}

fn unreadable(error: datafusion::error::DataFusionError) -> Error {
    about_values(&error.strip_backtrace())
}

fn evaluate(expr: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Result<ArrayRef> {
    let value = expr.evaluate(rows).and_then(|value| value.into_array(rows.num_rows()));
    value.map_err(unreadable)
}

/// Every row must say true: as in Delta, null is not enough.
fn demand(found: &BooleanArray, what: &str, rows: &RecordBatch, columns: &[usize]) -> Result<()> {
    let kept = found.true_count();
    if kept == found.len() {
        return Ok(());
    }
    let bad = (0..found.len()).find(|row| found.is_null(*row) || !found.value(*row));
    let values = bad.map(|row| values(rows, columns, row)).transpose()?.unwrap_or_default();
    Err(Error::invalid(format!(
        "{what} violated by row with values: {values}; {} of {} rows are like that: filter them \
         out, or drop the constraint from the table",
        found.len() - kept,
        found.len()
    ))
    .with_condition("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"))
}

/// `a : 1, b : null`, as Spark writes it.
fn values(rows: &RecordBatch, columns: &[usize], row: usize) -> Result<String> {
    let options = FormatOptions::default().with_null("null");
    let schema = rows.schema();
    let one = |index: &usize| {
        let shown = ArrayFormatter::try_new(rows.column(*index), &options)?;
        Ok(format!("{} : {}", schema.field(*index).name(), shown.value(row)))
    };
    Ok(columns.iter().map(one).collect::<Result<Vec<_>>>()?.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_the_computed_one_as_spark_compares() {
        let given = [Some(-0.0), Some(0.0), Some(-f64::NAN), None, Some(1.0), Some(1.0)];
        let computed = [Some(0.0), Some(-0.0), Some(f64::NAN), None, Some(2.0), None];
        let expected = [true, true, true, true, false, false];
        let columns = [given, computed]
            .map(|values| -> ArrayRef { Arc::new(Float64Array::from(values.to_vec())) });
        let same = null_safe_equal(&columns[0], &columns[1]).unwrap();
        assert_eq!(same, BooleanArray::from(expected.to_vec()));
        let narrow =
            columns.map(|column| arrow::compute::cast(&column, &DataType::Float32).unwrap());
        let same = null_safe_equal(&narrow[0], &narrow[1]).unwrap();
        assert_eq!(same, BooleanArray::from(expected.to_vec()));
    }
}
