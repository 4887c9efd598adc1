//! Options of the sink as users write them: Spark's, and how surely a batch is written once.

use crate::client_options::ClientOptions;
use crate::source::is_topic;
use fluvial_core::{Options, Result};
use std::sync::Arc;

const KNOWN: &[&str] = &[
    "controlTopic",
    "deliveryGuarantee",
    "includeHeaders",
    "kafka.bootstrap.servers",
    "topic",
    "transactionalIdPrefix",
];

/// How often a reader finds the rows of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Once, for those who read what is committed.
    ExactlyOnce,
    /// Once or, after a crash, again: for clusters without transactions.
    AtLeastOnce,
}

/// Where a [`KafkaSink`](crate::KafkaSink) writes, and how.
#[derive(Debug, Clone)]
pub struct SinkOptions {
    pub(crate) client: ClientOptions,
    /// The topic of all rows; a column `topic` counts only without it.
    pub(crate) topic: Option<Arc<str>>,
    pub(crate) delivery: Delivery,
    /// Where batches and notes are recorded.
    pub(crate) control: Arc<str>,
    pub(crate) prefix: String,
}

impl SinkOptions {
    /// Reads the options.
    ///
    /// # Errors
    ///
    /// `Invalid`: an unknown option, one that is missing, or a value that is not allowed.
    pub fn parse(mut options: Options) -> Result<Self> {
        let client = ClientOptions::take(&mut options)?;
        let name = "the name of a topic";
        let topic = |text: &str| is_topic(text).then(|| Arc::from(text));
        let guarantee = "exactly-once or at-least-once";
        let delivery = options.take_with("deliveryGuarantee", guarantee, |text| {
            match text.to_ascii_lowercase().as_str() {
                "exactly-once" => Some(Delivery::ExactlyOnce),
                "at-least-once" => Some(Delivery::AtLeastOnce),
                _ => None,
            }
        })?;
        // As in Spark, headers are written if the column is there.
        options.take_bool("includeHeaders")?;
        let parsed = Self {
            client,
            topic: options.take_with("topic", name, topic)?,
            delivery: delivery.unwrap_or(Delivery::ExactlyOnce),
            control: options
                .take_with("controlTopic", name, topic)?
                .unwrap_or_else(|| "fluvial-batches".into()),
            prefix: options.take("transactionalIdPrefix").unwrap_or_else(|| "fluvial".into()),
        };
        options.finish(KNOWN)?;
        Ok(parsed)
    }

    /// The settings of the client that writes.
    pub fn client(&self) -> &ClientOptions {
        &self.client
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn parse(pairs: &[(&str, &str)]) -> Result<SinkOptions> {
        let mut options = Options::new(pairs.iter().copied());
        options.set("kafka.bootstrap.servers", "b:9092");
        SinkOptions::parse(options)
    }

    #[test]
    fn once_is_the_default() {
        let options = parse(&[]).unwrap();
        assert_eq!(options.delivery, Delivery::ExactlyOnce);
        assert_eq!((options.topic.as_deref(), &*options.control), (None, "fluvial-batches"));
        let options = parse(&[("deliveryGuarantee", "AT-LEAST-ONCE"), ("topic", "t")]).unwrap();
        assert_eq!(options.delivery, Delivery::AtLeastOnce);
        assert_eq!(options.topic.as_deref(), Some("t"));
    }

    #[test]
    fn wrong_ones_are_refused_by_name() {
        for (name, text, condition) in [
            ("topics", "t", "UNKNOWN_OPTION"),
            ("topic", "a b", "INVALID_OPTION_VALUE"),
            ("deliveryGuarantee", "twice", "INVALID_OPTION_VALUE"),
            ("kafka.transactional.id", "x", "OPTION_NOT_SUPPORTED"),
        ] {
            let error = parse(&[(name, text)]).unwrap_err();
            assert_eq!(error.condition(), Some(condition), "{name}: {error}");
        }
    }
}
