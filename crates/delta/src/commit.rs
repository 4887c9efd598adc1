//! Publishes a batch as one version of the table.
//!
//! The log is the election: version `v + 1` is created if absent, on top of version `v` that we
//! have read, so that between reading which batches are published and publishing one nothing can
//! come. No listing, and no reading while nobody else writes.

use crate::entry::{Entry, mark};
use crate::error::{delta_error, transaction_error};
use crate::form::Form;
use crate::rules::{Compile, rules};
use crate::{fit, supported};
use bytes::Bytes;
use deltalake::DeltaTable;
use deltalake::kernel::transaction::CommitData;
use deltalake::kernel::{Action, Add, Transaction, Version};
use deltalake::logstore::{CommitOrBytes, LogStoreRef};
use deltalake::protocol::{DeltaOperation, OutputMode as DeltaMode};
use fluvial_core::{BatchId, CommitOutcome, Error, Note, OutputMode, Result, SinkSpec};
use object_store::ObjectStoreExt;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;

/// So many versions of others may come between before the caller has to ask again.
const CONFLICTS_MAX: usize = 1000;

/// How far we have read the log, and what it says.
#[derive(Clone)]
pub(crate) struct Head {
    /// The table at `version`, or earlier in what only concerns files.
    pub(crate) table: DeltaTable,
    /// What rows must be like for `table`.
    pub(crate) form: Arc<Form>,
    /// The newest version read.
    pub(crate) version: Version,
    /// The newest published batch of this query and sink.
    pub(crate) last: Option<BatchId>,
    /// Its note, if it was read already.
    pub(crate) note: Option<Note>,
}

/// One batch on its way into the log.
pub(crate) struct Attempt<'a> {
    pub(crate) spec: &'a SinkSpec,
    pub(crate) app: &'a str,
    pub(crate) compile: &'a Compile,
    pub(crate) log_store: &'a LogStoreRef,
    pub(crate) batch: BatchId,
    pub(crate) adds: Vec<Add>,
    pub(crate) rows: u64,
    pub(crate) note: &'a Note,
}

impl Attempt<'_> {
    /// Publishes the batch, unless it is published. `head` follows the log in any case.
    pub(crate) async fn publish(&self, head: &mut Head) -> Result<CommitOutcome> {
        for _ in 0..CONFLICTS_MAX {
            if let Some(outcome) = self.already(head).await? {
                return Ok(outcome);
            }
            let version = head.version + 1;
            match self.create(version, self.bytes(head).await?).await? {
                None => {
                    self.confirm(version, self.batch).await?;
                    head.version = version;
                    head.last = Some(self.batch);
                    head.note = Some(self.note.clone());
                    return Ok(CommitOutcome::Committed);
                }
                Some(theirs) => self.follow(head, version, &theirs).await?,
            }
        }
        Err(Error::unavailable(format!(
            "batch {}: {CONFLICTS_MAX} versions of other writers came first",
            self.batch
        )))
    }

    /// Creates a version; `None` if it is ours, else what is there.
    ///
    /// After any error we look: the acknowledgement may have been lost, and "already exists" may
    /// be said of nothing.
    async fn create(&self, version: Version, bytes: Bytes) -> Result<Option<Bytes>> {
        let entry = CommitOrBytes::LogBytes(bytes.clone());
        let put = self.log_store.write_commit_entry(version, entry, Default::default());
        let Err(error) = put.await else { return Ok(None) };
        let found = self.log_store.read_commit_entry(version).await.map_err(delta_error)?;
        match found {
            Some(found) if found == bytes => Ok(None),
            Some(found) => Ok(Some(found)),
            None => Err(transaction_error(error).at(format!("version {version} of the log"))),
        }
    }

    /// Takes in a version of another writer.
    async fn follow(&self, head: &mut Head, version: Version, theirs: &Bytes) -> Result<()> {
        let entry = Entry::read(version, theirs, self.app)?;
        if entry.changes_table {
            let mut table = head.table.clone();
            table.update_incremental(Some(version)).await.map_err(delta_error)?;
            self.check_change(&head.table, &table)?;
            head.form = Arc::new(Form::of(&table, self.compile)?);
            head.table = table;
        }
        head.version = version;
        if let Some(batch) = entry.batch {
            self.confirm(version, batch).await?;
            head.last = Some(batch);
            head.note = entry.note;
        }
        Ok(())
    }

    /// Whether rows written for `before` still fit. Files name their columns, so that the order of
    /// these does not matter.
    fn check_change(&self, before: &DeltaTable, table: &DeltaTable) -> Result<()> {
        let state = table.snapshot().map_err(delta_error)?;
        supported::check(state, self.spec.mode)?;
        let old = before.snapshot().map_err(delta_error)?;
        let (before, after) = (old.snapshot().arrow_schema(), state.snapshot().arrow_schema());
        let new = fit::missing(&self.spec.schema, &after)?;
        let same = |field: &arrow::datatypes::FieldRef| {
            after.field_with_name(field.name()).is_ok_and(|f| {
                let nulls = f.is_nullable() || !field.is_nullable();
                nulls && f.data_type() == field.data_type()
            })
        };
        let fits = new.is_empty()
            && before.fields().iter().all(same)
            && old.metadata().partition_columns() == state.metadata().partition_columns()
            && rules(old)? == rules(state)?;
        if fits {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "batch {}: the schema or the constraints of the table changed while the batch was \
             written: start the query again",
            self.batch
        ))
        .with_condition("DELTA_SCHEMA_CHANGED"))
    }

    /// Makes sure that readers see `version`, which publishes `batch`: a writer that slept while its part of the log was
    /// cleaned up could create a version below a checkpoint, which nobody would ever read.
    async fn confirm(&self, version: Version, batch: BatchId) -> Result<()> {
        let path = self.log_store.log_path().clone().join("_last_checkpoint");
        let bytes = match self.log_store.object_store(None).get(&path).await {
            Ok(found) => found.bytes().await?,
            Err(object_store::Error::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let hint: Option<Value> = serde_json::from_slice(&bytes).ok();
        let checkpoint = hint.and_then(|hint| hint.get("version")?.as_u64());
        if checkpoint.is_none_or(|checkpoint| checkpoint <= version) {
            return Ok(());
        }
        let mut table = DeltaTable::new(self.log_store.clone());
        table.load().await.map_err(delta_error)?;
        match newest_batch(&table, self.app).await? {
            Some(newest) if newest >= batch => Ok(()),
            _ => Err(Error::fenced(format!(
                "batch {batch}: the log was cleaned up while this writer slept, version {version} \
                 counts for nobody: start the query again"
            ))),
        }
    }

    /// The answer if the batch is published.
    async fn already(&self, head: &mut Head) -> Result<Option<CommitOutcome>> {
        let Some(last) = head.last.filter(|last| self.batch <= *last) else { return Ok(None) };
        if self.batch < last {
            return Ok(Some(CommitOutcome::AlreadyCommitted(None)));
        }
        if head.note.is_none() {
            head.note = self.find_note(head.version).await?;
        }
        Ok(Some(CommitOutcome::AlreadyCommitted(head.note.clone())))
    }

    /// Looks back for the version that published the batch, as far as the log goes.
    async fn find_note(&self, newest: Version) -> Result<Option<Note>> {
        for version in (0..=newest).rev() {
            let found = self.log_store.read_commit_entry(version).await.map_err(delta_error)?;
            let Some(bytes) = found else { return Ok(None) };
            let entry = Entry::read(version, &bytes, self.app)?;
            if entry.batch.is_some() {
                return Ok(entry.note.filter(|_| entry.batch == Some(self.batch)));
            }
        }
        Ok(None)
    }

    /// The version as it goes into the log on top of `head`.
    async fn bytes(&self, head: &mut Head) -> Result<Bytes> {
        let epoch_id = i64::try_from(self.batch.0).map_err(|_| {
            Error::invalid(format!("batch {} does not fit into a Delta log", self.batch))
        })?;
        let mut actions: Vec<Action> = self.adds.iter().cloned().map(Action::Add).collect();
        let mut removed = 0;
        if self.spec.mode == OutputMode::Complete {
            head.table.update_incremental(Some(head.version)).await.map_err(delta_error)?;
            let state = head.table.snapshot().map_err(delta_error)?;
            // The library's view carries the deletion vector over, without which the removal
            // would mean another file.
            let files = state.log_data().into_iter();
            actions.extend(files.map(|file| Action::Remove(file.remove_action(true))));
            removed = actions.len() - self.adds.len();
        }
        let metrics = json!({
            "numOutputRows": self.rows.to_string(),
            "numAddedFiles": self.adds.len().to_string(),
            "numRemovedFiles": removed.to_string(),
            "numOutputBytes": self.adds.iter().map(|add| add.size).sum::<i64>().to_string(),
        });
        let info = HashMap::from([
            mark(self.spec, self.note),
            ("operationMetrics".into(), metrics),
            ("isBlindAppend".into(), json!(self.spec.mode == OutputMode::Append)),
            ("readVersion".into(), json!(head.version)),
        ]);
        let operation = DeltaOperation::StreamingUpdate {
            output_mode: match self.spec.mode {
                OutputMode::Append => DeltaMode::Append,
                OutputMode::Update => DeltaMode::Update,
                OutputMode::Complete => DeltaMode::Complete,
            },
            query_id: self.spec.query.to_string(),
            epoch_id,
        };
        let txn = vec![Transaction::new(self.app, epoch_id)];
        CommitData::new(actions, operation, info, txn).get_bytes().map_err(transaction_error)
    }
}

/// The newest batch that `table` says was published by a query and sink.
pub(crate) async fn newest_batch(table: &DeltaTable, app: &str) -> Result<Option<BatchId>> {
    let state = table.snapshot().map_err(delta_error)?;
    let log_store = table.log_store();
    let version = state.transaction_version(&log_store, app).await.map_err(delta_error)?;
    version
        .map(|version| match u64::try_from(version) {
            Ok(batch) => Ok(BatchId(batch)),
            Err(_) => Err(Error::corrupt(format!("batch {version} of {app} is negative"))),
        })
        .transpose()
}
