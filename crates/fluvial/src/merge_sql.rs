//! `MERGE INTO` in SQL.

use crate::delta_table::DeltaTable;
use crate::merge::{Action, Clause};
use crate::script;
use crate::session::Session;
use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::dataframe::DataFrame;
use fluvial_core::Result;
use fluvial_datafusion::sql::{MergeInto, MergeIntoAction, MergeSource, RowMatch};
use fluvial_delta::MergeWhen;
use std::sync::Arc;

/// Runs it; one row with the numbers of rows, as in Spark.
///
/// Inside of `foreach_batch` a statement happens once for each batch. Two of the same text count
/// as two, in the order in which they are run.
pub(crate) async fn merge_into(session: &Session, merge: &MergeInto) -> Result<DataFrame> {
    let source = match &merge.source {
        MergeSource::Table(name) => session.table(&name.to_string()).await?,
        MergeSource::Query(query) => script::plan(session, query).await?,
    };
    let table = DeltaTable::for_parts(session, merge.target.parts()).await?;
    let table = table.alias(&merge.target_alias);
    let mut builder = table.merge(source, &merge.condition).source_alias(&merge.source_alias);
    if merge.evolve_schema {
        builder = builder.with_schema_evolution();
    }
    for clause in &merge.clauses {
        let when = match clause.when {
            RowMatch::Matched => MergeWhen::Matched,
            RowMatch::NotMatched => MergeWhen::NotMatched,
            RowMatch::NotMatchedBySource => MergeWhen::NotMatchedBySource,
        };
        let action = match clause.action.clone() {
            MergeIntoAction::Delete => Action::Delete,
            MergeIntoAction::UpdateAll => Action::UpdateAll,
            MergeIntoAction::Update(values) => Action::Update(values),
            MergeIntoAction::InsertAll => Action::InsertAll,
            MergeIntoAction::Insert(values) => Action::Insert(values),
        };
        builder = builder.clause(Clause { when, condition: clause.condition.clone(), action });
    }
    if let Ok(batch) = session.batch() {
        let text = format!("{} {} {:?}", merge.target, merge.condition, merge.clauses);
        let name = format!("merge-{:08x}", crc32fast::hash(text.as_bytes()));
        builder = builder.exactly_once(batch.numbered(&name));
    }
    let report = builder.execute().await?.unwrap_or_default();
    let number = |rows: u64| -> ArrayRef {
        Arc::new(Int64Array::from(vec![i64::try_from(rows).unwrap_or(i64::MAX)]))
    };
    let affected = report.inserted + report.updated + report.deleted;
    let row = RecordBatch::try_from_iter([
        ("num_affected_rows", number(affected)),
        ("num_updated_rows", number(report.updated)),
        ("num_deleted_rows", number(report.deleted)),
        ("num_inserted_rows", number(report.inserted)),
    ])?;
    session.create_dataframe(vec![row])
}
