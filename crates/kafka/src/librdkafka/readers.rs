//! Consumers, used again.

use super::errors::Failure;
use super::watcher::Watcher;
use crate::broker::{Isolation, TopicPartition};
use crate::client_options::ClientOptions;
use fluvial_core::Result;
use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::BaseConsumer;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long to listen to what a client has said, and how often for what it has not.
const LISTEN: Duration = Duration::from_millis(5);
const LISTENS_MAX: usize = 40;
/// So many readers are kept while they have nothing to do.
const IDLE_MAX: usize = 64;

/// What is set unless the user sets it: a range may end where nothing comes any more, which a
/// broker says only after this wait; and readers that are kept hold what they have fetched.
const DEFAULTS: &[(&str, &str)] = &[
    ("fetch.wait.max.ms", "100"),
    ("fetch.queue.backoff.ms", "20"),
    ("queued.max.messages.kbytes", "16384"),
    ("socket.nagle.disable", "true"),
];

/// What the source needs.
const FIXED: &[(&str, &str)] = &[
    ("allow.auto.create.topics", "false"),
    ("auto.offset.reset", "error"),
    ("debug", "metadata"),
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("enable.partition.eof", "true"),
];

/// A consumer without a group, and where it stands.
pub(super) struct Reader {
    pub(super) consumer: BaseConsumer<Watcher>,
    pub(super) watcher: Watcher,
    /// The partition it fetches, and the next offset it delivers.
    pub(super) at: Option<(TopicPartition, i64)>,
}

impl Reader {
    /// Lets the watcher hear what the client has said until now: it speaks when it is polled.
    pub(super) fn listen(&self) {
        // What is polled here are events of the client: nothing is assigned to a reader that asks.
        let _ = self.consumer.poll(LISTEN);
    }

    /// The same, and waits a moment for the ids of topics.
    pub(super) fn listen_for(&self, topics: &[String]) {
        self.listen();
        for _ in 0..LISTENS_MAX {
            if topics.iter().all(|topic| self.watcher.topic_id(topic).is_some()) {
                return;
            }
            self.listen();
        }
    }
}

/// Readers that have nothing to do.
pub(super) struct Readers {
    options: ClientOptions,
    idle: Mutex<Vec<(Isolation, Reader)>>,
}

impl Readers {
    pub(super) fn new(options: ClientOptions) -> Self {
        Self { options, idle: Mutex::default() }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<(Isolation, Reader)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A reader; the one that stands at `wanted`, if there is one. Questions take one that
    /// fetches nothing.
    pub(super) fn take(
        &self,
        isolation: Isolation,
        wanted: Option<(&TopicPartition, i64)>,
    ) -> Result<Reader> {
        let mut idle = self.idle();
        let of = |entry: &(Isolation, Reader), wanted: Option<(&TopicPartition, i64)>| {
            let at = entry.1.at.as_ref().map(|(place, next)| (place, *next));
            entry.0 == isolation && at == wanted
        };
        // Another one that reads the same partition has its connection to the leader.
        let near = |entry: &(Isolation, Reader)| {
            let reads = entry.1.at.as_ref().map(|(place, _)| place);
            entry.0 == isolation && wanted.is_some_and(|(place, _)| reads == Some(place))
        };
        let exact = idle.iter().position(|entry| of(entry, wanted));
        let fits = exact.or_else(|| idle.iter().position(near));
        if let Some(index) = fits {
            return Ok(idle.swap_remove(index).1);
        }
        drop(idle);
        self.make(isolation)
    }

    /// Keeps a reader for later.
    pub(super) fn give_back(&self, isolation: Isolation, reader: Reader) {
        let mut idle = self.idle();
        let oldest = (idle.len() >= IDLE_MAX).then(|| idle.remove(0));
        idle.push((isolation, reader));
        drop(idle);
        // Closing a client takes a while.
        drop(oldest);
    }

    fn make(&self, isolation: Isolation) -> Result<Reader> {
        let mut config = ClientConfig::new();
        config.set("group.id", "fluvial");
        for (name, value) in DEFAULTS.iter().copied().chain(self.options.settings()) {
            config.set(name, value);
        }
        for (name, value) in FIXED {
            config.set(*name, *value);
        }
        config.set(
            "isolation.level",
            match isolation {
                Isolation::ReadCommitted => "read_committed",
                Isolation::ReadUncommitted => "read_uncommitted",
            },
        );
        config.set_log_level(RDKafkaLogLevel::Debug);
        let watcher = Watcher::default();
        let consumer = config
            .create_with_context(watcher.clone())
            .map_err(|e| Failure { options: &self.options, last: None }.of(&e, "make a client"))?;
        Ok(Reader { consumer, watcher, at: None })
    }
}
