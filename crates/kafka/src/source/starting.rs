//! Where a new query starts, and where a batch read ends: offsets by name, by number, by time.

use super::subscription::Subscription;
use crate::broker::{Broker, Isolation, Offsets, Seek, TopicPartition};
use fluvial_core::{Error, Options, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// An offset to resolve, of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    At(i64),
    Look(Seek),
}

/// The offsets of a bound: the same for all partitions, or one for each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Bound {
    All(Seek),
    Each(BTreeMap<TopicPartition, Wanted>),
}

/// What a number in a bound by partition means.
type Number = fn(i64) -> Option<Wanted>;

/// Which bound: their options and rules differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Starting,
    Ending,
}

/// What to do if no record is as young as the time that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoMatch {
    Error,
    Latest,
}

impl Side {
    /// Its options, the one that counts first in front: by one time, by times, by offsets.
    pub(crate) fn names(self) -> [&'static str; 3] {
        match self {
            Self::Starting => {
                ["startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets"]
            }
            Self::Ending => ["endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets"],
        }
    }
}

impl Bound {
    /// Takes the options of `side`; the strongest that is given counts, as in Spark.
    pub(crate) fn take(options: &mut Options, side: Side, default: Seek) -> Result<Self> {
        let [time, times, offsets] = side.names();
        let millis = "milliseconds since the epoch";
        let time = options
            .take_with(time, millis, |text| text.parse().ok().filter(|ms: &i64| *ms >= 0))?;
        let json = r#"JSON such as {"topicA":{"0":1700000000000}}, in milliseconds"#;
        let times = options.take_with(times, json, |text| {
            each(text, |ms| (ms >= 0).then_some(Wanted::Look(Seek::Time(ms))))
        })?;
        let (expected, named, number): (_, &[(&str, Seek)], Number) = match side {
            Side::Starting => (
                r#"earliest, latest, or JSON such as {"topicA":{"0":23,"1":-2}}; -2 is earliest, -1 latest"#,
                &[("earliest", Seek::Earliest), ("latest", Seek::Latest)],
                starting,
            ),
            Side::Ending => (
                r#"latest, or JSON such as {"topicA":{"0":23,"1":-1}}; -1 is latest"#,
                &[("latest", Seek::Latest)],
                |n| starting(n).filter(|wanted| *wanted != Wanted::Look(Seek::Earliest)),
            ),
        };
        let offsets = options.take_with(offsets, expected, |text| {
            let seek = named.iter().find(|(name, _)| text.eq_ignore_ascii_case(name));
            match seek {
                Some((_, seek)) => Some(Self::All(*seek)),
                None => each(text, number).map(Self::Each),
            }
        })?;
        Ok(time
            .map(|ms| Self::All(Seek::Time(ms)))
            .or(times.map(Self::Each))
            .or(offsets)
            .unwrap_or(Self::All(default)))
    }

    /// The offsets of `partitions`.
    pub(crate) async fn resolve(
        &self,
        broker: &dyn Broker,
        partitions: &BTreeSet<TopicPartition>,
        isolation: Isolation,
        (side, no_match): (Side, NoMatch),
    ) -> Result<BTreeMap<TopicPartition, i64>> {
        if let Self::Each(each) = self {
            covers(each, partitions, side)?;
        }
        let wanted = |place: &TopicPartition| match self {
            Self::All(seek) => Wanted::Look(*seek),
            Self::Each(each) => each.get(place).copied().unwrap_or(Wanted::Look(Seek::Latest)),
        };
        let mut at = BTreeMap::new();
        let mut looks = Vec::new();
        for place in partitions {
            match wanted(place) {
                Wanted::At(offset) => drop(at.insert(place.clone(), offset)),
                Wanted::Look(seek) => looks.push((place.clone(), seek)),
            }
        }
        let found = broker.offsets(&looks, isolation).await?;
        let mut unmatched = Vec::new();
        for (place, seek) in looks {
            match (found.get(&place).copied().flatten(), seek) {
                (Some(offset), _) => drop(at.insert(place, offset)),
                (None, Seek::Time(ms)) if no_match == NoMatch::Error => {
                    return Err(Error::invalid(format!(
                        "{place} has no record as young as {ms} (milliseconds since the epoch): \
                         ask for an earlier time, or set startingOffsetsByTimestampStrategy to \
                         latest"
                    ))
                    .with_condition("KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED"));
                }
                (None, Seek::Time(_)) => unmatched.push((place, Seek::Latest)),
                (None, _) => return Err(unanswered(&place)),
            }
        }
        let latest = broker.offsets(&unmatched, isolation).await?;
        for (place, _) in unmatched {
            let offset = answered(&latest, &place)?;
            at.insert(place, offset);
        }
        Ok(at)
    }
}

/// The offset that a broker gave for a partition.
pub(crate) fn answered(offsets: &Offsets, place: &TopicPartition) -> Result<i64> {
    offsets.get(place).copied().flatten().ok_or_else(|| unanswered(place))
}

fn unanswered(place: &TopicPartition) -> Error {
    Error::unavailable(format!("the brokers did not say what offsets {place} has"))
}

fn starting(number: i64) -> Option<Wanted> {
    match number {
        -2 => Some(Wanted::Look(Seek::Earliest)),
        -1 => Some(Wanted::Look(Seek::Latest)),
        n => (n >= 0).then_some(Wanted::At(n)),
    }
}

/// `{"topic":{"0":number}}`.
fn each(
    text: &str,
    wanted: impl Fn(i64) -> Option<Wanted>,
) -> Option<BTreeMap<TopicPartition, Wanted>> {
    let value: Value = serde_json::from_str(text).ok()?;
    let mut bound = BTreeMap::new();
    for (topic, partitions) in value.as_object()? {
        for (partition, number) in partitions.as_object()? {
            let partition = partition.parse().ok().filter(|p| *p >= 0)?;
            let place = TopicPartition::new(topic.as_str(), partition);
            bound.insert(place, wanted(number.as_i64()?)?);
        }
    }
    (!bound.is_empty()).then_some(bound)
}

/// As in Spark: a bound by partition names exactly the partitions that are read.
fn covers(
    each: &BTreeMap<TopicPartition, Wanted>,
    partitions: &BTreeSet<TopicPartition>,
    side: Side,
) -> Result<()> {
    let named: BTreeSet<&TopicPartition> = each.keys().collect();
    let read: BTreeSet<&TopicPartition> = partitions.iter().collect();
    if named == read {
        return Ok(());
    }
    let list = |places: Vec<&&TopicPartition>| {
        let places: Vec<String> = places.into_iter().map(ToString::to_string).collect();
        if places.is_empty() { "none".to_owned() } else { places.join(", ") }
    };
    Err(Error::invalid(format!(
        "{} must name every partition that is read and no other: missing {}, not read {}; -2 is \
         earliest, -1 is latest",
        side.names()[2],
        list(read.difference(&named).collect()),
        list(named.difference(&read).collect()),
    ))
    .with_condition("KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED"))
}

/// A start that names partitions which the subscription does not read is refused before any
/// broker is asked.
pub(crate) fn check(bound: &Bound, subscription: &Subscription, side: Side) -> Result<()> {
    let Bound::Each(each) = bound else { return Ok(()) };
    match each.keys().find(|place| !subscription.wants(place)) {
        None => Ok(()),
        Some(place) => Err(Error::invalid(format!(
            "{} names {place}, which is not part of {subscription}",
            side.names()[2]
        ))
        .with_condition("KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(pairs: &[(&str, &str)]) -> Result<Bound> {
        Bound::take(&mut Options::new(pairs.iter().copied()), Side::Starting, Seek::Latest)
    }

    #[test]
    fn the_strongest_option_counts() {
        let offsets = ("startingOffsets", "earliest");
        let times = ("startingOffsetsByTimestamp", r#"{"t":{"0":5}}"#);
        let time = ("startingTimestamp", "7");
        assert_eq!(start(&[]).unwrap(), Bound::All(Seek::Latest));
        assert_eq!(start(&[offsets]).unwrap(), Bound::All(Seek::Earliest));
        let place = TopicPartition::new("t", 0);
        let each = BTreeMap::from([(place, Wanted::Look(Seek::Time(5)))]);
        assert_eq!(start(&[offsets, times]).unwrap(), Bound::Each(each));
        assert_eq!(start(&[offsets, times, time]).unwrap(), Bound::All(Seek::Time(7)));
    }

    #[test]
    fn numbers_have_names() {
        let Bound::Each(each) =
            start(&[("startingOffsets", r#"{"t":{"0":23,"1":-2,"2":-1}}"#)]).unwrap()
        else {
            panic!("each")
        };
        let wanted: Vec<Wanted> = each.into_values().collect();
        let look = Wanted::Look;
        assert_eq!(wanted, [Wanted::At(23), look(Seek::Earliest), look(Seek::Latest)]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (name, text) in [
            ("startingOffsets", "oldest"),
            ("startingOffsets", r#"{"t":{"0":-3}}"#),
            ("startingOffsets", r#"{"t":[0]}"#),
            ("startingOffsets", "{}"),
            ("startingTimestamp", "-1"),
            ("startingTimestamp", "2026-01-01"),
            ("startingOffsetsByTimestamp", r#"{"t":{"0":-1}}"#),
        ] {
            let error = start(&[(name, text)]).unwrap_err();
            assert_eq!(error.condition(), Some("INVALID_OPTION_VALUE"), "{name} {text}");
        }
        for text in ["earliest", r#"{"t":{"0":-2}}"#] {
            let mut options = Options::new([("endingOffsets", text)]);
            assert!(Bound::take(&mut options, Side::Ending, Seek::Latest).is_err(), "{text}");
        }
    }
}
