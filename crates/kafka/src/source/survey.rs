//! What the brokers have now, held against where the query stands: what is new, what is gone.
//!
//! Decides and asks nobody.

use super::position::Position;
use super::subscription::{Found, Subscription};
use crate::broker::{Offsets, TopicPartition};
use fluvial_core::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Something that the query has not read and never will.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Loss {
    pub(crate) condition: &'static str,
    pub(crate) message: String,
    /// How many offsets are known to be gone.
    pub(crate) offsets: u64,
}

impl Loss {
    /// As an error, for those who want to be told.
    pub(crate) fn error(&self) -> Error {
        Error::not_found(format!(
            "{}: start again with a new checkpoint, or set failOnDataLoss to false to go on \
             without what is gone",
            self.message
        ))
        .with_condition(self.condition)
    }
}

/// What became of the partitions since the last batch.
pub(crate) struct Survey {
    /// Where each partition goes on whose place is known without asking.
    pub(crate) known: BTreeMap<TopicPartition, i64>,
    /// Partitions that begin at their earliest offset: new ones, and those of a topic that was
    /// made again.
    pub(crate) begin: BTreeSet<TopicPartition>,
    /// Of these, the ones that are new.
    pub(crate) new: BTreeSet<TopicPartition>,
    pub(crate) losses: Vec<Loss>,
}

/// Compares the partitions and the ids of their topics.
///
/// # Errors
///
/// `Invalid` if the query stands in a partition that the subscription does not read.
pub(crate) fn survey(
    start: &Position,
    found: &Found,
    subscription: &Subscription,
) -> Result<Survey> {
    let mut survey = Survey {
        known: BTreeMap::new(),
        begin: BTreeSet::new(),
        new: BTreeSet::new(),
        losses: Vec::new(),
    };
    let remade = remade(start, found);
    for topic in &remade {
        survey.losses.push(Loss {
            condition: "KAFKA_DATA_LOSS.TOPIC_RECREATED",
            message: format!(
                "topic {topic} was deleted and made again since the last batch; its offsets \
                 mean other records now"
            ),
            offsets: 0,
        });
    }
    for (place, next) in &start.offsets {
        if !subscription.wants(place) {
            return Err(Error::invalid(format!(
                "the checkpoint has read {place}, which is not part of {subscription}: use the \
                 subscription that the query began with, or a new checkpoint"
            ))
            .with_condition("KAFKA_SUBSCRIPTION_CHANGED"));
        }
        if remade.contains(place.topic.as_ref()) {
            continue;
        }
        if found.partitions.contains(place) {
            survey.known.insert(place.clone(), *next);
        } else {
            survey.losses.push(Loss {
                condition: "KAFKA_DATA_LOSS.PARTITIONS_DELETED",
                message: format!("{place} is gone; the query would go on at offset {next}"),
                offsets: 0,
            });
        }
    }
    for place in found.partitions.iter().filter(|place| !survey.known.contains_key(place)) {
        survey.begin.insert(place.clone());
        if !start.offsets.contains_key(place) && !remade.contains(place.topic.as_ref()) {
            survey.new.insert(place.clone());
        }
    }
    Ok(survey)
}

/// The topics whose id is another one than before.
pub(crate) fn remade(start: &Position, found: &Found) -> BTreeSet<String> {
    let other = |(topic, id): &(&String, &String)| {
        found.ids.get(topic.as_str()).is_some_and(|now| now != *id)
    };
    start.ids.iter().filter(other).map(|(topic, _)| topic.clone()).collect()
}

impl Survey {
    /// Holds the places against the ends of their logs; where each partition goes on.
    pub(crate) fn place(
        &mut self,
        earliest: &Offsets,
        latest: &Offsets,
    ) -> Result<BTreeMap<TopicPartition, i64>> {
        use super::starting::answered;
        let mut from = BTreeMap::new();
        for place in &self.begin {
            let first = answered(earliest, place)?;
            if self.new.contains(place) && first > 0 {
                self.losses.push(Loss {
                    condition: "KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
                    message: format!("{place} is new, and its first offset is {first}, not 0"),
                    offsets: first.unsigned_abs(),
                });
            }
            from.insert(place.clone(), first);
        }
        for (place, next) in &self.known {
            let (first, end) = (answered(earliest, place)?, answered(latest, place)?);
            let resumed = if *next < first || *next > end { first } else { *next };
            if resumed != *next {
                let why =
                    if *next < first { "retention has passed it" } else { "the log is shorter" };
                self.losses.push(Loss {
                    condition: "KAFKA_DATA_LOSS.START_OFFSET_RESET",
                    message: format!(
                        "{place}: the query would go on at offset {next}, but the log has {first} \
                         to {end} ({why})"
                    ),
                    offsets: u64::try_from(first.saturating_sub(*next)).unwrap_or(0),
                });
            }
            from.insert(place.clone(), resumed);
        }
        Ok(from)
    }
}
