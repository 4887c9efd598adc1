//! `foreach_batch` with DataFrames, and MERGE: by SQL, by the builder, again after failures.

use crate::golden::text;
use fluvial::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use fluvial::prelude::*;
use fluvial::{BatchId, DeltaTable, Error};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempDir;

fn session(folder: &Path) -> Session {
    Session::builder().base_dir(folder).warehouse("house").build().unwrap()
}

fn rows(rows: &[(i64, &str, i64)]) -> RecordBatch {
    let columns: [(&str, ArrayRef); 3] = [
        ("id", Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0)))),
        ("status", Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.1)))),
        ("at", Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.2)))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

async fn save(session: &Session, table: &str, values: &[(i64, &str, i64)]) {
    let frame = session.create_dataframe(vec![rows(values)]).unwrap();
    frame.write().unwrap().save_as_table(table).await.unwrap();
}

async fn sql(session: &Session, query: &str) -> Vec<Vec<String>> {
    text(&session.sql(query).await.unwrap().collect().await.unwrap())
}

/// Reads what is new in `events`, and calls `callback` with each batch.
async fn each_batch<F, Fut>(session: &Session, callback: F) -> fluvial::Result<()>
where
    F: Fn(DataFrame, BatchId) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = fluvial::Result<()>> + Send + 'static,
{
    let events = session.read_stream().option("maxFilesPerTrigger", 1).table("events").await?;
    let writer = events.write_stream()?.foreach_batch(callback);
    let writer = writer.option("checkpointLocation", "cp").trigger(Trigger::AvailableNow);
    writer.start().await?.await_termination().await
}

const LATEST: &str = "
    MERGE INTO users AS t USING (
      SELECT id, status, at FROM (
        SELECT *, row_number() OVER (PARTITION BY id ORDER BY at DESC) AS n FROM updates
      ) WHERE n = 1
    ) AS s ON t.id = s.id
    WHEN MATCHED AND s.at > t.at THEN UPDATE SET *
    WHEN NOT MATCHED THEN INSERT *";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_latest_status_of_each_user_is_merged_batch_by_batch() {
    let folder = TempDir::new().unwrap();
    for (values, expected) in [
        (&[(1, "new", 1), (2, "new", 1), (1, "paid", 3)][..], [["1", "paid"], ["2", "new"]]),
        // One comes late, one twice.
        (&[(1, "old", 2), (2, "open", 4), (2, "shut", 5)], [["1", "paid"], ["2", "shut"]]),
    ] {
        let session = session(folder.path());
        save(&session, "events", values).await;
        let users = "house/default/users";
        let columns = "id BIGINT, status STRING, at BIGINT";
        DeltaTable::create_if_not_exists(&session, users, columns, &[]).await.unwrap();
        let merged = each_batch(&session, |updates, _| async move {
            updates.create_or_replace_temp_view("updates")?;
            let merge = LATEST.replace("INTO users", "INTO delta.`house/default/users`");
            updates.session()?.sql(&merge).await.map(drop)
        });
        merged.await.unwrap();
        let query = "SELECT id, status FROM delta.`house/default/users` ORDER BY id";
        assert_eq!(sql(&session, query).await, expected);
        assert!(session.sql("SELECT * FROM updates").await.is_err(), "views end with their batch");
    }
}

/// Traps D1, D3 and D16.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_comes_again_is_merged_and_written_once() {
    let folder = TempDir::new().unwrap();
    let session = session(folder.path());
    save(&session, "events", &[(1, "a", 10), (2, "b", 20)]).await;
    save(&session, "totals", &[(1, "a", 1)]).await;
    let tries = Arc::new(AtomicU64::new(0));
    let count = tries.clone();
    let merged = each_batch(&session, move |rows, _| {
        let count = count.clone();
        async move {
            rows.create_or_replace_temp_view("rows")?;
            let session = rows.session()?;
            let merge = "MERGE INTO totals AS t USING rows AS s ON t.id = s.id
                WHEN MATCHED THEN UPDATE SET at = t.at + s.at WHEN NOT MATCHED THEN INSERT *";
            // The same statement counts twice, also when the batch comes again.
            session.sql(merge).await?;
            session.sql(merge).await?;
            let audit = rows.clone().write()?.exactly_once("audit");
            audit.save_as_table("audit").await?;
            match count.fetch_add(1, Ordering::Relaxed) {
                0 => Err(Error::unavailable("something else is away")),
                _ => Ok(()),
            }
        }
    });
    merged.await.unwrap();
    assert!(tries.load(Ordering::Relaxed) >= 2);
    let totals = sql(&session, "SELECT id, at FROM totals ORDER BY id").await;
    assert_eq!(totals, [["1", "21"], ["2", "40"]]);
    assert_eq!(sql(&session, "SELECT count(*) FROM audit").await, [["2"]]);
}

/// Trap D25.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_rows_for_one_are_an_error_and_many_rows_are_not() {
    let folder = TempDir::new().unwrap();
    let session = session(folder.path());
    save(&session, "users", &[(1, "x", 0), (2, "y", 0)]).await;
    let table = DeltaTable::for_name(&session, "users").await.unwrap().alias("t");
    let source = |values: &[(i64, &str, i64)]| {
        session.create_dataframe(vec![rows(values)]).unwrap().alias("s").unwrap()
    };
    let twice = table.merge(source(&[(1, "a", 1), (1, "b", 2), (2, "c", 3)]), "t.id = s.id");
    let error = twice.when_matched().update_all().execute().await.unwrap_err();
    let condition = "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE";
    assert_eq!(error.condition(), Some(condition), "{error}");
    let query = "SELECT id, status FROM users ORDER BY id";
    assert_eq!(sql(&session, query).await, [["1", "x"], ["2", "y"]]);

    let many: Vec<_> = (10..20_010).map(|id| (id, "n", id)).collect();
    save(&session, "users", &many).await;
    let all = table.to_df().await.unwrap();
    let merge = table.merge(all, "t.id = source.id").source_alias("source");
    let report = merge.when_matched().update([("status", "'m'")]).execute().await.unwrap();
    assert_eq!(report.unwrap().updated, 20_002);
    let query = "SELECT count(*) FROM users WHERE status = 'm'";
    assert_eq!(sql(&session, query).await, [["20002"]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_clause_does_what_it_says() {
    let folder = TempDir::new().unwrap();
    let session = session(folder.path());
    save(&session, "users", &[(1, "keep", 1), (2, "go", 1), (3, "alone", 1), (4, "lost", 1)]).await;
    let table = DeltaTable::for_name(&session, "users").await.unwrap().alias("t");
    let source = [(1, "newer", 2), (2, "deleted", 2), (5, "added", 2), (6, "skipped", 0)];
    let source = session.create_dataframe(vec![rows(&source)]).unwrap();
    let report = table
        .merge(source.alias("s").unwrap(), "t.id = s.id")
        .when_matched()
        .and("s.status = 'deleted'")
        .delete()
        .when_matched()
        .update([("status", "upper(s.status)"), ("t.at", "t.at + s.at")])
        .when_not_matched()
        .and("s.at > 0")
        .insert([("id", "s.id"), ("status", "s.status")])
        .when_not_matched_by_source()
        .and("t.status = 'lost'")
        .delete()
        .when_not_matched_by_source()
        .update([("at", "-1")])
        .execute()
        .await
        .unwrap()
        .unwrap();
    assert_eq!((report.inserted, report.updated, report.deleted), (1, 2, 2));
    let query = "SELECT id, status, coalesce(at, 0) FROM users ORDER BY id";
    let expected = [["1", "NEWER", "3"], ["3", "alone", "-1"], ["5", "added", "0"]];
    assert_eq!(sql(&session, query).await, expected);
}

/// Slowly changing dimensions of type 2: what was is kept, and ends where the new begins.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_history_is_kept_by_one_merge_for_each_batch() {
    let folder = TempDir::new().unwrap();
    let session = session(folder.path());
    let place = "house/default/history";
    let columns = "id BIGINT, status STRING, since BIGINT, until BIGINT";
    DeltaTable::create_if_not_exists(&session, place, columns, &[]).await.unwrap();
    save(&session, "events", &[(1, "new", 1), (2, "new", 1)]).await;
    save(&session, "events", &[(1, "paid", 5), (2, "gone", 6), (3, "new", 7)]).await;
    let merge = |updates: DataFrame, _| async move {
        updates.create_or_replace_temp_view("updates")?;
        let history = "MERGE INTO delta.`house/default/history` AS t USING (
              SELECT id AS key, id, status, at FROM updates
              UNION ALL
              SELECT NULL AS key, u.id, u.status, u.at FROM updates u
              JOIN delta.`house/default/history` h ON u.id = h.id
              WHERE h.until IS NULL AND u.status <> 'gone'
            ) AS s ON t.id = s.key AND t.until IS NULL
            WHEN MATCHED AND s.at > t.since THEN UPDATE SET until = s.at
            WHEN NOT MATCHED AND s.status <> 'gone' THEN
              INSERT (id, status, since) VALUES (s.id, s.status, s.at)";
        updates.session()?.sql(history).await.map(drop)
    };
    each_batch(&session, merge).await.unwrap();
    let query = "SELECT id, status, since, coalesce(until, 0)
        FROM delta.`house/default/history` ORDER BY id, since";
    let expected = [
        ["1", "new", "1", "5"],
        ["1", "paid", "5", "0"],
        ["2", "new", "1", "6"],
        ["3", "new", "7", "0"],
    ];
    assert_eq!(sql(&session, query).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn merges_at_the_same_time_are_all_there() {
    let folder = TempDir::new().unwrap();
    let session = session(folder.path());
    save(&session, "totals", &[(1, "a", 0)]).await;
    let one = |id: i64| {
        let session = session.clone();
        async move {
            let table = DeltaTable::for_name(&session, "totals").await?.alias("t");
            let source = session.create_dataframe(vec![rows(&[(1, "a", 1), (id, "b", 1)])])?;
            let merge = table.merge(source, "t.id = s.id").source_alias("s");
            let merge = merge.when_matched().update([("at", "t.at + s.at")]);
            merge.when_not_matched().insert_all().execute().await.map(drop)
        }
    };
    let all = tokio::join!(one(2), one(3), one(4));
    assert!(all.0.is_ok() && all.1.is_ok() && all.2.is_ok(), "{all:?}");
    let totals = sql(&session, "SELECT id, at FROM totals ORDER BY id").await;
    assert_eq!(totals, [["1", "3"], ["2", "1"], ["3", "1"], ["4", "1"]]);
}

#[tokio::test]
async fn what_cannot_be_merged_is_refused_by_name() {
    let folder = TempDir::new().unwrap();
    let session = session(folder.path());
    save(&session, "users", &[(1, "x", 0)]).await;
    save(&session, "other", &[(1, "x", 0)]).await;
    for (statement, condition) in [
        (
            "MERGE INTO nobody t USING other s ON t.id = s.id WHEN MATCHED THEN DELETE",
            "TABLE_OR_VIEW_NOT_FOUND",
        ),
        (
            "MERGE INTO users t USING other s ON t.id = s.id WHEN MATCHED THEN UPDATE SET x = 1",
            "DELTA_MERGE_UNRESOLVED_EXPRESSION",
        ),
        (
            "MERGE INTO users t USING (SELECT id FROM other) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
            "DELTA_MERGE_UNRESOLVED_EXPRESSION",
        ),
    ] {
        let error = session.sql(statement).await.unwrap_err();
        assert_eq!(error.condition(), Some(condition), "{error}");
    }
    let frame = session.create_dataframe(vec![rows(&[])]).unwrap();
    let outside = frame.write().unwrap().exactly_once("x").save("out").await.unwrap_err();
    assert!(outside.message().contains("foreach_batch"), "{outside}");
}

/// Trap D2.
#[tokio::test]
async fn writes_with_a_transaction_are_skipped_up_to_the_newest_version() {
    let folder = TempDir::new().unwrap();
    let session = session(folder.path());
    for (version, id) in [(29, 1), (29, 2), (28, 3), (30, 4)] {
        let frame = session.create_dataframe(vec![rows(&[(id, "x", 0)])]).unwrap();
        let writer = frame.write().unwrap().option("txnAppId", "A").option("txnVersion", version);
        writer.save("out").await.unwrap();
    }
    let rows = session.read().delta("out").await.unwrap();
    let rows = rows.sort_by(vec![col("id")]).unwrap().select_columns(&["id"]).unwrap();
    assert_eq!(text(&rows.collect().await.unwrap()), [["1"], ["4"]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_is_kept_in_shape_and_streams_do_not_notice() {
    let folder = TempDir::new().unwrap();
    let session = session(folder.path());
    for id in 1..=3 {
        save(&session, "events", &[(id, "x", id)]).await;
    }
    let seen = Arc::new(AtomicU64::new(0));
    let count = seen.clone();
    let counted = move |rows: DataFrame, _| {
        let count = count.clone();
        async move {
            let rows = rows.count().await.map_err(fluvial::from_datafusion)?;
            count.fetch_add(rows as u64, Ordering::Relaxed);
            Ok(())
        }
    };
    each_batch(&session, counted.clone()).await.unwrap();
    let table = DeltaTable::for_name(&session, "events").await.unwrap();
    let report = table.optimize().await.unwrap();
    assert_eq!((report.files_removed, report.files_added), (3, 1));
    each_batch(&session, counted).await.unwrap();
    assert_eq!(seen.load(Ordering::Relaxed), 3);
    let history = table.history(Some(2)).await.unwrap();
    let history = history.select_columns(&["version", "operation"]).unwrap();
    let history = text(&history.collect().await.unwrap());
    assert_eq!((history[0][0].as_str(), history[0][1].as_str()), ("4", "OPTIMIZE"));
    assert_eq!(history[1][0], "3");
    // A week has not gone by.
    assert!(table.vacuum(None, fluvial::VacuumMode::Remove).await.unwrap().is_empty());
    let short = std::time::Duration::from_secs(3600);
    let error = table.vacuum(Some(short), fluvial::VacuumMode::DryRun).await.unwrap_err();
    assert_eq!(error.condition(), Some("DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT"), "{error}");
}
