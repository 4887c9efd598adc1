//! What Spark wrote and reported, in `tests/golden`, and what we did, in the same form.

use fluvial::Session;
use fluvial::arrow::array::RecordBatch;
use fluvial::arrow::util::display::{ArrayFormatter, FormatOptions};
use fluvial::datafusion::prelude::ParquetReadOptions;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A recorded file of a job.
pub(crate) fn recorded(job: &str, file: &str) -> Value {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fluvial/tests/golden");
    serde_json::from_slice(&fs::read(golden.join(job).join(file)).unwrap()).unwrap()
}

/// Recorded rows as text, in order.
pub(crate) fn rows(recorded: &Value, columns: &[&str]) -> Vec<Vec<String>> {
    let cell = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let row = |row: &Value| columns.iter().map(|column| cell(&row[column])).collect();
    sorted(recorded.as_array().unwrap().iter().map(row).collect())
}

/// What must be the same in a progress record of Spark and in ours.
pub(crate) fn essence(progress: &Value) -> Value {
    let pick = |value: &Value, names: &[&str]| -> Value {
        names.iter().map(|name| ((*name).to_owned(), value[name].clone())).collect()
    };
    let each = |list: &Value, names: &[&str]| -> Value {
        list.as_array().unwrap().iter().map(|value| pick(value, names)).collect()
    };
    let state = [
        "operatorName",
        "numRowsTotal",
        "numRowsUpdated",
        "numRowsRemoved",
        "numRowsDroppedByWatermark",
    ];
    json!({
        "batch": pick(progress, &["batchId", "numInputRows", "eventTime"]),
        "state": each(&progress["stateOperators"], &state),
        "sources": each(&progress["sources"], &["startOffset", "endOffset", "numInputRows"]),
    })
}

/// The records of batches that ran, without those that say that there was nothing to do.
pub(crate) fn batches<'a>(progress: impl IntoIterator<Item = &'a Value>) -> Vec<Value> {
    let ran = |progress: &&Value| !progress["stateOperators"].as_array().unwrap().is_empty();
    progress.into_iter().filter(ran).map(essence).collect()
}

/// The rows that each batch added to a Delta table, by its log: `select` reads them from `batch`.
/// Each batch is one version, with one `txn`.
pub(crate) async fn delta_batches(table: &Path, select: &str) -> BTreeMap<u64, Vec<Vec<String>>> {
    let session = Session::new().unwrap();
    let mut found = BTreeMap::new();
    for version in versions(table) {
        let txn: Vec<&Value> = version.iter().filter_map(|action| action.get("txn")).collect();
        let added: Vec<&Value> = version.iter().filter_map(|action| action.get("add")).collect();
        if txn.is_empty() {
            assert!(added.is_empty(), "rows without a txn: {version:?}");
            continue;
        }
        assert_eq!(txn.len(), 1, "{version:?}");
        let mut rows = Vec::new();
        for file in added {
            let file = table.join(file["path"].as_str().unwrap());
            rows.extend(file_rows(&session, &file, select).await);
        }
        let batch = txn[0]["version"].as_u64().unwrap();
        assert!(found.insert(batch, sorted(rows)).is_none(), "batch {batch} was published twice");
    }
    found
}

/// The actions of each version of a Delta table.
fn versions(table: &Path) -> Vec<Vec<Value>> {
    let mut files: Vec<_> = fs::read_dir(table.join("_delta_log"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .collect();
    files.sort();
    let actions = |text: String| text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    files.iter().map(|file| actions(fs::read_to_string(file).unwrap())).collect()
}

async fn file_rows(session: &Session, file: &Path, select: &str) -> Vec<Vec<String>> {
    let context = session.context();
    let options = ParquetReadOptions::default();
    let rows = context.read_parquet(file.to_str().unwrap(), options).await.unwrap();
    context.deregister_table("batch").unwrap();
    context.register_table("batch", rows.into_view()).unwrap();
    text(&session.sql(select).await.unwrap().collect().await.unwrap())
}

/// Rows as text.
pub(crate) fn text(batches: &[RecordBatch]) -> Vec<Vec<String>> {
    let options = FormatOptions::default();
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<_> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        let row = |row| columns.iter().map(|column| column.value(row).to_string()).collect();
        rows.extend((0..batch.num_rows()).map(row));
    }
    rows
}

fn sorted(mut rows: Vec<Vec<String>>) -> Vec<Vec<String>> {
    rows.sort();
    rows
}

/// The columns of the clickstream job's golden rows, and a SELECT of them.
pub(crate) const CLICKSTREAM: [&str; 5] = ["start", "end", "page", "views", "total_duration_s"];
pub(crate) const CLICKSTREAM_ROWS: &str = "SELECT date_format(w.start, 'yyyy-MM-dd HH:mm:ss'), \
     date_format(w.end, 'yyyy-MM-dd HH:mm:ss'), page, views, total_duration_s FROM batch";
