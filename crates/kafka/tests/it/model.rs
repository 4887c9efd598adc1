//! A broker in memory, as clients see it: logs with gaps, transactions, fencing, retention, topics
//! that are made again.
//!
//! Every call of a client is a step of its process on the simulated disk, so the conformance kit
//! can crash it, fail it and lose its answers: a call has had its effect iff its object is there.

mod state;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use fluvial_core::{Error, Result};
use fluvial_kafka::RangeRows;
use fluvial_kafka::broker::{
    Broker, Headers, Incoming, Isolation, Names, Offsets, Outgoing, Seek, Topic, TopicPartition,
    Transactions,
};
use futures::TryStreamExt;
use futures::stream::{self, BoxStream, StreamExt};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
pub(crate) use state::State;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The brokers and what they keep: what survives every client.
#[derive(Clone, Default)]
pub(crate) struct Model(Arc<Mutex<State>>);

impl Model {
    /// Looks at it, or changes it, from outside.
    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.0.lock().unwrap())
    }

    /// A client in the process whose store this is.
    pub(crate) fn client(&self, store: Arc<dyn ObjectStore>) -> Client {
        Client { model: self.clone(), store }
    }
}

/// A client of one process.
#[derive(Clone)]
pub(crate) struct Client {
    model: Model,
    store: Arc<dyn ObjectStore>,
}

fn broken(error: object_store::Error) -> Error {
    Error::unavailable("the broker was not reached").with_source(error)
}

impl Client {
    /// One call, and its effect unless something comes in between.
    async fn call<T: Send + 'static>(
        &self,
        effect: impl FnOnce(&mut State) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.settle().await?;
        let slot = Arc::new(Mutex::new(None));
        let answer = Arc::clone(&slot);
        let path = self.model.with(|state| {
            state.expect(Box::new(move |state| *slot.lock().unwrap() = Some(effect(state))))
        });
        let _waits = Waits { model: &self.model, path: &path };
        self.store.put(&Path::from(path.as_str()), "".into()).await.map_err(broken)?;
        self.model.with(|state| state.arrived(&path));
        let answer = answer.lock().unwrap().take();
        answer.unwrap()
    }

    /// Lets calls have their effect whose answers were lost.
    pub(crate) async fn settle(&self) -> Result<()> {
        let (Some(first), ended) = self.model.with(|state| state.unnoticed()) else {
            return Ok(());
        };
        // Everything behind the object in front of the first one.
        let number: u64 = first["kafka/".len()..].parse().unwrap();
        let from = Path::from(format!("kafka/{:08}-", number.saturating_sub(1)));
        let folder = Path::from("kafka");
        let listing = match number {
            0 => self.store.list(Some(&folder)),
            _ => self.store.list_with_offset(Some(&folder), &from),
        };
        let found: Vec<_> = listing.try_collect().await.map_err(broken)?;
        self.model.with(|state| {
            for object in found {
                state.arrived(object.location.as_ref());
            }
            for path in ended {
                state.lost(&path);
            }
        });
        Ok(())
    }
}

/// Somebody waits for a call.
struct Waits<'a> {
    model: &'a Model,
    path: &'a str,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.model.with(|state| state.ended(self.path));
    }
}

/// Headers of a record in the log.
#[derive(Debug)]
struct Pairs<'a>(&'a [(String, Option<Bytes>)]);

impl Headers for Pairs<'_> {
    fn visit(&self, each: &mut dyn FnMut(&str, Option<&[u8]>)) {
        for (name, value) in self.0 {
            each(name, value.as_deref());
        }
    }
}

#[async_trait]
impl Broker for Client {
    async fn topics(&self, names: Names<'_>) -> Result<BTreeMap<String, Topic>> {
        let names = match names {
            Names::All => None,
            Names::Of(names) => Some(Vec::from_iter(names.iter().map(|name| name.to_string()))),
        };
        self.call(move |state| Ok(state.describe(names.as_deref()))).await
    }

    async fn offsets(
        &self,
        wanted: &[(TopicPartition, Seek)],
        isolation: Isolation,
    ) -> Result<Offsets> {
        let wanted = wanted.to_vec();
        self.call(move |state| {
            wanted
                .into_iter()
                .map(|(place, seek)| {
                    let offset = state.offset(&place, seek, isolation)?;
                    Ok((place, offset))
                })
                .collect()
        })
        .await
    }

    fn fetch(
        &self,
        rows: RangeRows,
        isolation: Isolation,
    ) -> BoxStream<'static, Result<RecordBatch>> {
        stream::try_unfold((self.clone(), rows), move |(client, mut rows)| async move {
            while !rows.is_done() {
                let (place, from, until) = (rows.place().clone(), rows.next_offset(), rows.until());
                let read = client.call(move |state| state.read(&place, from, isolation)).await?;
                for record in &read.records {
                    let headers = Pairs(&record.headers);
                    rows.push(&Incoming {
                        offset: record.offset,
                        key: record.key.as_deref(),
                        value: record.value.as_deref(),
                        timestamp_ms: record.timestamp_ms,
                        timestamp_type: 0,
                        headers: (!record.headers.is_empty()).then_some(&headers),
                    });
                }
                rows.reached(read.position.unwrap_or(until));
                if let Some(batch) = rows.take()? {
                    return Ok(Some((batch, (client, rows))));
                }
            }
            Ok(None)
        })
        .boxed()
    }

    async fn transactions(&self, id: &str) -> Result<Box<dyn Transactions>> {
        let name = id.to_owned();
        let epoch = self.call(move |state| Ok(state.take_over(&name))).await?;
        Ok(Box::new(Producer { client: self.clone(), id: id.to_owned(), epoch }))
    }

    async fn send(&self, records: &[Outgoing]) -> Result<()> {
        for record in records.iter().cloned() {
            self.call(move |state| state.append(record, None)).await?;
        }
        Ok(())
    }

    async fn create_compacted(&self, topic: &str) -> Result<()> {
        let topic = topic.to_owned();
        self.call(move |state| {
            state.create_if_absent(&topic, 1);
            Ok(())
        })
        .await
    }

    async fn pause(&self, duration: Duration) {
        fluvial_sim::yield_now().await;
        self.model.with(|state| state.pass(duration));
    }
}

struct Producer {
    client: Client,
    id: String,
    epoch: u64,
}

#[async_trait]
impl Transactions for Producer {
    async fn begin(&mut self) -> Result<()> {
        // The client's own affair, as with Kafka: the brokers learn of it with the first record.
        Ok(())
    }

    async fn send(&mut self, records: &[Outgoing]) -> Result<()> {
        for record in records.iter().cloned() {
            let (id, epoch) = (self.id.clone(), self.epoch);
            self.client.call(move |state| state.append(record, Some((&id, epoch)))).await?;
        }
        Ok(())
    }

    async fn commit(&mut self) -> Result<()> {
        let (id, epoch) = (self.id.clone(), self.epoch);
        self.client.call(move |state| state.commit(&id, epoch)).await
    }
}
