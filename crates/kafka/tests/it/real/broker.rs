//! The broker, topics on it, and readers that are not ours.

use crate::rows;
use fluvial_core::Options;
use fluvial_kafka::{ClientOptions, Cluster, KafkaSink, SinkOptions};
use futures::executor::block_on;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Message, Offset, TopicPartitionList};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

pub(super) const WAIT: Duration = Duration::from_secs(30);

/// A broker to test on.
pub(super) struct Real {
    pub(super) servers: String,
}

impl Real {
    /// The one that the environment names; says so if it names none.
    pub(super) fn get() -> Option<Self> {
        match std::env::var("FLUVIAL_KAFKA") {
            Ok(servers) => Some(Self { servers }),
            Err(_) => {
                println!("SKIPPED: there is no broker; cargo xtask kafka test starts one");
                None
            }
        }
    }

    pub(super) fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.servers);
        config
    }

    pub(super) fn cluster(&self) -> Cluster {
        let pairs = [("kafka.bootstrap.servers", self.servers.as_str())];
        Cluster::new(ClientOptions::take(&mut Options::new(pairs)).unwrap())
    }

    pub(super) fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config().create().unwrap()
    }

    /// Makes a topic, and waits until it is there.
    pub(super) fn create(&self, topic: &str, partitions: i32) {
        let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
        let made = block_on(self.admin().create_topics([&new], &AdminOptions::new()));
        made.unwrap().into_iter().for_each(|result| drop(result.unwrap()));
        self.until(topic, |found| found == Some(partitions as usize));
    }

    pub(super) fn delete(&self, topic: &str) {
        let gone = block_on(self.admin().delete_topics(&[topic], &AdminOptions::new()));
        gone.unwrap().into_iter().for_each(|result| drop(result.unwrap()));
        self.until(topic, |found| found.is_none());
    }

    /// Waits for a number of partitions.
    pub(super) fn until(&self, topic: &str, wanted: impl Fn(Option<usize>) -> bool) {
        let consumer: BaseConsumer = self.config().create().unwrap();
        loop {
            let all = consumer.fetch_metadata(None, WAIT).unwrap();
            let found = all.topics().iter().find(|found| found.name() == topic);
            let ready = |topic: &rdkafka::metadata::MetadataTopic| {
                topic.partitions().iter().all(|partition| partition.leader() >= 0)
            };
            let count = found.filter(|topic| ready(topic)).map(|topic| topic.partitions().len());
            if wanted(count.filter(|count| *count > 0)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(super) fn producer(&self, id: Option<&str>) -> BaseProducer {
        let mut config = self.config();
        if let Some(id) = id {
            config.set("transactional.id", id);
        }
        let producer: BaseProducer = config.create().unwrap();
        if id.is_some() {
            producer.init_transactions(WAIT).unwrap();
        }
        producer
    }

    /// What another client reads of a partition, of committed transactions only.
    pub(super) fn committed(&self, topic: &str, partition: i32) -> Vec<String> {
        let mut config = self.config();
        config.set("group.id", "judge").set("enable.partition.eof", "true");
        config.set("isolation.level", "read_committed");
        let consumer: BaseConsumer = config.create().unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
        consumer.assign(&list).unwrap();
        let mut values = Vec::new();
        loop {
            match consumer.poll(WAIT).expect("the broker answers") {
                Ok(message) => {
                    let value = message.payload().unwrap_or_default();
                    values.push(String::from_utf8_lossy(value).into_owned());
                }
                Err(rdkafka::error::KafkaError::PartitionEOF(_)) => return values,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// What kcat reads of a topic, sorted; `None` if it is not installed.
    pub(super) fn kcat(&self, topic: &str) -> Option<Vec<String>> {
        let committed = "isolation.level=read_committed";
        let read = ["-C", "-t", topic, "-o", "beginning", "-e", "-q", "-X", committed];
        let output = Command::new("kcat").args(["-b", &self.servers]).args(read).output().ok()?;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut lines: Vec<String> =
            String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
        lines.sort();
        Some(lines)
    }

    pub(super) fn sink_options(&self, topic: &str) -> SinkOptions {
        let mut options = Options::new([("topic", topic)]);
        options.set("kafka.bootstrap.servers", self.servers.as_str());
        options.set("controlTopic", format!("{topic}-batches"));
        SinkOptions::parse(options).unwrap()
    }

    /// A sink, opened, of a query named after its topic.
    pub(super) fn sink(&self, topic: &str) -> (KafkaSink, Option<fluvial_core::BatchId>) {
        use fluvial_core::Sink;
        let sink = KafkaSink::new(Arc::new(self.cluster()), self.sink_options(topic));
        let last = block_on(sink.open(&rows::spec(topic, &rows::values(&[])))).unwrap();
        (sink, last)
    }
}

/// Sends values and waits for them.
pub(super) fn send(producer: &BaseProducer, topic: &str, partition: i32, values: &[&str]) {
    for value in values {
        let record: BaseRecord<'_, str, str> =
            BaseRecord::to(topic).partition(partition).payload(value);
        producer.send(record).map_err(|(error, _)| error).unwrap();
    }
    producer.flush(WAIT).unwrap();
}
