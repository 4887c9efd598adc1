//! Several queries, several runs, and other writers on one table.

use crate::table::{drive, load, memory, numbers, opened, publish, read_numbers, spec};
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use datafusion::prelude::SessionContext;
use deltalake::kernel::Transaction;
use deltalake::kernel::transaction::CommitProperties;
use fluvial_core::{BatchId, CommitOutcome, Note, OutputMode, Sink};
use fluvial_delta::{DeltaOptions, DeltaSink, TableLocation};
use futures::TryStreamExt;
use object_store::local::LocalFileSystem;
use std::sync::Arc;

/// Trap D1.
#[test]
fn a_replayed_batch_makes_no_version() {
    let store = memory();
    drive(async {
        let (sink, _) = opened(&store, "q", OutputMode::Append, &numbers(&[])).await;
        for batch in 0..3 {
            publish(&sink, batch, &numbers(&[batch as i64])).await.unwrap();
        }
        let version = load(&store).await.version();
        let (again, last) = opened(&store, "q", OutputMode::Append, &numbers(&[])).await;
        assert_eq!(last, Some(BatchId(2)));
        let outcome = publish(&again, 2, &numbers(&[7])).await.unwrap();
        assert_eq!(outcome, CommitOutcome::AlreadyCommitted(Some(Note("note 2".into()))));
        assert_eq!(
            publish(&again, 1, &numbers(&[7])).await.unwrap(),
            CommitOutcome::AlreadyCommitted(None)
        );
        assert_eq!(load(&store).await.version(), version);
        assert_eq!(read_numbers(&store).await, [0, 1, 2]);
    });
}

/// Trap D3.
#[test]
fn the_log_names_query_batch_and_note() {
    let store = memory();
    drive(async {
        let (sink, _) = opened(&store, "q", OutputMode::Append, &numbers(&[])).await;
        publish(&sink, 0, &numbers(&[1, 2])).await.unwrap();
        let table = load(&store).await;
        let version = table.snapshot().unwrap();
        assert_eq!(
            version.transaction_version(&table.log_store(), "q/out").await.unwrap(),
            Some(0)
        );
        let history: Vec<_> = table.history(Some(1)).try_collect().await.unwrap();
        let info = &history[0];
        assert_eq!(info.operation.as_deref(), Some("STREAMING UPDATE"));
        assert_eq!(info.is_blind_append, Some(true));
        assert_eq!(info.info["fluvial"]["note"], "note 0");
        assert_eq!(info.info["operationMetrics"]["numOutputRows"], "2");
    });
}

#[test]
fn other_writers_may_come_between() {
    let store = memory();
    drive(async {
        let (sink, _) = opened(&store, "q", OutputMode::Append, &numbers(&[])).await;
        publish(&sink, 0, &numbers(&[1])).await.unwrap();
        for foreign in [10, 11] {
            load(&store).await.write([numbers(&[foreign])]).await.unwrap();
        }
        publish(&sink, 1, &numbers(&[2])).await.unwrap();
        assert_eq!(read_numbers(&store).await, [1, 2, 10, 11]);
    });
}

#[test]
fn a_batch_recorded_by_another_writer_of_the_query_counts() {
    let store = memory();
    drive(async {
        let (sink, _) = opened(&store, "q", OutputMode::Append, &numbers(&[])).await;
        let txn =
            CommitProperties::default().with_application_transaction(Transaction::new("q/out", 30));
        load(&store).await.write([numbers(&[5])]).with_commit_properties(txn).await.unwrap();
        for batch in [29, 30] {
            let outcome = publish(&sink, batch, &numbers(&[7])).await.unwrap();
            assert_eq!(outcome, CommitOutcome::AlreadyCommitted(None), "batch {batch}");
        }
        assert_eq!(publish(&sink, 31, &numbers(&[6])).await.unwrap(), CommitOutcome::Committed);
        assert_eq!(read_numbers(&store).await, [5, 6]);
    });
}

#[test]
fn complete_mode_replaces_what_others_added() {
    let store = memory();
    drive(async {
        let (sink, _) = opened(&store, "q", OutputMode::Complete, &numbers(&[])).await;
        publish(&sink, 0, &numbers(&[1])).await.unwrap();
        load(&store).await.write([numbers(&[10])]).await.unwrap();
        publish(&sink, 1, &numbers(&[2, 3])).await.unwrap();
        assert_eq!(read_numbers(&store).await, [2, 3]);
        publish(&sink, 2, &numbers(&[])).await.unwrap();
        assert_eq!(read_numbers(&store).await, [0_i64; 0]);
    });
}

#[test]
fn a_new_query_on_rows_of_others_is_warned_of() {
    let store = memory();
    drive(async {
        let (first, _) = opened(&store, "first", OutputMode::Append, &numbers(&[])).await;
        publish(&first, 0, &numbers(&[1])).await.unwrap();
        assert!(first.warnings().is_empty());
        let (second, last) = opened(&store, "second", OutputMode::Append, &numbers(&[])).await;
        assert_eq!(last, None);
        assert!(second.warnings()[0].contains("query second is new"), "{:?}", second.warnings());
        let (again, _) = opened(&store, "first", OutputMode::Append, &numbers(&[])).await;
        assert!(again.warnings().is_empty());
    });
}

#[test]
fn a_writer_that_slept_past_a_cleanup_is_stopped() {
    let store = memory();
    drive(async {
        let (sleeper, _) = opened(&store, "q", OutputMode::Append, &numbers(&[])).await;
        let (other, _) = opened(&store, "other", OutputMode::Append, &numbers(&[])).await;
        for batch in 0..3 {
            publish(&other, batch, &numbers(&[1])).await.unwrap();
        }
        let table = load(&store).await;
        deltalake::checkpoints::create_checkpoint(&table, None).await.unwrap();
        for version in 0..3 {
            let path = format!("warehouse/table/_delta_log/{version:020}.json");
            object_store::ObjectStoreExt::delete(store.as_ref(), &path.into()).await.unwrap();
        }
        let error = publish(&sleeper, 0, &numbers(&[9])).await.unwrap_err();
        assert_eq!(error.kind(), fluvial_core::ErrorKind::Fenced, "{error}");
        assert_eq!(read_numbers(&store).await, [1, 1, 1]);
    });
}

#[test]
fn local_folders_are_tables_too() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("a table");
    let location = TableLocation::parse(place.to_str().unwrap()).unwrap();
    // The library's own store first, then one that was passed in, whose root is `/`.
    for (batch, location) in
        [location.clone(), location.with_store(Arc::new(LocalFileSystem::new()))].iter().enumerate()
    {
        drive(async {
            let sink = DeltaSink::new(location.clone(), DeltaOptions::default());
            let rows = numbers(&[1, 2]);
            let last = sink.open(&spec("q", OutputMode::Append, rows.schema())).await.unwrap();
            assert_eq!(last.map_or(0, |last| last.0 as usize + 1), batch);
            publish(&sink, batch as u64, &rows).await.unwrap();
            let provider =
                fluvial_delta::table_provider(location, Default::default()).await.unwrap();
            let session = SessionContext::new();
            session.register_table("t", provider).unwrap();
            let query = "SELECT sum(value) AS s FROM t";
            let sum = session.sql(query).await.unwrap().collect().await.unwrap();
            let sum = sum[0].column(0).as_primitive::<Int64Type>().value(0);
            assert_eq!(sum, 3 * (batch as i64 + 1));
        });
    }
}
