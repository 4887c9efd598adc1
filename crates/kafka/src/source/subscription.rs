//! Which partitions a source reads.

use crate::broker::{Broker, Names, Topic, TopicPartition};
use fluvial_core::{Error, Options, Result};
use regex::Regex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// `assign`, `subscribe` or `subscribePattern`.
#[derive(Debug, Clone)]
pub(crate) enum Subscription {
    /// These partitions, whatever others there are.
    Assign(BTreeSet<TopicPartition>),
    /// All partitions of these topics, present and future.
    Topics(BTreeSet<String>),
    /// All partitions of the topics whose whole name matches.
    Pattern(Regex),
}

/// The partitions that there are, and the ids of their topics.
pub(crate) struct Found {
    pub(crate) partitions: BTreeSet<TopicPartition>,
    pub(crate) ids: BTreeMap<String, String>,
}

impl Subscription {
    /// Takes the one of the three that is given.
    pub(crate) fn take(options: &mut Options) -> Result<Self> {
        let names = ["assign", "subscribe", "subscribePattern"];
        let given: Vec<&str> =
            names.into_iter().filter(|name| options.peek(name).is_some()).collect();
        let [name] = given[..] else {
            let found = match given.len() {
                0 => "none is".to_owned(),
                _ => format!("{} are", given.join(" and ")),
            };
            return Err(Error::invalid(format!(
                "one of the options assign, subscribe and subscribePattern must be given: {found}"
            ))
            .with_condition("KAFKA_OPTION_MISSING"));
        };
        let text = options.take(name).unwrap_or_default();
        let invalid = |expected: &str| Options::invalid_value(name, &text, expected);
        match name {
            "assign" => assigned(&text).map(Self::Assign).ok_or_else(|| {
                invalid("JSON such as {\"topicA\":[0,1],\"topicB\":[2,4]}, each partition once")
            }),
            "subscribe" => {
                let topics: BTreeSet<String> = text
                    .split(',')
                    .map(str::trim)
                    .filter(|topic| !topic.is_empty())
                    .map(str::to_owned)
                    .collect();
                let fit = !topics.is_empty() && topics.iter().all(|topic| is_topic(topic));
                if fit { Ok(Self::Topics(topics)) } else { Err(invalid("names of topics")) }
            }
            _ => Regex::new(&format!("^(?:{})$", text.trim()))
                .ok()
                .filter(|_| !text.trim().is_empty())
                .map(Self::Pattern)
                .ok_or_else(|| invalid("a regular expression")),
        }
    }

    /// What there is of it now.
    pub(crate) async fn find(&self, broker: &dyn Broker) -> Result<Found> {
        let topics = match self {
            Self::Assign(places) => {
                let names: BTreeSet<&str> = places.iter().map(|p| p.topic.as_ref()).collect();
                broker.topics(Names::Of(&Vec::from_iter(names))).await?
            }
            Self::Topics(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                broker.topics(Names::Of(&names)).await?
            }
            Self::Pattern(pattern) => {
                let names = broker.topics(Names::All).await?;
                // As Kafka's own clients, not its own topics.
                let fits = |name: &&str| pattern.is_match(name) && !name.starts_with("__");
                let names: Vec<&str> = names.keys().map(String::as_str).filter(fits).collect();
                broker.topics(Names::Of(&names)).await?
            }
        };
        Ok(self.found(&topics))
    }

    fn found(&self, topics: &BTreeMap<String, Topic>) -> Found {
        let mut found = Found { partitions: BTreeSet::new(), ids: BTreeMap::new() };
        for (name, topic) in topics {
            let places = topic.partitions.iter().map(|p| TopicPartition::new(name.as_str(), *p));
            found.partitions.extend(places.filter(|place| self.wants(place)));
            if let Some(id) = &topic.id {
                found.ids.insert(name.clone(), id.clone());
            }
        }
        found
    }

    /// The first topic or partition that is named and does not exist.
    pub(crate) fn missing(&self, found: &Found) -> Option<String> {
        let there = |name: &str| found.partitions.iter().any(|p| p.topic.as_ref() == name);
        match self {
            Self::Assign(places) => {
                let missing = places.iter().find(|place| !found.partitions.contains(place));
                missing.map(|place| format!("partition {place}"))
            }
            Self::Topics(names) => {
                let missing = names.iter().find(|name| !there(name));
                missing.map(|name| format!("topic {name}"))
            }
            Self::Pattern(_) => None,
        }
    }

    /// Whether a partition belongs to it.
    pub(crate) fn wants(&self, place: &TopicPartition) -> bool {
        match self {
            Self::Assign(places) => places.contains(place),
            Self::Topics(names) => names.contains(place.topic.as_ref()),
            Self::Pattern(pattern) => pattern.is_match(&place.topic),
        }
    }
}

/// `{"topic":[0,1]}`, no partition twice.
fn assigned(text: &str) -> Option<BTreeSet<TopicPartition>> {
    let value: Value = serde_json::from_str(text).ok()?;
    let mut places = BTreeSet::new();
    for (topic, partitions) in value.as_object()? {
        for partition in partitions.as_array()? {
            let number = i32::try_from(partition.as_i64()?).ok().filter(|n| *n >= 0)?;
            if !is_topic(topic) || !places.insert(TopicPartition::new(topic.as_str(), number)) {
                return None;
            }
        }
    }
    (!places.is_empty()).then_some(places)
}

/// Kafka's rule for names of topics.
pub(crate) fn is_topic(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !name.is_empty() && name.len() <= 249 && name.chars().all(fits) && !matches!(name, "." | "..")
}

impl fmt::Display for Subscription {
    /// As in Spark's descriptions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Assign(places) => {
                let places: Vec<String> = places.iter().map(ToString::to_string).collect();
                write!(f, "Assign[{}]", places.join(", "))
            }
            Self::Topics(names) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                write!(f, "Subscribe[{}]", names.join(", "))
            }
            Self::Pattern(pattern) => {
                let text = pattern.as_str();
                let text = text.strip_prefix("^(?:").and_then(|text| text.strip_suffix(")$"));
                write!(f, "SubscribePattern[{}]", text.unwrap_or_default())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(name: &str, text: &str) -> Result<Subscription> {
        Subscription::take(&mut Options::new([(name, text)]))
    }

    #[test]
    fn it_is_shown_as_in_spark() {
        let shown = |name, text| take(name, text).unwrap().to_string();
        assert_eq!(shown("assign", r#"{"b":[1,0],"a":[2]}"#), "Assign[a-2, b-0, b-1]");
        assert_eq!(shown("subscribe", " b, a ,b"), "Subscribe[a, b]");
        assert_eq!(shown("subscribePattern", "a.*|b"), "SubscribePattern[a.*|b]");
    }

    #[test]
    fn a_pattern_matches_the_whole_name() {
        let pattern = take("subscribePattern", "a|b.").unwrap();
        let wanted: Vec<&str> = ["a", "ab", "bc", "xa", "bcd"]
            .into_iter()
            .filter(|name| pattern.wants(&TopicPartition::new(*name, 0)))
            .collect();
        assert_eq!(wanted, ["a", "bc"]);
    }

    #[test]
    fn one_of_three_is_needed() {
        for pairs in [vec![], vec![("assign", "{}"), ("subscribe", "a")]] {
            let error = Subscription::take(&mut Options::new(pairs)).unwrap_err();
            assert_eq!(error.condition(), Some("KAFKA_OPTION_MISSING"));
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (name, text) in [
            ("assign", "a"),
            ("assign", "{}"),
            ("assign", r#"{"a":[0,0]}"#),
            ("assign", r#"{"a":[-1]}"#),
            ("assign", r#"{"a":["0"]}"#),
            ("subscribe", " , "),
            ("subscribe", "a/b"),
            ("subscribe", "../x"),
            ("subscribePattern", "("),
            ("subscribePattern", ""),
        ] {
            let error = take(name, text).unwrap_err();
            assert_eq!(error.condition(), Some("INVALID_OPTION_VALUE"), "{name} {text}");
        }
    }
}
