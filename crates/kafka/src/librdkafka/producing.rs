//! Writing: with transactions and without.

use super::errors::Failure;
use super::threads;
use super::watcher::Watcher;
use crate::broker::{Outgoing, Transactions};
use crate::client_options::ClientOptions;
use async_trait::async_trait;
use fluvial_core::{Error, Result};
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::{DeliveryResult, Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer, ProducerContext};
use rdkafka::{ClientConfig, ClientContext};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a step of a transaction may take.
const STEP: Duration = Duration::from_secs(60);
/// How long to wait for room in the buffer at a time.
const ROOM: Duration = Duration::from_millis(100);

/// The settings that the sink needs; the partition of a key is the one that Java's clients choose.
const DEFAULTS: &[(&str, &str)] =
    &[("partitioner", "murmur2_random"), ("socket.nagle.disable", "true")];

/// Hears what became of each record.
#[derive(Clone, Default)]
struct Deliveries {
    watcher: Watcher,
    /// The first that was not delivered.
    failed: Arc<Mutex<Option<KafkaError>>>,
}

impl ClientContext for Deliveries {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        self.watcher.log(level, facility, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.watcher.error(error, reason);
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
        if let Err((error, _)) = result {
            let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.get_or_insert_with(|| error.clone());
        }
    }
}

/// A producer whose records are sent and waited for together.
pub(super) struct BatchProducer {
    options: ClientOptions,
    producer: BaseProducer<Deliveries>,
    deliveries: Deliveries,
}

impl BatchProducer {
    /// Idempotent in any case: what librdkafka sends again is written once.
    pub(super) fn new(options: &ClientOptions, transactional_id: Option<&str>) -> Result<Self> {
        let mut config = ClientConfig::new();
        for (name, value) in DEFAULTS.iter().copied().chain(options.settings()) {
            config.set(name, value);
        }
        config.remove("group.id");
        config.set("enable.idempotence", "true");
        if let Some(id) = transactional_id {
            config.set("transactional.id", id);
        }
        let deliveries = Deliveries::default();
        let failure = Failure { options, last: None };
        let producer = config
            .create_with_context(deliveries.clone())
            .map_err(|e| failure.of(&e, "make a client"))?;
        Ok(Self { options: options.clone(), producer, deliveries })
    }

    fn error(&self, error: &KafkaError, what: &str) -> Error {
        self.producer.poll(ROOM);
        let failure = Failure { options: &self.options, last: None };
        if let (Some(RDKafkaErrorCode::Fatal), Some((code, _))) =
            (error.rdkafka_error_code(), self.producer.client().fatal_error())
        {
            return failure.code(code, what);
        }
        failure.by(&self.deliveries.watcher).of(error, what)
    }

    fn step(&self, done: KafkaResult<()>, what: &str) -> Result<()> {
        done.map_err(|e| self.error(&e, what))
    }

    /// Puts records into the buffer, waiting for room.
    pub(super) fn send(&self, records: &[Outgoing]) -> Result<()> {
        for record in records {
            let mut next = native(record);
            loop {
                match self.producer.send(next) {
                    Ok(()) => break,
                    Err((KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull), back)) => {
                        next = back;
                        self.producer.poll(ROOM);
                    }
                    Err((error, _)) => {
                        return Err(self.error(&error, &format!("write to {}", record.topic)));
                    }
                }
            }
            self.producer.poll(Duration::ZERO);
        }
        Ok(())
    }

    /// Waits until every record is acknowledged.
    pub(super) fn flush(&self) -> Result<()> {
        self.step(self.producer.flush(STEP), "write")?;
        let failed = self.deliveries.failed.lock().unwrap_or_else(PoisonError::into_inner).take();
        failed.map_or(Ok(()), |error| Err(self.error(&error, "write")))
    }
}

fn native(record: &Outgoing) -> BaseRecord<'_, [u8], [u8]> {
    let mut native = BaseRecord::to(&record.topic);
    if let Some(partition) = record.partition {
        native = native.partition(partition);
    }
    if let Some(key) = &record.key {
        native = native.key(key.as_ref());
    }
    if let Some(value) = &record.value {
        native = native.payload(value.as_ref());
    }
    if !record.headers.is_empty() {
        let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
        for (key, value) in &record.headers {
            headers = headers.insert(Header { key, value: value.as_deref() });
        }
        native = native.headers(headers);
    }
    native
}

/// The producer of transactions under an id.
pub(super) struct RdTransactions(Option<Arc<BatchProducer>>);

impl RdTransactions {
    /// Blocks until earlier transactions are ended.
    pub(super) fn open(options: &ClientOptions, id: &str) -> Result<Self> {
        let producer = BatchProducer::new(options, Some(id))?;
        let done = producer.producer.init_transactions(STEP);
        producer.step(done, "take the transactions over")?;
        Ok(Self(Some(Arc::new(producer))))
    }

    async fn run(
        &mut self,
        work: impl FnOnce(&BatchProducer) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let gone = || Error::unavailable("the producer has failed before");
        let producer = Arc::clone(self.0.as_ref().ok_or_else(gone)?);
        threads::run("fluvial-kafka-write", move || work(&producer)).await?
    }
}

#[async_trait]
impl Transactions for RdTransactions {
    async fn begin(&mut self) -> Result<()> {
        self.run(|p| p.step(p.producer.begin_transaction(), "begin a transaction")).await
    }

    async fn send(&mut self, records: &[Outgoing]) -> Result<()> {
        let records = records.to_vec();
        self.run(move |producer| producer.send(&records)).await
    }

    async fn commit(&mut self) -> Result<()> {
        self.run(|producer| {
            producer.flush()?;
            producer.step(producer.producer.commit_transaction(STEP), "commit a transaction")
        })
        .await
    }
}

impl Drop for RdTransactions {
    fn drop(&mut self) {
        let producer = self.0.take();
        // Closing a client blocks. Where there is no thread it is closed here.
        let _ = threads::start("fluvial-kafka-close", move || drop(producer));
    }
}
