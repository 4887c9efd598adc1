//! Bugs in sinks, state backends, sources and functions.

use super::caught;
use async_trait::async_trait;
use fluvial::arrow::datatypes::SchemaRef;
use fluvial::prelude::*;
use fluvial_core::{
    BatchId, CommitOutcome, Frontier, KeyGroupRange, Note, Offset, PartitionId, PlanRequest,
    Result, RowStream, SealedStore, Sink, SinkSpec, SinkWriter, Snapshot, Source, SourceRange,
    Split, Staged, StateBackend, StateStore, StateVersion, StoreId,
};
use fluvial_sinks::{FileFormat, FileOptions, FileSink, TextCompression, committed_files};
use fluvial_state_memory::{MemoryBackend, Settings};
use fluvial_testing::{Output, Query, gallery};
use futures::StreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

/// One bug of a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bug {
    /// Every attempt publishes under a new number.
    Repeats,
    /// Says that a batch is published one batch early.
    Lazy,
    /// Takes every other batch for published.
    Deaf,
    /// Leaves out the last part of each batch.
    Partial,
}

struct Buggy {
    inner: FileSink,
    bug: Bug,
    next: Mutex<u64>,
    held: Mutex<Option<(BatchId, Vec<Staged>, Note)>>,
}

#[async_trait]
impl Sink for Buggy {
    fn description(&self) -> String {
        self.inner.description()
    }

    fn modes(&self) -> &[OutputMode] {
        self.inner.modes()
    }

    async fn open(&self, spec: &SinkSpec) -> Result<Option<BatchId>> {
        let newest = self.inner.open(spec).await?;
        *self.next.lock().unwrap() = newest.map_or(0, |batch| batch.0 + 1);
        Ok(if self.bug == Bug::Repeats { None } else { newest })
    }

    async fn writer(&self, batch: BatchId, partition: PartitionId) -> Result<Box<dyn SinkWriter>> {
        // Files are named after the batch: the new number is in them, too.
        let batch = match self.bug {
            Bug::Repeats => BatchId(*self.next.lock().unwrap()),
            _ => batch,
        };
        self.inner.writer(batch, partition).await
    }

    async fn commit(
        &self,
        batch: BatchId,
        mut staged: Vec<Staged>,
        note: &Note,
    ) -> Result<CommitOutcome> {
        match self.bug {
            Bug::Repeats => {
                let next = {
                    let mut next = self.next.lock().unwrap();
                    *next += 1;
                    BatchId(*next - 1)
                };
                self.inner.commit(next, staged, note).await
            }
            Bug::Lazy => {
                let held = self.held.lock().unwrap().replace((batch, staged, note.clone()));
                if let Some((batch, staged, note)) = held {
                    self.inner.commit(batch, staged, &note).await?;
                }
                Ok(CommitOutcome::Committed)
            }
            Bug::Deaf if batch.0 % 2 == 1 => Ok(CommitOutcome::AlreadyCommitted(None)),
            Bug::Deaf => self.inner.commit(batch, staged, note).await,
            Bug::Partial => {
                staged.pop();
                self.inner.commit(batch, staged, note).await
            }
        }
    }
}

fn lines(bug: Bug) -> Output {
    let open = move |start: &fluvial_testing::Start| -> Arc<dyn Sink> {
        let options = FileOptions::new(FileFormat::Json {
            ignore_nulls: true,
            compression: TextCompression::None,
        });
        let inner = FileSink::new(start.store(), Path::from("output"), options);
        Arc::new(Buggy { inner, bug, next: Mutex::new(0), held: Mutex::new(None) })
    };
    Output::own(open, |store: Arc<dyn ObjectStore>| async move {
        let mut rows = Vec::new();
        for file in committed_files(Arc::clone(&store), Path::from("output")).await? {
            let bytes = store.get(&file).await?.bytes().await?;
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            rows.extend(text.lines().map(str::to_owned));
        }
        Ok(rows)
    })
}

#[test]
fn a_sink_that_publishes_again_is_caught() {
    caught(&gallery::stateless().output(lines(Bug::Repeats)), &gallery::events());
}

#[test]
fn a_sink_that_answers_too_early_is_caught() {
    caught(&gallery::stateless().output(lines(Bug::Lazy)), &gallery::events());
}

#[test]
fn a_sink_that_takes_a_batch_for_published_is_caught() {
    caught(&gallery::stateless().output(lines(Bug::Deaf)), &gallery::events());
}

#[test]
fn a_sink_that_leaves_out_rows_is_caught() {
    caught(&gallery::stateless().output(lines(Bug::Partial)), &gallery::events());
}

/// One bug of a state backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Loss {
    /// What a process opens first is empty.
    Amnesia,
    /// Of several snapshots only the first is read.
    FirstOnly,
    /// Whatever is retained is forgotten, save the last snapshot.
    Retention,
}

struct Losing {
    inner: MemoryBackend,
    loss: Loss,
    opened: AtomicBool,
}

#[async_trait]
impl StateBackend for Losing {
    fn format(&self) -> &str {
        self.inner.format()
    }

    async fn open(
        &self,
        id: &StoreId,
        groups: KeyGroupRange,
        version: StateVersion,
        snapshots: &[Snapshot],
    ) -> Result<Box<dyn StateStore>> {
        let first = !self.opened.swap(true, Ordering::SeqCst);
        match self.loss {
            Loss::Amnesia if first => self.inner.open(id, groups, StateVersion(0), &[]).await,
            Loss::FirstOnly => {
                let first = &snapshots[..snapshots.len().min(1)];
                self.inner.open(id, groups, version, first).await
            }
            _ => self.inner.open(id, groups, version, snapshots).await,
        }
    }

    async fn commit(&self, sealed: Vec<SealedStore>) -> Result<Vec<Snapshot>> {
        self.inner.commit(sealed).await
    }

    async fn retain(&self, live: &[Snapshot]) -> Result<()> {
        match self.loss {
            Loss::Retention => self.inner.retain(&live[live.len().saturating_sub(1)..]).await,
            _ => self.inner.retain(live).await,
        }
    }
}

fn losing(query: Query, loss: Loss) -> Query {
    query.session(move |builder| {
        builder.state_backend(move |place| {
            let settings = Settings::default();
            let inner = MemoryBackend::new(place.store, place.folder, place.run, settings);
            Ok(Arc::new(Losing { inner, loss, opened: AtomicBool::new(false) }))
        })
    })
}

#[test]
fn state_that_is_forgotten_at_a_restart_is_caught() {
    caught(&losing(gallery::tumbling(), Loss::Amnesia), &gallery::events());
}

#[test]
fn state_of_other_partitions_that_is_lost_is_caught() {
    caught(&losing(gallery::tumbling(), Loss::FirstOnly), &gallery::events());
}

#[test]
fn cleaning_all_but_one_partition_is_caught() {
    caught(&losing(gallery::tumbling(), Loss::Retention), &gallery::events());
}

/// A source that has the rows of a range only for the first process that asks.
struct OnceOnly {
    inner: Arc<dyn Source>,
    /// Ranges that another process has read.
    gone: Arc<Mutex<BTreeSet<String>>>,
    before: BTreeSet<String>,
}

#[async_trait]
impl Source for OnceOnly {
    fn description(&self) -> String {
        self.inner.description()
    }

    fn kind(&self) -> &str {
        self.inner.kind()
    }

    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }

    async fn initial(&self) -> Result<Offset> {
        self.inner.initial().await
    }

    async fn frontier(&self) -> Result<Frontier> {
        self.inner.frontier().await
    }

    async fn plan(&self, request: PlanRequest<'_>) -> Result<Option<SourceRange>> {
        self.inner.plan(request).await
    }

    async fn adopt(&self, range: &SourceRange) -> Result<()> {
        self.inner.adopt(range).await
    }

    fn read(
        &self,
        range: &SourceRange,
        split: &Split,
        projection: Option<&[usize]>,
    ) -> Result<RowStream> {
        let name = format!("{}-{}", range.end, split.0);
        if self.before.contains(&name) {
            return Ok(futures::stream::empty().boxed());
        }
        self.gone.lock().unwrap().insert(name);
        self.inner.read(range, split, projection)
    }

    async fn release(&self, range: &SourceRange) -> Result<()> {
        self.inner.release(range).await
    }
}

/// Sums of rows that cannot be read again. What is gone is gone in all worlds: each has its own
/// number, which is part of what is remembered.
#[test]
fn a_source_that_cannot_replay_is_caught() {
    let query = Query::new("once-only", move |start| async move {
        // The rows in memory are one object for each world: what was read of them is known by it.
        let rows = start.rows("rows")?;
        let gone = remembered(Arc::as_ptr(&rows) as usize);
        let before = gone.lock().unwrap().clone();
        let source = Arc::new(OnceOnly { inner: rows, gone, before });
        let rows = start.session().read_stream().name("rows").source(source)?;
        rows.write_stream()
    });
    caught(&query, &gallery::pushed());
}

/// What was read, by the address of the world's rows.
fn remembered(world: usize) -> Arc<Mutex<BTreeSet<String>>> {
    type Worlds = Mutex<std::collections::BTreeMap<usize, Arc<Mutex<BTreeSet<String>>>>>;
    static WORLDS: Worlds = Mutex::new(std::collections::BTreeMap::new());
    Arc::clone(WORLDS.lock().unwrap().entry(world).or_default())
}

/// A query whose rows depend on the process that computes them.
#[test]
fn a_query_that_is_not_a_function_of_its_input_is_caught() {
    static STARTS: AtomicI64 = AtomicI64::new(0);
    let query = Query::new("processes", |start| async move {
        let number = STARTS.fetch_add(1, Ordering::SeqCst);
        let rows = start.session().read_stream().name("rows").source(start.rows("rows")?)?;
        let rows = rows.with_column("process", lit(number)).map_err(fluvial::from_datafusion)?;
        rows.write_stream()
    });
    caught(&query.output(Output::EachBatch), &gallery::pushed());
}
