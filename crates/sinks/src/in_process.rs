//! What the sinks whose medium cannot remember have in common: owner, newest batch and staged
//! rows, kept in one value.
//!
//! The laws of [`fluvial_core::Sink`] hold as long as the value lives. Nothing here knows what
//! publishing means; that is a closure of the sink.

use arrow::array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use fluvial_core::{
    BatchId, CommitOutcome, Error, Note, OutputMode, PartitionId, QueryId, Result, SinkId,
    SinkSpec, SinkWriter, Staged,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Every mode: these sinks show what they are given.
pub(crate) const ALL_MODES: &[OutputMode] =
    &[OutputMode::Append, OutputMode::Update, OutputMode::Complete];

/// The memory of a sink that dies with its value.
#[derive(Debug, Default)]
pub(crate) struct InProcess(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    owner: Option<(QueryId, SinkId)>,
    last: Option<(BatchId, Note)>,
    /// Staged rows by token. Attempts that were given up stay until their batch is published.
    staged: BTreeMap<u64, (BatchId, Vec<RecordBatch>)>,
    next_token: u64,
    /// The batch that is being published by a callback right now.
    publishing: Option<BatchId>,
}

/// The answer to a commit before anything is published.
pub(crate) enum Claim<'a> {
    /// Publish these rows, then call [`Claimed::done`]. Dropping it gives the claim back.
    Publish(Claimed<'a>, Vec<RecordBatch>),
    /// It is visible already.
    Already(CommitOutcome),
}

/// The right to publish one batch.
pub(crate) struct Claimed<'a> {
    memory: &'a InProcess,
    batch: BatchId,
}

impl InProcess {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change below is one assignment or an insert, so a poisoned state is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Binds the value to the query of `spec` and returns the newest published batch.
    pub(crate) fn open(&self, description: &str, spec: &SinkSpec) -> Result<Option<BatchId>> {
        let mut state = self.lock();
        match &state.owner {
            Some((query, sink)) if (query, sink) != (&spec.query, &spec.sink) => {
                return Err(Error::invalid(format!(
                    "{description} belongs to query {query}, sink {sink}; query {} cannot write \
                     to it: give every query a sink of its own",
                    spec.query
                ))
                .with_condition("SINK_OWNED_BY_ANOTHER_QUERY"));
            }
            Some(_) => {}
            None => state.owner = Some((spec.query.clone(), spec.sink.clone())),
        }
        Ok(state.last.as_ref().map(|(batch, _)| *batch))
    }

    /// The newest published batch.
    pub(crate) fn last(&self) -> Option<BatchId> {
        self.lock().last.as_ref().map(|(batch, _)| *batch)
    }

    /// A writer that keeps its rows in memory.
    pub(crate) fn writer(
        self: &Arc<Self>,
        batch: BatchId,
        partition: PartitionId,
    ) -> Box<dyn SinkWriter> {
        Box::new(Buffer { memory: self.clone(), batch, partition, rows: 0, batches: Vec::new() })
    }

    /// Decides who publishes `batch`, and hands the winner its rows in partition order.
    ///
    /// # Errors
    ///
    /// `Unavailable` while another call publishes; `NotFound` if rows were staged elsewhere.
    pub(crate) fn claim(&self, batch: BatchId, staged: &[Staged]) -> Result<Claim<'_>> {
        let mut state = self.lock();
        if let Some((last, note)) = &state.last
            && batch <= *last
        {
            let note = (batch == *last).then(|| note.clone());
            return Ok(Claim::Already(CommitOutcome::AlreadyCommitted(note)));
        }
        if let Some(other) = state.publishing {
            return Err(Error::unavailable(format!(
                "batch {batch}: batch {other} is being published by another call"
            )));
        }
        let mut rows = Vec::new();
        for part in staged {
            let found = token_of(part).and_then(|token| state.staged.get(&token));
            let Some((_, batches)) = found.filter(|(of, _)| *of == batch) else {
                return Err(Error::not_found(format!(
                    "batch {batch}: the staged rows of partition {} are not in this sink's \
                     memory: run the batch again",
                    part.partition
                )));
            };
            rows.extend(batches.iter().cloned());
        }
        state.publishing = Some(batch);
        drop(state);
        Ok(Claim::Publish(Claimed { memory: self, batch }, rows))
    }
}

impl Claimed<'_> {
    /// Records that the batch is visible and frees what was staged for it.
    pub(crate) fn done(self, note: &Note) -> CommitOutcome {
        let mut state = self.memory.lock();
        state.last = Some((self.batch, note.clone()));
        state.staged.retain(|_, (batch, _)| *batch > self.batch);
        CommitOutcome::Committed
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        self.memory.lock().publishing = None;
    }
}

fn token_of(staged: &Staged) -> Option<u64> {
    Some(u64::from_le_bytes(staged.token.as_ref().try_into().ok()?))
}

/// Rows of one partition on their way to memory.
#[derive(Debug)]
struct Buffer {
    memory: Arc<InProcess>,
    batch: BatchId,
    partition: PartitionId,
    rows: u64,
    batches: Vec<RecordBatch>,
}

#[async_trait]
impl SinkWriter for Buffer {
    async fn write(&mut self, rows: RecordBatch) -> Result<()> {
        self.rows += rows.num_rows() as u64;
        if rows.num_rows() > 0 {
            self.batches.push(rows);
        }
        Ok(())
    }

    async fn stage(self: Box<Self>) -> Result<Staged> {
        let mut state = self.memory.lock();
        let token = state.next_token;
        state.next_token += 1;
        state.staged.insert(token, (self.batch, self.batches));
        Ok(Staged {
            partition: self.partition,
            rows: self.rows,
            token: Bytes::copy_from_slice(&token.to_le_bytes()),
        })
    }
}
