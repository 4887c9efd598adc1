//! Customers that change, by MERGE: upserts, and slowly changing dimensions of types 1 and 2 with
//! changes in any order, twice, and with deletes.

use crate::golden::text;
use crate::slowly_changing_example as example;
use fluvial::DeltaTable;
use fluvial::prelude::*;
use tempfile::TempDir;

async fn rows(session: &Session, query: &str) -> Vec<Vec<String>> {
    text(&session.sql(query).await.unwrap().collect().await.unwrap())
}

/// Changes of two customers, in the order in which they happened. The second goes and comes back.
const CHANGES: [&str; 6] = [
    "(1, 'Ada', 'Bern', 'upsert', 10)",
    "(2, 'Bob', 'Rome', 'upsert', 10)",
    "(2, NULL, NULL, 'delete', 20)",
    "(1, 'Ada', 'Kyiv', 'upsert', 20)",
    "(2, 'Bob', 'Riga', 'upsert', 30)",
    "(1, NULL, NULL, 'delete', 40)",
];

/// The two tables, after these batches.
async fn kept(batches: &[&[usize]]) -> [Vec<Vec<String>>; 2] {
    let folder = TempDir::new().unwrap();
    let session = Session::builder().base_dir(folder.path()).build().unwrap();
    for batch in batches {
        let changes: Vec<&str> = batch.iter().map(|change| CHANGES[*change]).collect();
        example::arrive(&session, &changes.join(", ")).await.unwrap();
    }
    example::keep(&session).await.unwrap();
    [rows(&session, example::CUSTOMERS).await, rows(&session, example::STATES).await]
}

/// Orders and batches of all changes; some come twice.
const ORDERS: [&[&[usize]]; 4] = [
    &[&[0, 1, 2, 3, 4, 5]],
    &[&[5, 4], &[3, 2], &[1, 0]],
    &[&[2, 5], &[0, 4], &[2, 3, 1]],
    &[&[5], &[3, 4, 1], &[0, 2], &[3, 0]],
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dimensions_of_type_1_keep_the_newest_state_whatever_order_changes_come_in() {
    for order in ORDERS {
        let [customers, _] = kept(order).await;
        assert_eq!(customers, [["2", "Bob", "Riga"]], "{order:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dimensions_of_type_2_keep_every_state_whatever_order_changes_come_in() {
    for order in ORDERS {
        let [_, states] = kept(order).await;
        let expected = [
            ["1", "Ada", "Bern", "10", "20"],
            ["1", "Ada", "Kyiv", "20", "40"],
            ["2", "Bob", "Rome", "10", "20"],
            ["2", "Bob", "Riga", "30", ""],
        ];
        assert_eq!(states, expected, "{order:?}");
    }
}

/// The newest row of each customer in the batch changes, adds or deletes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn customers_are_upserted_from_each_batch_and_deleted() {
    let folder = TempDir::new().unwrap();
    let session = Session::builder().base_dir(folder.path()).build().unwrap();
    let columns = "id INT, name STRING, city STRING";
    DeltaTable::create_named_if_not_exists(&session, "people", columns, &[]).await.unwrap();
    for (changes, expected) in [
        (
            "(1, 'Ada', 'Bern', 'upsert', 1), (2, 'Bob', 'Rome', 'upsert', 1),
             (1, 'Ada', 'Oslo', 'upsert', 2)",
            vec![["1", "Ada", "Oslo"], ["2", "Bob", "Rome"]],
        ),
        (
            "(2, NULL, NULL, 'delete', 3), (3, 'Cyd', 'Riga', 'upsert', 3),
             (4, NULL, NULL, 'delete', 3)",
            vec![["1", "Ada", "Oslo"], ["3", "Cyd", "Riga"]],
        ),
    ] {
        example::arrive(&session, changes).await.unwrap();
        let feed = session.read_stream().table("feed").await.unwrap();
        let writer = feed.write_stream().unwrap().foreach_batch(|changes, _| async move {
            changes.create_or_replace_temp_view("changes")?;
            let upsert = "
                MERGE INTO people AS t USING (
                  SELECT * FROM (
                    SELECT *, row_number() OVER (PARTITION BY id ORDER BY at DESC) AS n FROM changes
                  ) WHERE n = 1
                ) AS s ON t.id = s.id
                WHEN MATCHED AND s.op = 'delete' THEN DELETE
                WHEN MATCHED THEN UPDATE SET *
                WHEN NOT MATCHED AND s.op <> 'delete' THEN INSERT *";
            changes.session()?.sql(upsert).await.map(drop)
        });
        let writer = writer.option("checkpointLocation", "cp").trigger(Trigger::AvailableNow);
        writer.start().await.unwrap().await_termination().await.unwrap();
        assert_eq!(rows(&session, "SELECT * FROM people ORDER BY id").await, expected);
    }
}
