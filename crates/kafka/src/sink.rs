//! Topics as a sink.

mod columns;
mod control;
mod options;
mod staged;

pub use options::{Delivery, SinkOptions};

use crate::broker::{Broker, Outgoing, Transactions};
use arrow::array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use columns::Columns;
use control::Head;
use fluvial_core::{
    BatchId, CommitOutcome, Error, ErrorKind, Note, OutputMode, PartitionId, Result, Sink,
    SinkSpec, SinkWriter, Staged,
};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// So often a run takes the transactions over from a run that takes them over from it.
const TAKEOVERS_MAX: usize = 16;
/// A run that was fenced waits so often, and so long each time, for the other one's batch.
const WAITS_MAX: usize = 10;
const WAIT: Duration = Duration::from_millis(100);

/// Writes each batch to topics, exactly once for those who read what is committed.
///
/// # Contract
///
/// A batch is one transaction, which also writes the record of the batch: its number and the note,
/// under the key `<query id>/<sink id>` of a control topic. The transactional id is made of the
/// same names, so whoever opens the sink fences every earlier run of the query, and finds its
/// transactions ended, one way or the other, before it reads which batch is the newest. A batch
/// that is recorded, or an older one, is not written again.
///
/// A run that is fenced while it commits waits for the record: if the batch is there, it says so,
/// as the contract of sinks wants; else the other run is dead or slow, and this one takes the
/// transactions over in turn, and looks again. Both publish the same plan, and the record decides
/// who did.
///
/// The rows of a batch stay in memory until it is published.
///
/// With [`Delivery::AtLeastOnce`] there are no transactions: the sink remembers what it has
/// published only as long as it lives, and a batch that is run again after a crash is written
/// again. In complete mode every batch writes the whole result, as in Spark.
pub struct KafkaSink {
    broker: Arc<dyn Broker>,
    options: SinkOptions,
    opened: Mutex<Option<Arc<Opened>>>,
    /// Taken out while a batch is committed: whoever finds none becomes the producer anew.
    session: Mutex<Session>,
}

struct Opened {
    spec: SinkSpec,
    columns: Columns,
}

#[derive(Default)]
struct Session {
    /// None after an error, and with at least once.
    producer: Option<Box<dyn Transactions>>,
    /// What was published last; true as long as the producer is not fenced.
    head: Option<Head>,
}

impl KafkaSink {
    /// A sink that writes to `broker`.
    pub fn new(broker: Arc<dyn Broker>, options: SinkOptions) -> Self {
        Self { broker, options, opened: Mutex::default(), session: Mutex::default() }
    }

    fn opened(&self) -> Result<Arc<Opened>> {
        lock(&self.opened).clone().ok_or_else(|| {
            Error::invalid(format!("{} was not opened before its first batch", self.description()))
        })
    }

    /// Becomes the producer of the query's transactions, and reads what they have published.
    async fn take_over(&self, spec: &SinkSpec) -> Result<Session> {
        let id = format!("{}-{}-{}", self.options.prefix, spec.query, spec.sink);
        let producer = Some(self.broker.transactions(&id).await?);
        let key = control::key(spec);
        let head = control::head(self.broker.as_ref(), &self.options.control, &key).await?;
        Ok(Session { producer, head })
    }

    async fn commit_once(
        &self,
        spec: &SinkSpec,
        batch: BatchId,
        records: &[Outgoing],
        note: &Note,
    ) -> Result<CommitOutcome> {
        let mut session = std::mem::take(&mut *lock(&self.session));
        for _ in 0..TAKEOVERS_MAX {
            if session.producer.is_none() {
                session = self.take_over(spec).await?;
            }
            if let Some(outcome) = published(session.head.as_ref(), batch) {
                *lock(&self.session) = session;
                return Ok(outcome);
            }
            let Some(mut producer) = session.producer.take() else { continue };
            let record = control::record(&self.options.control, spec, batch, note);
            match transact(producer.as_mut(), records, record).await {
                Ok(()) => {
                    let head = Some(Head { batch, note: note.clone() });
                    *lock(&self.session) = Session { producer: Some(producer), head };
                    return Ok(CommitOutcome::Committed);
                }
                Err(error) if error.kind() == ErrorKind::Fenced => {
                    if let Some(outcome) = self.wait_for(spec, batch).await? {
                        return Ok(outcome);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(Error::unavailable("another run of the query keeps taking its transactions over"))
    }

    /// Leaves the run that has taken over some time to publish the batch.
    async fn wait_for(&self, spec: &SinkSpec, batch: BatchId) -> Result<Option<CommitOutcome>> {
        let key = control::key(spec);
        for _ in 0..WAITS_MAX {
            let head = control::peek(self.broker.as_ref(), &self.options.control, &key).await?;
            if let Some(outcome) = published(head.as_ref(), batch) {
                return Ok(Some(outcome));
            }
            self.broker.pause(WAIT).await;
        }
        Ok(None)
    }

    async fn commit_again(
        &self,
        batch: BatchId,
        records: &[Outgoing],
        note: &Note,
    ) -> Result<CommitOutcome> {
        if let Some(outcome) = published(lock(&self.session).head.as_ref(), batch) {
            return Ok(outcome);
        }
        self.broker.send(records).await?;
        lock(&self.session).head = Some(Head { batch, note: note.clone() });
        Ok(CommitOutcome::Committed)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is behind these locks is replaced whole, so a poisoned one is whole too.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What to say if a batch, or a later one, was published.
fn published(head: Option<&Head>, batch: BatchId) -> Option<CommitOutcome> {
    let head = head.filter(|head| head.batch >= batch)?;
    let note = (head.batch == batch).then(|| head.note.clone());
    Some(CommitOutcome::AlreadyCommitted(note))
}

/// The record comes last, so that the control topic is held open as shortly as can be.
async fn transact(
    producer: &mut dyn Transactions,
    records: &[Outgoing],
    record: Outgoing,
) -> Result<()> {
    producer.begin().await?;
    if !records.is_empty() {
        producer.send(records).await?;
    }
    producer.send(&[record]).await?;
    producer.commit().await
}

impl fmt::Debug for KafkaSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.description())
    }
}

#[async_trait]
impl Sink for KafkaSink {
    fn description(&self) -> String {
        let topic = self.options.topic.as_deref().unwrap_or("by column topic");
        format!("KafkaSink[{topic}]")
    }

    fn modes(&self) -> &[OutputMode] {
        &[OutputMode::Append, OutputMode::Update, OutputMode::Complete]
    }

    async fn open(&self, spec: &SinkSpec) -> Result<Option<BatchId>> {
        let columns = Columns::of(&spec.schema, self.options.topic.as_deref())?;
        if self.options.delivery == Delivery::ExactlyOnce {
            self.broker.create_compacted(&self.options.control).await?;
            let session = self.take_over(spec).await?;
            *lock(&self.session) = session;
        }
        *lock(&self.opened) = Some(Arc::new(Opened { spec: spec.clone(), columns }));
        Ok(lock(&self.session).head.as_ref().map(|head| head.batch))
    }

    async fn writer(&self, _batch: BatchId, partition: PartitionId) -> Result<Box<dyn SinkWriter>> {
        let (opened, topic) = (self.opened()?, self.options.topic.clone());
        Ok(Box::new(Writer { partition, opened, topic, rows: 0, staged: Vec::new() }))
    }

    async fn commit(
        &self,
        batch: BatchId,
        staged: Vec<Staged>,
        note: &Note,
    ) -> Result<CommitOutcome> {
        let opened = self.opened()?;
        let mut records = Vec::new();
        for part in staged {
            records.extend(staged::decode(part.token)?);
        }
        let outcome = match self.options.delivery {
            Delivery::ExactlyOnce => self.commit_once(&opened.spec, batch, &records, note).await,
            Delivery::AtLeastOnce => self.commit_again(batch, &records, note).await,
        };
        outcome.map_err(|error| error.at(format!("{}, batch {batch}", self.description())))
    }
}

/// Encodes the rows of one partition.
struct Writer {
    partition: PartitionId,
    opened: Arc<Opened>,
    topic: Option<Arc<str>>,
    rows: u64,
    staged: Vec<u8>,
}

#[async_trait]
impl SinkWriter for Writer {
    async fn write(&mut self, rows: RecordBatch) -> Result<()> {
        let records = self.opened.columns.records(&rows, self.topic.as_deref())?;
        records.visit(&mut |row| staged::encode(row, &mut self.staged))?;
        self.rows += rows.num_rows() as u64;
        Ok(())
    }

    async fn stage(self: Box<Self>) -> Result<Staged> {
        let token = Bytes::from(self.staged);
        Ok(Staged { partition: self.partition, rows: self.rows, token })
    }
}
