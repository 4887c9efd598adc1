//! What the brokers keep, and what each request does to it.

use bytes::Bytes;
use fluvial_core::{Error, Result};
use fluvial_kafka::broker::{Isolation, Outgoing, Seek, Topic, TopicPartition};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// So many records come with one fetch.
const FETCH: usize = 3;
/// A transaction that is open for longer is aborted.
const TRANSACTION_MS: u64 = 60_000;

/// What a call does once it has arrived.
pub(crate) type Effect = Box<dyn FnOnce(&mut State) + Send>;

#[derive(Default)]
pub(crate) struct State {
    topics: BTreeMap<String, Made>,
    made: u64,
    producers: BTreeMap<String, ProducerState>,
    transactions: Vec<Status>,
    now_ms: u64,
    calls: u64,
    /// Calls that were sent, by the object that shows that they have arrived, and whether nobody
    /// waits for them any more.
    sent: BTreeMap<String, (Effect, bool)>,
}

struct Made {
    id: u64,
    logs: BTreeMap<i32, Log>,
}

#[derive(Default)]
struct Log {
    start: i64,
    next: i64,
    entries: Vec<Entry>,
}

struct Entry {
    offset: i64,
    /// None is the marker of an end of a transaction.
    record: Option<Record>,
    transaction: Option<usize>,
}

/// A record in the log.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) offset: i64,
    pub(crate) key: Option<Bytes>,
    pub(crate) value: Option<Bytes>,
    pub(crate) headers: Vec<(String, Option<Bytes>)>,
    pub(crate) timestamp_ms: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Open,
    Committed,
    Aborted,
}

#[derive(Default)]
struct ProducerState {
    epoch: u64,
    open: Option<Open>,
}

struct Open {
    transaction: usize,
    touched: BTreeSet<TopicPartition>,
    since_ms: u64,
}

/// What one fetch gives.
pub(crate) struct Read {
    pub(crate) records: Vec<Record>,
    /// Where the next fetch goes on; none at the end of the log.
    pub(crate) position: Option<i64>,
}

impl Log {
    fn push(&mut self, record: Option<Record>, transaction: Option<usize>) {
        let record = record.map(|record| Record { offset: self.next, ..record });
        self.entries.push(Entry { offset: self.next, record, transaction });
        self.next += 1;
    }

    /// The end for a reader: nothing behind the first open transaction is stable.
    fn end(&self, transactions: &[Status], isolation: Isolation) -> i64 {
        let open =
            |entry: &&Entry| entry.transaction.is_some_and(|t| transactions[t] == Status::Open);
        match isolation {
            Isolation::ReadUncommitted => self.next,
            Isolation::ReadCommitted => {
                self.entries.iter().find(open).map_or(self.next, |entry| entry.offset)
            }
        }
    }
}

impl State {
    /// Notes a call that was sent; the path of the object that shows its arrival.
    pub(crate) fn expect(&mut self, effect: Effect) -> String {
        let path = format!("kafka/{:08}", self.calls);
        self.calls += 1;
        self.sent.insert(path.clone(), (effect, false));
        path
    }

    /// Nobody waits for a call any more: it has arrived by now, or never will.
    pub(crate) fn ended(&mut self, path: &str) {
        if let Some((_, ended)) = self.sent.get_mut(path) {
            *ended = true;
        }
    }

    /// The first call that may have arrived unnoticed, and all that ended before now.
    pub(crate) fn unnoticed(&self) -> (Option<String>, Vec<String>) {
        let ended = self.sent.iter().filter(|(_, (_, ended))| *ended);
        (self.sent.keys().next().cloned(), ended.map(|(path, _)| path.clone()).collect())
    }

    /// A call never arrived.
    pub(crate) fn lost(&mut self, path: &str) {
        self.sent.remove(path);
    }

    /// A call has arrived: it has its effect, once.
    pub(crate) fn arrived(&mut self, path: &str) {
        if let Some((effect, _)) = self.sent.remove(path) {
            effect(self);
        }
    }

    /// Lets time pass.
    pub(crate) fn pass(&mut self, duration: Duration) {
        self.now_ms += duration.as_millis() as u64;
        let late: Vec<String> = self
            .producers
            .iter()
            .filter(|(_, producer)| {
                producer.open.as_ref().is_some_and(|o| o.since_ms + TRANSACTION_MS <= self.now_ms)
            })
            .map(|(id, _)| id.clone())
            .collect();
        for id in late {
            self.end(&id, Status::Aborted);
            self.producers.get_mut(&id).unwrap().epoch += 1;
        }
    }

    pub(crate) fn create_if_absent(&mut self, topic: &str, partitions: i32) {
        if !self.topics.contains_key(topic) {
            self.made += 1;
            let logs = (0..partitions).map(|p| (p, Log::default())).collect();
            self.topics.insert(topic.to_owned(), Made { id: self.made, logs });
        }
    }

    /// Deletes a topic and makes it again.
    pub(crate) fn remake(&mut self, topic: &str, partitions: i32) {
        self.topics.remove(topic);
        self.create_if_absent(topic, partitions);
    }

    pub(crate) fn delete(&mut self, topic: &str) {
        self.topics.remove(topic);
    }

    pub(crate) fn add_partition(&mut self, topic: &str) {
        let logs = &mut self.topics.get_mut(topic).unwrap().logs;
        logs.insert(logs.len() as i32, Log::default());
    }

    /// Retention deletes what lies before `start`.
    pub(crate) fn delete_before(&mut self, topic: &str, partition: i32, start: i64) {
        let log = self.topics.get_mut(topic).unwrap().logs.get_mut(&partition).unwrap();
        log.start = log.start.max(start);
        log.entries.retain(|entry| entry.offset >= start);
        log.next = log.next.max(start);
    }

    /// Compaction takes single records away.
    pub(crate) fn compact(&mut self, topic: &str, partition: i32, gone: &[i64]) {
        let log = self.topics.get_mut(topic).unwrap().logs.get_mut(&partition).unwrap();
        log.entries.retain(|entry| !gone.contains(&entry.offset));
    }

    pub(crate) fn describe(&self, names: Option<&[String]>) -> BTreeMap<String, Topic> {
        let wanted = |name: &&String| names.is_none_or(|names| names.contains(name));
        let topics = self.topics.iter().filter(|(name, _)| wanted(name));
        topics
            .map(|(name, made)| {
                let id = Some(format!("id-{}", made.id));
                (name.clone(), Topic { id, partitions: made.logs.keys().copied().collect() })
            })
            .collect()
    }

    fn log(&self, place: &TopicPartition) -> Result<&Log> {
        let topic = self.topics.get(place.topic.as_ref());
        topic.and_then(|made| made.logs.get(&place.partition)).ok_or_else(|| {
            Error::not_found(format!("{place} does not exist"))
                .with_condition("KAFKA_TOPIC_NOT_FOUND")
        })
    }

    pub(crate) fn offset(
        &self,
        place: &TopicPartition,
        seek: Seek,
        isolation: Isolation,
    ) -> Result<Option<i64>> {
        let log = self.log(place)?;
        Ok(match seek {
            Seek::Earliest => Some(log.start),
            Seek::Latest => Some(log.end(&self.transactions, isolation)),
            Seek::Time(ms) => {
                let records = log.entries.iter().filter_map(|entry| entry.record.as_ref());
                records.into_iter().find(|r| r.timestamp_ms >= ms).map(|r| r.offset)
            }
        })
    }

    pub(crate) fn read(
        &self,
        place: &TopicPartition,
        from: i64,
        isolation: Isolation,
    ) -> Result<Read> {
        let log = self.log(place)?;
        if from < log.start || from > log.next {
            return Err(Error::not_found(format!("{place} has no offset {from}"))
                .with_condition("KAFKA_OFFSET_OUT_OF_RANGE"));
        }
        let end = log.end(&self.transactions, isolation);
        let mut records = Vec::new();
        for entry in log.entries.iter().filter(|e| e.offset >= from && e.offset < end) {
            if records.len() == FETCH {
                return Ok(Read { records, position: Some(entry.offset) });
            }
            let status = entry.transaction.map(|t| self.transactions[t]);
            let hidden = isolation == Isolation::ReadCommitted && status == Some(Status::Aborted);
            records.extend(entry.record.clone().filter(|_| !hidden));
        }
        Ok(Read { records, position: None })
    }

    /// Becomes the producer under `id`; the epoch that counts from now on.
    pub(crate) fn take_over(&mut self, id: &str) -> u64 {
        self.end(id, Status::Aborted);
        let producer = self.producers.entry(id.to_owned()).or_default();
        producer.epoch += 1;
        producer.epoch
    }

    fn fenced(&mut self, id: &str, epoch: u64) -> Result<&mut ProducerState> {
        let producer = self.producers.get_mut(id).filter(|producer| producer.epoch == epoch);
        producer.ok_or_else(|| Error::fenced(format!("another producer writes as {id}")))
    }

    pub(crate) fn append(&mut self, record: Outgoing, by: Option<(&str, u64)>) -> Result<()> {
        let partitions = match self.topics.get(record.topic.as_ref()) {
            Some(made) => made.logs.len() as i32,
            None => return Err(Error::not_found(format!("no topic {}", record.topic))),
        };
        let hash = record.key.iter().flatten().fold(0u32, |h, b| h * 31 % 7919 + u32::from(*b));
        let partition = record.partition.unwrap_or((hash % partitions as u32) as i32);
        let place = TopicPartition::new(record.topic.to_string(), partition);
        let mut transaction = None;
        if let Some((id, epoch)) = by {
            let (now, new) = (self.now_ms, self.transactions.len());
            let producer = self.fenced(id, epoch)?;
            let open = producer.open.get_or_insert_with(|| Open {
                transaction: new,
                touched: BTreeSet::new(),
                since_ms: now,
            });
            open.touched.insert(place.clone());
            transaction = Some(open.transaction);
            if open.transaction == new {
                self.transactions.push(Status::Open);
            }
        }
        let logs = &mut self.topics.get_mut(record.topic.as_ref()).unwrap().logs;
        let Some(log) = logs.get_mut(&partition) else {
            return Err(Error::invalid(format!("{place} does not exist")));
        };
        let Outgoing { key, value, headers, .. } = record;
        let timestamp_ms = log.next * 1000;
        log.push(Some(Record { offset: 0, key, value, headers, timestamp_ms }), transaction);
        Ok(())
    }

    pub(crate) fn commit(&mut self, id: &str, epoch: u64) -> Result<()> {
        self.fenced(id, epoch)?;
        self.end(id, Status::Committed);
        Ok(())
    }

    /// Ends a producer's transaction, if one is open: a marker in each partition.
    pub(crate) fn end_open(&mut self, id: &str, committed: bool) {
        self.end(id, if committed { Status::Committed } else { Status::Aborted });
    }

    fn end(&mut self, id: &str, status: Status) {
        let producer = self.producers.get_mut(id);
        let Some(open) = producer.and_then(|producer| producer.open.take()) else { return };
        self.transactions[open.transaction] = status;
        for place in open.touched {
            let made = self.topics.get_mut(place.topic.as_ref());
            if let Some(log) = made.and_then(|made| made.logs.get_mut(&place.partition)) {
                log.push(None, Some(open.transaction));
            }
        }
    }

    /// The committed records of a partition.
    pub(crate) fn committed(&self, topic: &str, partition: i32) -> Vec<Record> {
        let (mut from, mut all) = (0, Vec::new());
        let place = TopicPartition::new(topic, partition);
        loop {
            from = self.log(&place).map_or(0, |log| log.start).max(from);
            let Ok(read) = self.read(&place, from, Isolation::ReadCommitted) else { return all };
            all.extend(read.records);
            match read.position {
                Some(position) => from = position,
                None => return all,
            }
        }
    }
}
