//! What librdkafka says on its own account: the ids of topics, and why nothing works.
//!
//! Its interface has no ids of topics, but its log names them when a client meets a topic and when
//! the id changes: `Topic clicks changed id from AAAA.. to kQ7n..`. That is read here; where a
//! version of librdkafka says it in other words there are no ids, and a topic that was made again
//! is noticed by its offsets alone.

use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The id of no topic.
const ZERO: &str = "AAAAAAAAAAAAAAAAAAAAAA";

/// Listens to one client.
#[derive(Debug, Clone, Default)]
pub(super) struct Watcher(Arc<Mutex<Heard>>);

#[derive(Debug, Default)]
struct Heard {
    ids: BTreeMap<String, String>,
    error: Option<(RDKafkaErrorCode, String)>,
}

impl Watcher {
    fn heard<T>(&self, f: impl FnOnce(&mut Heard) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The id of a topic that the client has met.
    pub(super) fn topic_id(&self, topic: &str) -> Option<String> {
        self.heard(|heard| heard.ids.get(topic).cloned())
    }

    /// What went wrong last.
    pub(super) fn last_error(&self) -> Option<(RDKafkaErrorCode, String)> {
        self.heard(|heard| heard.error.clone())
    }
}

/// The topic and its id in a line of the log.
fn topic_and_id(line: &str) -> Option<(&str, &str)> {
    let (head, tail) = line.split_once(" changed id from ")?;
    let topic = head.rsplit_once("Topic ").map_or(head, |(_, topic)| topic);
    let id = tail.rsplit_once(" to ")?.1.trim();
    (id != ZERO && !id.is_empty()).then_some((topic, id))
}

impl ClientContext for Watcher {
    fn log(&self, _level: RDKafkaLogLevel, _facility: &str, line: &str) {
        if let Some((topic, id)) = topic_and_id(line) {
            self.heard(|heard| heard.ids.insert(topic.to_owned(), id.to_owned()));
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        if let Some(code) = error.rdkafka_error_code() {
            self.heard(|heard| match &heard.error {
                // That all brokers are down tells less than why they are.
                Some(_) if code == RDKafkaErrorCode::AllBrokersDown => {}
                _ => heard.error = Some((code, reason.to_owned())),
            });
        }
    }
}

impl ConsumerContext for Watcher {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_in_the_log() {
        let line = "[thrd:main]: Topic a.b changed id from AAAAAAAAAAAAAAAAAAAAAA to kQ7nZ0bV";
        assert_eq!(topic_and_id(line), Some(("a.b", "kQ7nZ0bV")));
        let gone = "[thrd:main]: Topic a.b changed id from kQ7n to AAAAAAAAAAAAAAAAAAAAAA";
        assert_eq!(topic_and_id(gone), None);
        assert_eq!(topic_and_id("Topic a.b [0] Leader 1 Epoch 0"), None);
    }

    #[test]
    fn the_cause_is_kept_rather_than_its_effect() {
        let watcher = Watcher::default();
        let say = |code, reason| watcher.error(KafkaError::Global(code), reason);
        say(RDKafkaErrorCode::Authentication, "wrong password");
        say(RDKafkaErrorCode::AllBrokersDown, "1/1 brokers are down");
        assert_eq!(watcher.last_error().unwrap().1, "wrong password");
    }
}
