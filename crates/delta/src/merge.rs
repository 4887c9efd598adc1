//! MERGE: the rows of a source change, remove and add rows of a table, in one version.
//!
//! The library plans and commits it. Here are what it leaves to its caller: a batch that comes
//! again, other writers that came between, and errors that say what to do.

use crate::commit::newest_batch;
use crate::create::add_columns;
use crate::error::{about_values, delta_error, store_error};
use crate::location::TableLocation;
use crate::merge_arithmetic;
use crate::merge_evolution::new_columns;
use crate::merge_rules::check_merged;
use crate::provider::no_table;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Column;
use datafusion::datasource::MemTable;
use datafusion::logical_expr::Expr;
use datafusion::prelude::SessionContext;
use deltalake::kernel::Transaction;
use deltalake::kernel::transaction::{CommitProperties, TransactionError};
use deltalake::operations::merge::MergeBuilder;
use deltalake::{DeltaTable, DeltaTableError};
use fluvial_core::{BatchId, Error, ErrorKind, Result};
use std::sync::Arc;

/// So often a merge is done anew because others changed what it had read.
const ATTEMPTS_MAX: usize = 20;

/// What a MERGE does. Names in expressions are qualified by the two aliases.
#[derive(Debug, Clone)]
pub struct Merge {
    /// The rows that come in.
    pub source: Vec<RecordBatch>,
    /// Their columns.
    pub schema: SchemaRef,
    /// What the source is called in expressions.
    pub source_alias: String,
    /// What the table is called in expressions.
    pub target_alias: String,
    /// Which rows of both belong together.
    pub condition: Expr,
    /// What happens, the first clause that fits a row.
    pub clauses: Vec<MergeClause>,
    /// Whether columns that clauses name and the table lacks are added to it.
    pub evolve_schema: bool,
    /// Makes the merge happen once, however often it is tried.
    pub transaction: Option<MergeTransaction>,
}

/// One WHEN.
#[derive(Debug, Clone)]
pub struct MergeClause {
    /// For which rows.
    pub when: MergeWhen,
    /// What has to hold besides.
    pub condition: Option<Expr>,
    /// What happens to them.
    pub action: MergeAction,
}

/// For which rows a clause is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeWhen {
    /// Rows of both that belong together.
    Matched,
    /// Rows of the source that belong to no row of the table.
    NotMatched,
    /// Rows of the table that belong to no row of the source.
    NotMatchedBySource,
}

/// What happens to the rows of a clause. Columns are the table's.
#[derive(Debug, Clone)]
pub enum MergeAction {
    /// The row of the table goes.
    Delete,
    /// The row of the table gets these values.
    Update(Vec<(String, Expr)>),
    /// A row with these values, and nulls elsewhere, comes into the table.
    Insert(Vec<(String, Expr)>),
}

/// Names an attempt: of two with the same application, the one with the lower or the same version
/// does nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeTransaction {
    /// Who: the same name for every try, another one for every other place that writes.
    pub app: String,
    /// What: grows from one to the next.
    pub version: u64,
}

/// What a MERGE did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MergeReport {
    /// Rows that were added.
    pub inserted: u64,
    /// Rows that were changed.
    pub updated: u64,
    /// Rows that were removed.
    pub deleted: u64,
}

/// The columns of a table as it is now.
///
/// # Errors
///
/// `NotFound` if there is none.
pub async fn table_schema(location: &TableLocation) -> Result<SchemaRef> {
    let table = location.load().await?.ok_or_else(|| no_table(location))?;
    let state = table.snapshot().map_err(delta_error)?;
    Ok(state.snapshot().arrow_schema())
}

/// Does a merge; `None` if it was done before. Others may write meanwhile: what they change makes
/// it start over.
///
/// # Errors
///
/// `NotFound` if there is no table, `Invalid`
/// (`DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE`) if several rows of the source would
/// change one row, or for what an expression refuses.
pub async fn merge(location: &TableLocation, merge: &Merge) -> Result<Option<MergeReport>> {
    let place = |e: Error| e.at(format!("table {location}"));
    for _ in 0..ATTEMPTS_MAX {
        let table = location.load().await?.ok_or_else(|| no_table(location))?;
        if let Some(transaction) = &merge.transaction {
            let last = newest_batch(&table, &transaction.app).await.map_err(place)?;
            if last >= Some(BatchId(transaction.version)) {
                return Ok(None);
            }
        }
        check_merged(&table).map_err(place)?;
        if merge.evolve_schema && evolve(&table, merge).await.map_err(place)? {
            continue;
        }
        match attempt(table, merge).await {
            Ok(report) => return Ok(Some(report)),
            Err(Failure::Conflict) => {}
            Err(Failure::Error(error)) => return Err(place(error)),
        }
    }
    Err(Error::unavailable(format!(
        "table {location}: the merge was done {ATTEMPTS_MAX} times, and each time others had \
         changed what it read: try again when fewer write"
    )))
}

/// Adds the columns that the merge brings along, in a version of their own; whether the table is to
/// be loaded again.
async fn evolve(table: &DeltaTable, merge: &Merge) -> Result<bool> {
    let state = table.snapshot().map_err(delta_error)?;
    let new = new_columns(merge, &state.snapshot().arrow_schema())?;
    if new.is_empty() {
        return Ok(false);
    }
    match add_columns(table.clone(), &new).await {
        Err(error) if error.kind() != ErrorKind::Unavailable => Err(error),
        // Added, or somebody else changed the table, or we do not know: look again.
        _ => Ok(true),
    }
}

enum Failure {
    /// Somebody else changed what was read.
    Conflict,
    Error(Error),
}

impl From<DeltaTableError> for Failure {
    fn from(error: DeltaTableError) -> Self {
        if let DeltaTableError::Transaction { source } = &error
            && matches!(
                source,
                TransactionError::CommitConflict(_) | TransactionError::MaxCommitAttempts(_)
            )
        {
            return Self::Conflict;
        }
        let text = error.to_string();
        if text.contains("MERGE matched a target row with multiple source rows") {
            return Self::Error(
                Error::invalid(
                    "several rows of the source match one row of the table, and it cannot be said \
                     which of them counts: keep one row for each key, for instance the last one, \
                     with row_number() OVER (PARTITION BY key ORDER BY time DESC) = 1",
                )
                .with_condition("DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE")
                .with_source(error),
            );
        }
        if let Some((_, what)) = text.split_once("Invalid data found: ") {
            // The library says which rows, not which constraint.
            return Self::Error(
                Error::invalid(format!(
                    "rows that the merge writes violate a constraint of the table (CHECK, NOT NULL \
                     or a computed column): {what}"
                ))
                .with_condition("DELTA_VIOLATE_CONSTRAINT_WITH_VALUES")
                .with_source(error),
            );
        }
        if let Some((_, what)) = text.split_once("Cast error: ") {
            return Self::Error(
                Error::invalid(format!("a value does not fit into its column: {what}"))
                    .with_condition("CAST_OVERFLOW_IN_TABLE_INSERT")
                    .with_source(error),
            );
        }
        // What the store says may pass. The rest is about expressions and values.
        let ours = delta_error(error);
        Self::Error(match about_values(ours.message()) {
            _ if store_error(&ours).is_some() => ours,
            error if error.condition().is_some() => error,
            error if ours.kind() == ErrorKind::Unavailable => error,
            _ => ours,
        })
    }
}

async fn attempt(table: DeltaTable, merge: &Merge) -> Result<MergeReport, Failure> {
    let invalid = |e: datafusion::error::DataFusionError| {
        Failure::Error(Error::invalid(format!("the source of the merge: {e}")))
    };
    let rows = MemTable::try_new(merge.schema.clone(), vec![merge.source.clone()]);
    let rows = rows.map_err(invalid)?;
    let source = SessionContext::new().read_table(Arc::new(rows)).map_err(invalid)?;
    let session = merge_arithmetic::session().map_err(DeltaTableError::from)?;
    let mut builder = table
        .merge(source, merge.condition.clone())
        .with_session_state(Arc::new(session))
        .with_source_alias(&merge.source_alias)
        .with_target_alias(&merge.target_alias);
    for clause in &merge.clauses {
        builder = with_clause(builder, clause)?;
    }
    if let Some(MergeTransaction { app, version }) = &merge.transaction {
        let version = i64::try_from(*version).map_err(|_| {
            Failure::Error(Error::invalid(format!("{version} does not fit into a Delta log")))
        })?;
        let transaction = Transaction::new(app, version);
        let properties = CommitProperties::default().with_application_transaction(transaction);
        builder = builder.with_commit_properties(properties);
    }
    let (_, metrics) = builder.await?;
    Ok(MergeReport {
        inserted: metrics.num_target_rows_inserted as u64,
        updated: metrics.num_target_rows_updated as u64,
        deleted: metrics.num_target_rows_deleted as u64,
    })
}

fn with_clause(builder: MergeBuilder, clause: &MergeClause) -> Result<MergeBuilder, Failure> {
    let MergeClause { when, condition, action } = clause;
    let builder = match (when, action) {
        (MergeWhen::Matched, MergeAction::Update(values)) => {
            builder.when_matched_update(|update| {
                let update = condition.iter().fold(update, |u, c| u.predicate(c.clone()));
                values.iter().fold(update, |u, (name, value)| u.update(column(name), value.clone()))
            })?
        }
        (MergeWhen::Matched, MergeAction::Delete) => builder.when_matched_delete(|delete| {
            condition.iter().fold(delete, |d, c| d.predicate(c.clone()))
        })?,
        (MergeWhen::NotMatched, MergeAction::Insert(values)) => {
            builder.when_not_matched_insert(|insert| {
                let insert = condition.iter().fold(insert, |i, c| i.predicate(c.clone()));
                values.iter().fold(insert, |i, (name, value)| i.set(column(name), value.clone()))
            })?
        }
        (MergeWhen::NotMatchedBySource, MergeAction::Update(values)) => builder
            .when_not_matched_by_source_update(|update| {
                let update = condition.iter().fold(update, |u, c| u.predicate(c.clone()));
                values.iter().fold(update, |u, (name, value)| u.update(column(name), value.clone()))
            })?,
        (MergeWhen::NotMatchedBySource, MergeAction::Delete) => builder
            .when_not_matched_by_source_delete(|delete| {
                condition.iter().fold(delete, |d, c| d.predicate(c.clone()))
            })?,
        (MergeWhen::NotMatched, _) => {
            return Err(Failure::Error(Error::invalid(
                "WHEN NOT MATCHED adds a row: its action is INSERT",
            )));
        }
        (_, MergeAction::Insert(_)) => {
            return Err(Failure::Error(Error::invalid(
                "only WHEN NOT MATCHED adds a row: use UPDATE or DELETE",
            )));
        }
    };
    Ok(builder)
}

fn column(name: &str) -> Column {
    Column::new_unqualified(name)
}
