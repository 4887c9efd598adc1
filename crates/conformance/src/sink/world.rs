//! What every law of sinks needs: a place, its disk, and attempts that can be told apart.

use super::{Destination, Make};
use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use fluvial_core::{
    BatchId, CommitOutcome, ErrorKind, Note, OutputMode, PartitionId, QueryId, Result, RunId, Sink,
    SinkId, SinkSpec, Staged,
};
use fluvial_sim::{Disk, Process, Rng};
use futures::future::LocalBoxFuture;
use std::sync::Arc;
use std::task::Poll;

/// A call that a sink asks to repeat is repeated so often.
const RETRIES_MAX: usize = 20;
/// No interleaving needs so many polls.
const POLLS_MAX: usize = 5_000_000;

/// One destination and the disk below it.
pub(crate) struct World {
    place: Box<dyn Destination>,
    pub(crate) disk: Disk,
}

/// Who tries, and as which query. Every attempt writes values of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) query: &'static str,
    pub(crate) number: i64,
    pub(crate) mode: OutputMode,
}

impl Attempt {
    pub(crate) fn new(number: i64) -> Self {
        Self { query: "query", number, mode: OutputMode::Append }
    }

    pub(crate) fn of(query: &'static str, number: i64) -> Self {
        Self { query, ..Self::new(number) }
    }

    /// The values of a batch, one list per partition.
    pub(crate) fn parts(self, batch: u64) -> [Vec<i64>; 2] {
        let first = self.number * 1_000_000 + batch as i64 * 10;
        [vec![first, first + 1], vec![first + 2]]
    }

    /// All values of these batches.
    pub(crate) fn values(self, batches: impl IntoIterator<Item = u64>) -> Vec<i64> {
        batches.into_iter().flat_map(|batch| self.parts(batch).concat()).collect()
    }

    /// A note that only this attempt writes, of all bytes that there are.
    pub(crate) fn note(self, batch: u64) -> Note {
        let mut bytes = format!("{}/{}/{batch}", self.query, self.number).into_bytes();
        bytes.extend(0..=255);
        Note(bytes.into())
    }

    pub(crate) fn spec(self) -> SinkSpec {
        let checked = "the kit's names are valid";
        SinkSpec {
            query: QueryId::new(self.query).expect(checked),
            sink: SinkId::new("out").expect(checked),
            run: RunId::new(format!("run-{}", self.number)).expect(checked),
            schema: schema(),
            mode: self.mode,
        }
    }
}

pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("value", DataType::Int64, true)]))
}

pub(crate) fn rows(values: &[i64]) -> RecordBatch {
    RecordBatch::try_new(schema(), vec![Arc::new(Int64Array::from(values.to_vec()))])
        .expect("one column of the kit's schema")
}

impl World {
    pub(crate) fn new(make: Make<'_>) -> Self {
        Self { place: make(), disk: Disk::new() }
    }

    pub(crate) fn place(&self) -> &dyn Destination {
        self.place.as_ref()
    }

    /// Runs `work` on the destination's executor.
    pub(crate) fn drive<'a, T: 'a>(&'a self, work: impl Future<Output = T> + 'a) -> T {
        let mut answer = None;
        let slot = &mut answer;
        self.place.drive(Box::pin(async move { *slot = Some(work.await) }));
        answer.expect("`drive` ran the work to its end")
    }

    pub(crate) fn sink(&self, process: &Process) -> Box<dyn Sink> {
        self.place.sink(process.store())
    }

    /// A sink of a process that never fails, opened.
    pub(crate) async fn opened(&self, attempt: Attempt) -> (Box<dyn Sink>, Option<BatchId>) {
        self.open(&self.disk.process(), attempt).await.expect("open")
    }

    pub(crate) async fn open(
        &self,
        process: &Process,
        attempt: Attempt,
    ) -> Result<(Box<dyn Sink>, Option<BatchId>)> {
        let sink = self.sink(process);
        let last = patiently(async || sink.open(&attempt.spec()).await).await?;
        Ok((sink, last))
    }

    /// What a reader sees, sorted.
    pub(crate) async fn visible(&self) -> Vec<i64> {
        let mut values = self.place.visible(self.disk.process().store()).await.expect("visible");
        values.sort_unstable();
        values
    }
}

/// Repeats a call as long as its error says so.
pub(crate) async fn patiently<T>(mut call: impl AsyncFnMut() -> Result<T>) -> Result<T> {
    for _ in 0..RETRIES_MAX {
        match call().await {
            Err(error) if error.kind() == ErrorKind::Unavailable => {}
            answer => return answer,
        }
    }
    call().await
}

/// Writes and stages every partition of a batch.
pub(crate) async fn stage(sink: &dyn Sink, attempt: Attempt, batch: u64) -> Result<Vec<Staged>> {
    let mut staged = Vec::new();
    for (partition, values) in (0..).zip(attempt.parts(batch)) {
        let part = patiently(async || {
            let mut writer = sink.writer(BatchId(batch), PartitionId(partition)).await?;
            for value in &values {
                writer.write(rows(&[*value])).await?;
            }
            writer.stage().await
        })
        .await?;
        assert_eq!((part.partition, part.rows), (PartitionId(partition), values.len() as u64));
        staged.push(part);
    }
    Ok(staged)
}

/// Stages and commits a batch.
pub(crate) async fn publish(
    sink: &dyn Sink,
    attempt: Attempt,
    batch: u64,
) -> Result<CommitOutcome> {
    let staged = stage(sink, attempt, batch).await?;
    let note = attempt.note(batch);
    patiently(async || sink.commit(BatchId(batch), staged.clone(), &note).await).await
}

/// Runs what is left of batches `0..end`, as an engine does after a restart.
pub(crate) async fn finish(
    world: &World,
    process: &Process,
    attempt: Attempt,
    end: u64,
) -> Result<()> {
    let (sink, last) = world.open(process, attempt).await?;
    // The engine may have died before it noted the newest batch: it runs that one again.
    for batch in last.map_or(0, |last| last.0)..end {
        publish(sink.as_ref(), attempt, batch).await?;
    }
    Ok(())
}

/// A process and what it is doing.
pub(crate) type Task<'a, T> = (Process, LocalBoxFuture<'a, T>);

/// Polls tasks in a random order derived from `rng`, until each ended or its process died.
/// Works under any executor with one thread: it yields to it after every poll.
pub(crate) async fn interleave<T>(rng: &mut Rng, tasks: Vec<Task<'_, T>>) -> Vec<Option<T>> {
    let mut ended: Vec<Option<T>> = tasks.iter().map(|_| None).collect();
    let mut live: Vec<_> = tasks.into_iter().enumerate().collect();
    let mut polls = 0;
    std::future::poll_fn(|cx| {
        if live.is_empty() {
            return Poll::Ready(());
        }
        polls += 1;
        assert!(polls < POLLS_MAX, "livelock: no progress after {POLLS_MAX} polls");
        let pick = rng.index(live.len());
        let (task, (process, future)) = &mut live[pick];
        if process.crashed() {
            drop(live.swap_remove(pick));
        } else if let Poll::Ready(value) = future.as_mut().poll(cx) {
            ended[*task] = Some(value);
            drop(live.swap_remove(pick));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
    ended
}
