//! Customers that change: the newest state of each, and the history of each, by MERGE.
//!
//! ```text
//! cargo run -p fluvial --example slowly_changing
//! ```
//!
//! Changes come in batches, in any order, some late and some twice; customers are deleted and come
//! back. Each table below is kept by one MERGE for each batch, and is the same in the end whatever
//! order and batches the changes come in, as long as no two of a customer have the same time.
//!
//! Deletes stay in the tables as rows that are `gone`: a change that comes after them and is older
//! must not bring a customer back. Readers leave them out.

use fluvial::prelude::*;
use fluvial::{DeltaTable, Result};

/// The columns of the tables.
const NEWEST: &str = "id INT, name STRING, city STRING, at INT, gone BOOLEAN";
const HISTORY: &str = "id INT, name STRING, city STRING, since INT, until INT, gone BOOLEAN";

/// Type 1: the newest state of each customer. `changes` is the batch.
pub(crate) const TYPE_1: &str = "
    MERGE INTO customers AS t USING (
      SELECT id, name, city, at, op = 'delete' AS gone FROM (
        SELECT *, row_number() OVER (PARTITION BY id ORDER BY at DESC) AS n FROM changes
      ) WHERE n = 1
    ) AS s ON t.id = s.id
    WHEN MATCHED AND s.at > t.at THEN UPDATE SET *
    WHEN NOT MATCHED THEN INSERT *";

/// Type 2: every state of each customer, with the time from which and until which it held. The
/// history of the customers of a batch is put together anew, so that a late change finds its place
/// between others, and ends the state before it.
pub(crate) const TYPE_2: &str = "
    MERGE INTO history AS t USING (
      SELECT id, name, city, since, gone,
             lead(since) OVER (PARTITION BY id ORDER BY since) AS until
      FROM (
        SELECT *, row_number() OVER (PARTITION BY id, since ORDER BY fresh DESC) AS n FROM (
          SELECT id, name, city, at AS since, op = 'delete' AS gone, 1 AS fresh FROM changes
          UNION ALL
          SELECT h.id, h.name, h.city, h.since, h.gone, 0 AS fresh
          FROM history AS h LEFT SEMI JOIN changes AS c ON h.id = c.id
        )
      ) WHERE n = 1
    ) AS s ON t.id = s.id AND t.since = s.since
    WHEN MATCHED THEN UPDATE SET *
    WHEN NOT MATCHED THEN INSERT *";

/// What readers see of both.
pub(crate) const CUSTOMERS: &str =
    "SELECT id, name, city FROM customers WHERE NOT gone ORDER BY id";
pub(crate) const STATES: &str =
    "SELECT id, name, city, since, until FROM history WHERE NOT gone ORDER BY id, since";

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let session = Session::builder().base_dir(folder.path()).build()?;
    for changes in [
        "(1, 'Ada', 'Bern', 'upsert', 10), (2, 'Bob', 'Rome', 'upsert', 10)",
        "(1, 'Ada', 'Oslo', 'upsert', 30), (2, NULL, NULL, 'delete', 20)",
        // Late: where Ada lived in between, and a change of Bob from before he went.
        "(1, 'Ada', 'Kyiv', 'upsert', 20), (2, 'Bob', 'Riga', 'upsert', 15)",
    ] {
        arrive(&session, changes).await?;
        keep(&session).await?;
    }
    session.sql(CUSTOMERS).await?.show().await?;
    session.sql(STATES).await?.show().await?;
    Ok(())
}

/// Changes come: id, name, city, what happened, and when.
pub(crate) async fn arrive(session: &Session, changes: &str) -> Result<()> {
    let rows = format!(
        "SELECT CAST(id AS INT) AS id, CAST(name AS STRING) AS name, CAST(city AS STRING) AS city,
                op, CAST(at AS INT) AS at
         FROM (VALUES {changes}) AS v(id, name, city, op, at)"
    );
    session.sql(&rows).await?.write()?.save_as_table("feed").await
}

/// Takes what has come by now into both tables.
pub(crate) async fn keep(session: &Session) -> Result<()> {
    DeltaTable::create_named_if_not_exists(session, "customers", NEWEST, &[]).await?;
    DeltaTable::create_named_if_not_exists(session, "history", HISTORY, &[]).await?;
    let query = session
        .read_stream()
        .option("maxFilesPerTrigger", 1)
        .table("feed")
        .await?
        .write_stream()?
        .foreach_batch(|changes, _| async move {
            changes.create_or_replace_temp_view("changes")?;
            let session = changes.session()?;
            session.sql(TYPE_1).await?;
            session.sql(TYPE_2).await?;
            Ok(())
        })
        .option("checkpointLocation", "checkpoints/customers")
        .trigger(Trigger::AvailableNow)
        .start()
        .await?;
    query.await_termination().await
}
