//! The sink.

use crate::commit::{Attempt, Head, newest_batch};
use crate::create::{add_columns, create};
use crate::entry::app_id;
use crate::error::delta_error;
use crate::form::Form;
use crate::location::TableLocation;
use crate::options::DeltaOptions;
use crate::rules::{self, Compile};
use crate::writer::{DeltaPartWriter, files};
use crate::{checkpoint, fit, supported};
use async_trait::async_trait;
use deltalake::DeltaTable;
use deltalake::logstore::LogStoreRef;
use fluvial_core::{
    BatchId, CommitOutcome, Error, ErrorKind, Note, OutputMode, PartitionId, Result, Sink,
    SinkMemory, SinkSpec, SinkWriter, Staged,
};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So often the table is loaded again because somebody else changed it meanwhile.
const PREPARE_MAX: usize = 10;

/// Appends each batch to a Delta table, or replaces its rows (complete mode), exactly once.
///
/// # Contract
///
/// A batch is one version of the table, with a `txn` action whose application id is
/// `<query id>/<sink id>` and whose version is the batch id: a batch is skipped when the log names
/// it, or a later one, whoever wrote it and however the acknowledgement was lost. The note is in
/// the version's commit info, and is found again as long as the log keeps the version
/// (`delta.logRetentionDuration`, 30 days).
///
/// A table may have any number of writers. Complete mode replaces the rows of all of them.
///
/// The table is created when the sink opens, if there is none, with nullable columns.
///
/// NOT NULL, CHECK constraints and invariants hold for every row that is written, and computed
/// columns are computed, or compared if the query has them.
///
/// Files that were staged and never published stay until the table's VACUUM removes them.
pub struct DeltaSink {
    location: TableLocation,
    options: DeltaOptions,
    compile: Arc<Compile>,
    opened: Mutex<Option<Opened>>,
    warnings: Mutex<Vec<String>>,
}

#[derive(Clone)]
struct Opened {
    spec: Arc<SinkSpec>,
    app: Arc<str>,
    log_store: LogStoreRef,
    head: Head,
}

impl DeltaSink {
    /// A sink that writes to the table at `location`.
    pub fn new(location: TableLocation, options: DeltaOptions) -> Self {
        let (opened, warnings) = (Mutex::default(), Mutex::default());
        Self { location, options, compile: Arc::new(rules::plain), opened, warnings }
    }

    /// Reads the expressions of the table's constraints and computed columns with `compile`; as
    /// plain DataFusion if not given.
    #[must_use]
    pub fn with_expressions(mut self, compile: Arc<Compile>) -> Self {
        self.compile = compile;
        self
    }

    fn warn(&self, text: String) {
        let mut warnings = lock(&self.warnings);
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }

    fn opened(&self) -> Result<Opened> {
        lock(&self.opened).clone().ok_or_else(|| {
            Error::invalid(format!("{} was not opened before its first batch", self.description()))
        })
    }

    /// Remembers how far the log was read. Of two commits at once the one that saw more counts.
    fn keep(&self, head: Head) {
        if let Some(opened) = lock(&self.opened).as_mut()
            && head.version >= opened.head.version
        {
            opened.head = head;
        }
    }

    /// The table, created or evolved so that the query's rows fit.
    async fn prepare(&self, spec: &SinkSpec) -> Result<DeltaTable> {
        for _ in 0..PREPARE_MAX {
            let Some(table) = self.location.load().await? else {
                create(&self.location, &spec.schema, &self.options).await?;
                continue;
            };
            let state = table.snapshot().map_err(delta_error)?;
            supported::check(state, spec.mode)?;
            self.check_partitions(state.metadata().partition_columns())?;
            let new = fit::missing(&spec.schema, &state.snapshot().arrow_schema())?;
            if new.is_empty() {
                return Ok(table);
            }
            if !self.options.merge_schema {
                return Err(fit::not_in_table(&new));
            }
            match add_columns(table, &new).await {
                Err(error) if error.kind() != ErrorKind::Unavailable => return Err(error),
                // Added, or somebody else changed the table, or we do not know: look again.
                _ => {}
            }
        }
        Err(Error::unavailable("the table kept changing while the sink opened"))
    }

    fn check_partitions(&self, table: &[String]) -> Result<()> {
        let wanted = &self.options.partition_by;
        let same = wanted.len() == table.len()
            && wanted.iter().zip(table).all(|(a, b)| a.to_lowercase() == b.to_lowercase());
        if wanted.is_empty() || same {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "the table is partitioned by [{}], the query asks for [{}]: leave partitionBy out, or \
             write to another table",
            table.join(", "),
            wanted.join(", ")
        ))
        .with_condition("DELTA_PARTITION_MISMATCH"))
    }

    /// What may surprise somebody although it is allowed.
    fn look_around(
        &self,
        spec: &SinkSpec,
        table: &DeltaTable,
        last: Option<BatchId>,
    ) -> Result<()> {
        let state = table.snapshot().map_err(delta_error)?;
        let files = state.log_data().num_files();
        if last.is_none() && files > 0 {
            let fate = match spec.mode {
                OutputMode::Complete => "its first batch replaces them",
                _ => "its batches are added to them",
            };
            self.warn(format!(
                "query {} is new to table {}, which has {files} data files already; {fate}. If \
                 this is the output of the same query with a new checkpoint, rows will be there \
                 twice.",
                spec.query, self.location
            ));
        }
        if state.table_config().set_transaction_retention_duration.is_some() {
            self.warn(format!(
                "table {} forgets the batches of a query that pauses longer than \
                 delta.setTransactionRetentionDuration: a batch that is repeated after that is \
                 written twice.",
                self.location
            ));
        }
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is replaced whole, so a poisoned one is whole too.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Debug for DeltaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaSink")
            .field("location", &self.location)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Sink for DeltaSink {
    fn description(&self) -> String {
        format!("DeltaSink[{}]", self.location)
    }

    fn modes(&self) -> &[OutputMode] {
        &[OutputMode::Append, OutputMode::Complete]
    }

    fn memory(&self) -> SinkMemory {
        let forgets = lock(&self.opened).as_ref().is_none_or(|opened| {
            let state = opened.head.table.snapshot();
            state.is_ok_and(|s| s.table_config().set_transaction_retention_duration.is_some())
        });
        if forgets { SinkMemory::Unknown } else { SinkMemory::Lasting }
    }

    fn warnings(&self) -> Vec<String> {
        lock(&self.warnings).clone()
    }

    async fn open(&self, spec: &SinkSpec) -> Result<Option<BatchId>> {
        if !self.modes().contains(&spec.mode) {
            return Err(Error::invalid(format!(
                "a Delta table does not take {} mode: use append or complete",
                spec.mode
            ))
            .with_condition("STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE"));
        }
        let place = |error: Error| error.at(format!("table {}", self.location));
        let table = self.prepare(spec).await.map_err(place)?;
        let app = self.options.app.clone().unwrap_or_else(|| app_id(spec));
        let last = newest_batch(&table, &app).await.map_err(place)?;
        self.look_around(spec, &table, last).map_err(place)?;
        let version = table.snapshot().map_err(|e| place(delta_error(e)))?.version();
        let form = Arc::new(Form::of(&table, self.compile.as_ref()).map_err(place)?);
        let opened = Opened {
            spec: Arc::new(spec.clone()),
            app: app.into(),
            log_store: table.log_store(),
            head: Head { version, last, note: None, table, form },
        };
        *lock(&self.opened) = Some(opened);
        Ok(last)
    }

    async fn writer(&self, batch: BatchId, partition: PartitionId) -> Result<Box<dyn SinkWriter>> {
        let opened = self.opened()?;
        let store = opened.log_store.object_store(None);
        let writer = DeltaPartWriter::new(batch, partition, opened.head.form, store);
        Ok(Box::new(writer))
    }

    async fn commit(
        &self,
        batch: BatchId,
        staged: Vec<Staged>,
        note: &Note,
    ) -> Result<CommitOutcome> {
        let Opened { spec, app, log_store, mut head, .. } = self.opened()?;
        let mut adds = Vec::new();
        for part in &staged {
            adds.extend(files(part).map_err(|e| e.at(format!("batch {batch}")))?);
        }
        let rows = staged.iter().map(|part| part.rows).sum();
        let (spec, app, log_store) = (&*spec, &*app, &log_store);
        let compile = self.compile.as_ref();
        let attempt = Attempt { spec, app, compile, log_store, batch, adds, rows, note };
        let outcome = attempt.publish(&mut head).await;
        if let Ok(CommitOutcome::Committed) = outcome
            && let Err(error) = checkpoint::write_if_due(&head).await
        {
            self.warn(format!("table {}: no checkpoint was written: {error}", self.location));
        }
        self.keep(head);
        outcome.map_err(|error| error.at(format!("table {}", self.location)))
    }
}
