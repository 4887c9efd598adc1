//! Options of the source as users write them: Spark's.

use super::starting::{self, Bound, NoMatch, Side};
use super::subscription::Subscription;
use crate::broker::{Isolation, Seek};
use crate::client_options::ClientOptions;
use crate::range_rows::WithHeaders;
use fluvial_core::{Options, Result};
use std::num::NonZeroU64;
use std::time::Duration;

const KNOWN: &[&str] = &[
    "assign",
    "endingOffsets",
    "endingOffsetsByTimestamp",
    "endingTimestamp",
    "failOnDataLoss",
    "groupIdPrefix",
    "includeHeaders",
    "kafka.bootstrap.servers",
    "kafka.group.id",
    "kafkaConsumer.pollTimeoutMs",
    "maxOffsetsPerTrigger",
    "maxRecordsPerPartition",
    "maxTriggerDelay",
    "minOffsetsPerTrigger",
    "minPartitions",
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "startingTimestamp",
    "subscribe",
    "subscribePattern",
];

/// Spark tunes its own retries and caches with these; here the engine retries.
const NOT_YET: &[&str] = &["fetchOffset.numRetries", "fetchOffset.retryIntervalMs"];

/// Whether a source is read as a stream or once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceOptionsKind {
    /// As a stream: it starts at the latest offsets, and has no end.
    Stream,
    /// Once: from the earliest offsets to the latest ones of the moment.
    Batch,
}

/// What happens when records that a query has not read are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnLoss {
    Fail,
    Skip,
}

/// What a [`KafkaSource`](crate::KafkaSource) reads, and how.
#[derive(Debug, Clone)]
pub struct SourceOptions {
    pub(crate) client: ClientOptions,
    pub(crate) subscription: Subscription,
    pub(crate) start: Bound,
    pub(crate) no_match: NoMatch,
    /// The end of a batch read.
    pub(crate) end: Option<Bound>,
    pub(crate) on_loss: OnLoss,
    pub(crate) headers: WithHeaders,
    pub(crate) isolation: Isolation,
    pub(crate) offsets_max: Option<NonZeroU64>,
    pub(crate) offsets_min: Option<NonZeroU64>,
    pub(crate) delay_max: Duration,
    pub(crate) partitions_min: Option<NonZeroU64>,
    pub(crate) records_max: Option<NonZeroU64>,
}

impl SourceOptions {
    /// Reads the options.
    ///
    /// # Errors
    ///
    /// `Invalid`: an unknown option, one that is missing, or a value that is not allowed.
    pub fn parse(mut options: Options, kind: SourceOptionsKind) -> Result<Self> {
        options.refuse(NOT_YET)?;
        let mut client = ClientOptions::take(&mut options)?;
        let isolation = isolation(&mut client)?;
        let poll =
            options.take_duration("kafkaConsumer.pollTimeoutMs", Duration::from_millis(1))?;
        client.set_poll_timeout(poll.unwrap_or(Duration::from_secs(120)));
        client.set_group(options.take("groupIdPrefix"));
        let subscription = Subscription::take(&mut options)?;
        let earliest_or_latest = match kind {
            SourceOptionsKind::Stream => Seek::Latest,
            SourceOptionsKind::Batch => Seek::Earliest,
        };
        let start = Bound::take(&mut options, Side::Starting, earliest_or_latest)?;
        starting::check(&start, &subscription, Side::Starting)?;
        let end = match kind {
            SourceOptionsKind::Stream => {
                options.refuse(&Side::Ending.names())?;
                None
            }
            SourceOptionsKind::Batch => {
                let end = Bound::take(&mut options, Side::Ending, Seek::Latest)?;
                starting::check(&end, &subscription, Side::Ending)?;
                Some(end)
            }
        };
        let no_match = options.take_with(
            "startingOffsetsByTimestampStrategy",
            "'error' or 'latest'",
            |text| match text.to_ascii_lowercase().as_str() {
                "error" => Some(NoMatch::Error),
                "latest" => Some(NoMatch::Latest),
                _ => None,
            },
        )?;
        let loss = if options.take_bool("failOnDataLoss")?.unwrap_or(true) {
            OnLoss::Fail
        } else {
            OnLoss::Skip
        };
        let headers = if options.take_bool("includeHeaders")?.unwrap_or(false) {
            WithHeaders::Yes
        } else {
            WithHeaders::No
        };
        let parsed = Self {
            client,
            subscription,
            start,
            no_match: no_match.unwrap_or(NoMatch::Error),
            end,
            on_loss: loss,
            headers,
            isolation,
            offsets_max: options.take_positive("maxOffsetsPerTrigger")?,
            offsets_min: options.take_positive("minOffsetsPerTrigger")?,
            delay_max: options
                .take_duration("maxTriggerDelay", Duration::from_millis(1))?
                .unwrap_or(Duration::from_secs(15 * 60)),
            partitions_min: options.take_positive("minPartitions")?,
            records_max: options.take_positive("maxRecordsPerPartition")?,
        };
        options.finish(KNOWN)?;
        parsed.check_limits()?;
        Ok(parsed)
    }

    /// The settings of the client that reads.
    pub fn client(&self) -> &ClientOptions {
        &self.client
    }

    fn check_limits(&self) -> Result<()> {
        match (self.offsets_min, self.offsets_max) {
            (Some(min), Some(max)) if min > max => Err(Options::invalid_value(
                "minOffsetsPerTrigger",
                &min.to_string(),
                &format!("at most maxOffsetsPerTrigger, which is {max}"),
            )),
            _ => Ok(()),
        }
    }
}

/// What is committed is read, unless asked otherwise; Kafka's own clients in Java read everything.
fn isolation(client: &mut ClientOptions) -> Result<Isolation> {
    match client.remove("isolation.level").as_deref() {
        None | Some("read_committed") => Ok(Isolation::ReadCommitted),
        Some("read_uncommitted") => Ok(Isolation::ReadUncommitted),
        Some(other) => Err(Options::invalid_value(
            "kafka.isolation.level",
            other,
            "read_committed or read_uncommitted",
        )),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn parse(pairs: &[(&str, &str)]) -> Result<SourceOptions> {
        let mut options = Options::new(pairs.iter().copied());
        options.set("kafka.bootstrap.servers", "b:9092");
        if options.peek("assign").is_none() && options.peek("subscribePattern").is_none() {
            options.set("subscribe", "t");
        }
        SourceOptions::parse(options, SourceOptionsKind::Stream)
    }

    #[test]
    fn defaults_are_sparks_but_for_what_is_committed() {
        let options = parse(&[]).unwrap();
        assert_eq!(options.start, Bound::All(Seek::Latest));
        assert_eq!(options.on_loss, OnLoss::Fail);
        assert_eq!(options.isolation, Isolation::ReadCommitted);
        assert_eq!(options.delay_max, Duration::from_secs(900));
        assert_eq!((options.offsets_max, options.partitions_min), (None, None));
        let mut batch = Options::new([("kafka.bootstrap.servers", "b"), ("subscribe", "t")]);
        batch.set("endingOffsets", "latest");
        let batch = SourceOptions::parse(batch, SourceOptionsKind::Batch).unwrap();
        assert_eq!(batch.start, Bound::All(Seek::Earliest));
        assert_eq!(batch.end, Some(Bound::All(Seek::Latest)));
    }

    #[test]
    fn wrong_ones_are_refused_by_name() {
        for (name, text, condition) in [
            ("maxOffsetPerTrigger", "1", "UNKNOWN_OPTION"),
            ("maxOffsetsPerTrigger", "0", "INVALID_OPTION_VALUE"),
            ("failOnDataLoss", "maybe", "INVALID_OPTION_VALUE"),
            ("startingOffsetsByTimestampStrategy", "earliest", "INVALID_OPTION_VALUE"),
            ("kafka.isolation.level", "some", "INVALID_OPTION_VALUE"),
            ("endingOffsets", "latest", "OPTION_NOT_SUPPORTED"),
            ("fetchOffset.numRetries", "1", "OPTION_NOT_SUPPORTED"),
            ("startingOffsets", r#"{"u":{"0":1}}"#, "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED"),
        ] {
            let error = parse(&[(name, text)]).unwrap_err();
            assert_eq!(error.condition(), Some(condition), "{name}: {error}");
        }
        let error = parse(&[("minOffsetsPerTrigger", "9"), ("maxOffsetsPerTrigger", "8")]);
        assert!(error.unwrap_err().message().contains("minOffsetsPerTrigger"));
        let hint = parse(&[("maxOffsetPerTrigger", "1")]).unwrap_err();
        assert!(hint.message().contains("maxOffsetsPerTrigger"), "{hint}");
    }
}
