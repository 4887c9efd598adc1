//! Where the output of a query goes, and how to read it back.

use crate::query::Start;
use crate::world::{ROOT, World};
use fluvial::arrow::array::RecordBatch;
use fluvial::arrow::util::display::{ArrayFormatter, FormatOptions};
use fluvial::prelude::{Session, StreamingDataFrame};
use fluvial::{BatchId, DataStreamWriter, Error, ErrorKind, OutputMode, Result};
use fluvial_core::Sink;
use futures::future::BoxFuture;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::sync::Arc;

/// The folder of the output.
pub(crate) const FOLDER: &str = "output";

/// The name of the table in memory.
const TABLE: &str = "simulated";

type Open = dyn Fn(&Start) -> Arc<dyn Sink> + Send + Sync;
type Read = dyn Fn(Arc<dyn ObjectStore>) -> BoxFuture<'static, Result<Vec<String>>> + Send + Sync;

/// Where the output goes.
#[derive(Clone)]
pub enum Output {
    /// Files of JSON, as `format("json")`.
    Files,
    /// A Delta table.
    Delta,
    /// A Delta table at `sim://world/output` that the query itself writes to, in `foreach_batch`.
    Merged,
    /// A function that is called with each batch. It may see a batch again; then with the same
    /// rows.
    EachBatch,
    /// A table in memory; in complete mode only, because others do not survive a restart.
    Table,
    /// A sink of your own.
    Own(OwnOutput),
}

/// A sink of the user's and how its output is read.
#[derive(Clone)]
pub struct OwnOutput {
    open: Arc<Open>,
    read: Arc<Read>,
}

impl Output {
    /// A sink of your own over [`Start::store`]. `read` gives the rows that a reader of the output
    /// sees at this moment, as text, in any order.
    pub fn own<O, F, Fut>(open: O, read: F) -> Self
    where
        O: Fn(&Start) -> Arc<dyn Sink> + Send + Sync + 'static,
        F: Fn(Arc<dyn ObjectStore>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Vec<String>>> + Send + 'static,
    {
        Self::Own(OwnOutput {
            open: Arc::new(open),
            read: Arc::new(move |store| -> BoxFuture<'static, Result<Vec<String>>> {
                Box::pin(read(store))
            }),
        })
    }

    /// Adds it to a query.
    pub(crate) fn attach(&self, writer: DataStreamWriter, start: &Start) -> DataStreamWriter {
        let path = format!("{ROOT}/{FOLDER}");
        match self {
            Self::Files => writer.format("json").option("path", path),
            Self::Delta => writer.format("delta").option("path", path),
            Self::Merged => writer,
            Self::Table => writer.format("memory").query_name(TABLE),
            Self::Own(own) => writer.sink((own.open)(start)),
            Self::EachBatch => {
                let (world, process) = (start.world.clone(), start.process.clone());
                writer.foreach_batch_rows(move |BatchId(batch), rows| {
                    let (world, process) = (world.clone(), process.clone());
                    async move {
                        let rows = rows_as_text(&rows)?;
                        // The dead do nothing.
                        if !process.crashed() {
                            world.deliver(batch, rows);
                        }
                        Ok(())
                    }
                })
            }
        }
    }

    /// The rows that a reader sees now.
    pub(crate) async fn rows(
        &self,
        world: &World,
        session: Option<&Session>,
        mode: OutputMode,
    ) -> Result<Vec<String>> {
        let store = world.disk().process().store();
        let mut rows = match self {
            Self::Files => lines(&store, FOLDER).await?,
            Self::Delta | Self::Merged => {
                let path = format!("{ROOT}/{FOLDER}");
                let session = session.ok_or_else(|| Error::invalid("a table needs a session"))?;
                match session.read().delta(path).await {
                    Ok(table) => as_json(world, table, "delta").await?,
                    Err(error) if error.condition() == Some("DELTA_TABLE_NOT_FOUND") => Vec::new(),
                    Err(error) => return Err(error),
                }
            }
            Self::EachBatch => {
                let batches = world.delivered();
                let all = batches.values().rev().filter_map(|attempts| attempts.last());
                // Each complete result takes the place of the one before.
                let kept = if mode == OutputMode::Complete { 1 } else { usize::MAX };
                all.take(kept).flatten().cloned().collect()
            }
            Self::Table => world.table().unwrap_or_default(),
            Self::Own(own) => (own.read)(store).await?,
        };
        rows.sort();
        Ok(rows)
    }
}

/// The rows of the table in memory of a session.
pub(crate) async fn table_rows(session: &Session) -> Result<Vec<String>> {
    let table = session.table(TABLE).await?;
    rows_as_text(&table.collect().await.map_err(fluvial::from_datafusion)?)
}

/// Rows of a table as the file sink writes them.
pub(crate) async fn as_json(
    world: &World,
    table: fluvial::prelude::DataFrame,
    name: &str,
) -> Result<Vec<String>> {
    let folder = format!("read/{name}-{}", world.next_name());
    table.write()?.format("json").save(&format!("{ROOT}/{folder}")).await?;
    let store = world.disk().process().store();
    let rows = lines(&store, &folder).await;
    for path in world.disk().paths_under(&folder) {
        world.disk().remove(&path);
    }
    rows
}

/// The lines of all files that are published in a folder.
async fn lines(store: &Arc<dyn ObjectStore>, folder: &str) -> Result<Vec<String>> {
    let files = fluvial_sinks::committed_files(Arc::clone(store), Path::from(folder)).await?;
    let mut rows = Vec::new();
    for file in files {
        let bytes = store.get(&file).await?.bytes().await?;
        let text = std::str::from_utf8(&bytes)
            .map_err(|e| Error::corrupt(format!("{file} is no text")).with_source(e))?;
        rows.extend(text.lines().map(str::to_owned));
    }
    Ok(rows)
}

/// Rows as text, column by column.
pub(crate) fn rows_as_text(batches: &[RecordBatch]) -> Result<Vec<String>> {
    let options = FormatOptions::default().with_null("null");
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter();
        let columns = columns.map(|column| ArrayFormatter::try_new(column.as_ref(), &options));
        let columns = columns.collect::<std::result::Result<Vec<_>, _>>().map_err(Error::from)?;
        for row in 0..batch.num_rows() {
            let values: Vec<String> =
                columns.iter().map(|column| column.value(row).to_string()).collect();
            rows.push(values.join(" | "));
        }
    }
    Ok(rows)
}

/// Whether an error of reading says that there is nothing to read yet.
pub(crate) fn is_missing(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound
}
