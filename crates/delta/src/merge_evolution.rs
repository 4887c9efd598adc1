//! Columns that a merge brings along.
//!
//! The library would add them with metadata of another table: another id, at which streams stop.

use crate::merge::{Merge, MergeAction};
use crate::types::{Gap, delta_type, find, gap};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{DFSchema, Result as DfResult, TableReference};
use datafusion::logical_expr::ExprSchemable;
use fluvial_core::{Error, Result};
use std::sync::Arc;

/// Columns that clauses write and `table` lacks, whole or fields inside of them.
///
/// # Errors
///
/// `Invalid` for types that Delta does not have.
pub(crate) fn new_columns(merge: &Merge, table: &Schema) -> Result<Vec<FieldRef>> {
    let invalid = |e| Error::invalid(format!("the columns of the merge: {e}"));
    let row = row(merge, table).map_err(invalid)?;
    let mut new: Vec<FieldRef> = Vec::new();
    for clause in &merge.clauses {
        let (MergeAction::Update(values) | MergeAction::Insert(values)) = &clause.action else {
            continue;
        };
        for (name, value) in values {
            if find(&new.clone().into(), name).is_some() {
                continue;
            }
            let place = |e: Error| e.at(format!("column {name:?}"));
            let of = delta_type(&value.get_type(&row).map_err(invalid)?).map_err(place)?;
            let lacks = match find(table.fields(), name).map(|i| table.field(i).data_type()) {
                None => true,
                Some(to @ DataType::Struct(_)) => gap(&of, to) == Gap::New,
                Some(_) => false,
            };
            if lacks {
                new.push(Arc::new(Field::new(name, of, true)));
            }
        }
    }
    Ok(new)
}

/// What expressions see.
fn row(merge: &Merge, table: &Schema) -> DfResult<DFSchema> {
    let of = |alias: &str, schema: &Schema| {
        DFSchema::try_from_qualified_schema(TableReference::bare(alias), schema)
    };
    of(&merge.source_alias, &merge.schema)?.join(&of(&merge.target_alias, table)?)
}
