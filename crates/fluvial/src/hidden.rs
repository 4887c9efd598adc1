//! The hidden column `_metadata` of files: it is there only for who names it.

use crate::batch_table::BatchTable;
use datafusion::catalog::TableProvider;
use datafusion::common::{Column, Result};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, LogicalPlanBuilder, Projection, TableScan,
};
use fluvial_datafusion::plan::{StreamTable, WatermarkNode, stream_of};
use fluvial_sources::METADATA;
use std::any::Any;
use std::sync::Arc;

/// The plan with the column `_metadata` of the files that it reads, last; `None` if it reads none,
/// or has such a column already.
///
/// It comes through what keeps rows as they are and through projections, and not through
/// aggregations: as in Spark.
pub(crate) fn with_metadata(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    if plan.schema().fields().iter().any(|field| field.name() == METADATA) {
        return Ok(None);
    }
    match plan {
        LogicalPlan::TableScan(scan) => scan_with_metadata(scan),
        LogicalPlan::Projection(projection) => {
            let Some(input) = with_metadata(&projection.input)? else { return Ok(None) };
            let mut exprs = projection.expr.clone();
            exprs.push(Expr::Column(metadata_of(&input)));
            Projection::try_new(exprs, Arc::new(input)).map(LogicalPlan::Projection).map(Some)
        }
        LogicalPlan::Extension(Extension { node }) if node.as_any().is::<WatermarkNode>() => {
            through(plan)
        }
        LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Join(_) => through(plan),
        _ => Ok(None),
    }
}

/// The same node over inputs that have the column.
fn through(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let mut found = false;
    let mut inputs = Vec::new();
    for input in plan.inputs() {
        let with = with_metadata(input)?;
        found |= with.is_some();
        inputs.push(with.unwrap_or_else(|| input.clone()));
    }
    if !found {
        return Ok(None);
    }
    plan.with_new_exprs(plan.expressions(), inputs).map(Some)
}

fn metadata_of(plan: &LogicalPlan) -> Column {
    let columns = plan.schema().columns();
    let own = columns.into_iter().find(|column| column.name == METADATA);
    own.unwrap_or_else(|| Column::new_unqualified(METADATA))
}

fn scan_with_metadata(scan: &TableScan) -> Result<Option<LogicalPlan>> {
    let provider = source_as_provider(&scan.source)?;
    let any: &dyn Any = provider.as_ref();
    let table: Arc<dyn TableProvider> = if let Some((name, definition)) = stream_of(scan) {
        let Some(definition) = definition.with_file_metadata() else { return Ok(None) };
        Arc::new(StreamTable::new(name, definition))
    } else if let Some(table) = any.downcast_ref::<BatchTable>() {
        let Some(definition) = table.definition().with_file_metadata() else { return Ok(None) };
        Arc::new(BatchTable::new(definition))
    } else {
        return Ok(None);
    };
    let last = table.schema().fields().len() - 1;
    let projection = scan.projection.clone().map(|mut columns| {
        columns.push(last);
        columns
    });
    let source = provider_as_source(table);
    LogicalPlanBuilder::scan(scan.table_name.clone(), source, projection)?.build().map(Some)
}

/// Whether an expression names the column.
pub(crate) fn names_metadata(expr: &Expr) -> bool {
    expr.column_refs().iter().any(|column| column.name == METADATA)
}
