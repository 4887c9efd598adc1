//! A cluster as librdkafka speaks to it.
//!
//! Its calls block; each is made on a thread of its own, so that no runtime is needed and none is
//! held up.

mod errors;
mod fetching;
mod producing;
mod readers;
mod threads;
mod watcher;

use crate::broker::{
    Broker, Isolation, Names, Offsets, Outgoing, Seek, Topic, TopicPartition, Transactions,
};
use crate::client_options::ClientOptions;
use crate::range_rows::RangeRows;
use arrow::array::RecordBatch;
use async_trait::async_trait;
use errors::Failure;
use fluvial_core::{Error, Result};
use futures::stream::BoxStream;
use producing::{BatchProducer, RdTransactions};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::Consumer;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::{ClientConfig, Offset, TopicPartitionList};
use readers::{Reader, Readers};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long one question to the brokers may take.
const ASK: Duration = Duration::from_secs(20);
/// How long a new topic may take to get a leader.
const NEW_TOPIC: Duration = Duration::from_secs(15);

/// The brokers of one cluster.
///
/// Readers are kept and used again, so that a batch neither connects anew nor loses what was
/// fetched ahead. Clones share them.
#[derive(Clone)]
pub struct Cluster(Arc<Inner>);

struct Inner {
    options: ClientOptions,
    readers: Readers,
}

impl Cluster {
    /// A client with these settings. Connects when it is used.
    pub fn new(options: ClientOptions) -> Self {
        let readers = Readers::new(options.clone());
        Self(Arc::new(Inner { options, readers }))
    }

    /// What happened, without secrets.
    fn failure(&self) -> Failure<'_> {
        Failure { options: &self.0.options, last: None }
    }

    /// The same, with what a client has said.
    fn failure_of(&self, reader: &Reader) -> Failure<'_> {
        reader.listen();
        self.failure().by(&reader.watcher)
    }

    /// Runs a question on a thread, with a reader that is given back afterwards.
    async fn ask<T: Send + 'static>(
        &self,
        isolation: Isolation,
        question: impl FnOnce(&Self, &Reader) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let cluster = self.clone();
        threads::run("fluvial-kafka-ask", move || {
            let reader = cluster.0.readers.take(isolation, None)?;
            let answer = question(&cluster, &reader);
            // One that failed may be in any state: the next question has a new one.
            if answer.is_ok() {
                cluster.0.readers.give_back(isolation, reader);
            }
            answer
        })
        .await?
    }

    fn all_topics(&self, reader: &Reader) -> Result<BTreeMap<String, Topic>> {
        let found = reader.consumer.fetch_metadata(None, ASK);
        let metadata =
            found.map_err(|e| self.failure().by(&reader.watcher).of(&e, "list topics"))?;
        let mut topics = BTreeMap::new();
        for topic in metadata.topics() {
            let partitions = numbers(topic);
            topics.insert(topic.name().to_owned(), Topic { id: None, partitions });
        }
        Ok(topics)
    }

    fn topics_named(&self, reader: &Reader, names: &[String]) -> Result<BTreeMap<String, Topic>> {
        let mut found = BTreeMap::new();
        for name in names {
            let metadata = reader.consumer.fetch_metadata(Some(name), ASK);
            let what = format!("look at topic {name}");
            let metadata = metadata.map_err(|e| self.failure_of(reader).of(&e, &what))?;
            for topic in metadata.topics().iter().filter(|topic| topic.name() == name) {
                match topic.error().map(RDKafkaErrorCode::from) {
                    None => drop(found.insert(name.clone(), numbers(topic))),
                    Some(code) if errors::is_unknown(code) => {}
                    Some(code) => return Err(self.failure_of(reader).code(code, &what)),
                }
            }
        }
        reader.listen_for(&Vec::from_iter(found.keys().cloned()));
        let described = |(name, partitions): (String, Vec<i32>)| {
            let id = reader.watcher.topic_id(&name);
            (name, Topic { id, partitions })
        };
        Ok(found.into_iter().map(described).collect())
    }

    fn look_up(&self, reader: &Reader, wanted: &[(TopicPartition, Seek)]) -> Result<Offsets> {
        let failed = |e, what: &str| self.failure_of(reader).of(&e, what);
        let mut list = TopicPartitionList::with_capacity(wanted.len());
        for (place, seek) in wanted {
            let offset = match seek {
                Seek::Earliest => Offset::Beginning,
                Seek::Latest => Offset::End,
                Seek::Time(ms) => Offset::Offset(*ms),
            };
            list.add_partition_offset(&place.topic, place.partition, offset)
                .map_err(|e| failed(e, "look offsets up"))?;
        }
        let list = reader.consumer.offsets_for_times(list, ASK);
        let list = list.map_err(|e| failed(e, "look offsets up"))?;
        let mut offsets = Offsets::new();
        for element in list.elements() {
            let place = TopicPartition::new(element.topic(), element.partition());
            let what = format!("look up the offsets of {place}");
            element.error().map_err(|e| failed(e, &what))?;
            let offset = match element.offset() {
                Offset::Offset(offset) => Some(offset),
                _ => None,
            };
            offsets.insert(place, offset);
        }
        Ok(offsets)
    }

    fn admin(&self) -> Result<AdminClient<DefaultClientContext>> {
        let mut config = ClientConfig::new();
        for (name, value) in self.0.options.settings() {
            config.set(name, value);
        }
        config.remove("group.id");
        config.create().map_err(|e| self.failure().of(&e, "make a client"))
    }

    async fn create(&self, name: &str) -> Result<()> {
        let admin = self.admin()?;
        let topic = NewTopic::new(name, 1, TopicReplication::Fixed(-1))
            .set("cleanup.policy", "compact")
            .set("segment.ms", "3600000")
            .set("min.cleanable.dirty.ratio", "0.1");
        let what = format!("create topic {name}");
        let results = admin.create_topics([&topic], &admin_options()).await;
        for result in results.map_err(|e| self.failure().of(&e, &what))? {
            match result {
                Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((_, code)) => return Err(self.failure().code(code, &what)),
            }
        }
        let began = Instant::now();
        while self.topics(Names::Of(&[name])).await?.is_empty() {
            if began.elapsed() > NEW_TOPIC {
                let message = format!("topic {name} was created, but does not show up");
                return Err(Error::unavailable(message));
            }
            self.pause(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// A topic that drops old records would forget which batches were published.
    async fn check_compacted(&self, name: &str) -> Result<()> {
        let admin = self.admin()?;
        let wanted = ResourceSpecifier::Topic(name);
        let what = format!("look at the settings of topic {name}");
        let results = admin.describe_configs([&wanted], &admin_options()).await;
        for result in results.map_err(|e| self.failure().of(&e, &what))? {
            let policy = match &result {
                Ok(found) => found.get("cleanup.policy").and_then(|entry| entry.value.as_deref()),
                // Whoever may not look is taken at their word.
                Err(code) if errors::is_denied(*code) => continue,
                Err(code) => return Err(self.failure().code(*code, &what)),
            };
            if policy.is_some_and(|policy| policy != "compact") {
                return Err(Error::invalid(format!(
                    "topic {name} has cleanup.policy={}: set it to compact, or the record of \
                     what was published is lost one day",
                    policy.unwrap_or_default()
                ))
                .with_condition("KAFKA_CONTROL_TOPIC_NOT_COMPACTED"));
            }
        }
        Ok(())
    }
}

fn admin_options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(ASK)).operation_timeout(Some(ASK))
}

fn numbers(topic: &rdkafka::metadata::MetadataTopic) -> Vec<i32> {
    let mut numbers: Vec<i32> = topic.partitions().iter().map(|p| p.id()).collect();
    numbers.sort_unstable();
    numbers
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cluster").field(&self.0.options).finish()
    }
}

#[async_trait]
impl Broker for Cluster {
    async fn topics(&self, names: Names<'_>) -> Result<BTreeMap<String, Topic>> {
        let names = match names {
            Names::All => None,
            Names::Of(names) => Some(names.iter().map(|name| (*name).to_owned()).collect()),
        };
        self.ask(Isolation::ReadCommitted, move |cluster, reader| {
            let named = |names: Vec<String>| cluster.topics_named(reader, &names);
            names.map_or_else(|| cluster.all_topics(reader), named)
        })
        .await
    }

    async fn offsets(
        &self,
        wanted: &[(TopicPartition, Seek)],
        isolation: Isolation,
    ) -> Result<Offsets> {
        if wanted.is_empty() {
            return Ok(Offsets::new());
        }
        let wanted = wanted.to_vec();
        self.ask(isolation, move |cluster, reader| cluster.look_up(reader, &wanted)).await
    }

    fn fetch(
        &self,
        rows: RangeRows,
        isolation: Isolation,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        fetching::fetch(self.clone(), rows, isolation)
    }

    async fn transactions(&self, id: &str) -> Result<Box<dyn Transactions>> {
        let (cluster, id) = (self.clone(), id.to_owned());
        let what = "begin to write transactions";
        let opened = move || RdTransactions::open(&cluster.0.options, &id);
        Ok(Box::new(threads::run(what, opened).await??))
    }

    async fn send(&self, records: &[Outgoing]) -> Result<()> {
        let (cluster, records) = (self.clone(), records.to_vec());
        threads::run("fluvial-kafka-send", move || {
            let producer = BatchProducer::new(&cluster.0.options, None)?;
            producer.send(&records)?;
            producer.flush()
        })
        .await?
    }

    async fn create_compacted(&self, topic: &str) -> Result<()> {
        match self.topics(Names::Of(&[topic])).await?.is_empty() {
            true => self.create(topic).await,
            false => self.check_compacted(topic).await,
        }
    }

    async fn pause(&self, duration: Duration) {
        // A thread that cannot be had is no reason not to go on: the pause is only shorter.
        let _ = threads::run("fluvial-kafka-pause", move || std::thread::sleep(duration)).await;
    }
}
