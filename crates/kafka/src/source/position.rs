//! Where the source stands: Spark's offsets, with the topics' ids beside them.
//!
//! ```text
//! {"clicks":{"0":23,"1":5},"@topicIds":{"clicks":"kQ7nZ0bVQ1W9vV0J8m2c5A"}}
//! ```
//!
//! A number is the next offset to read. `@` cannot be part of a topic's name.

use crate::broker::TopicPartition;
use fluvial_core::{Error, Offset, Result};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

const IDS: &str = "@topicIds";

/// The next offset of each partition that the query has met.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Position {
    /// By partition.
    pub offsets: BTreeMap<TopicPartition, i64>,
    /// The id of each topic, where the brokers have them.
    pub ids: BTreeMap<String, String>,
}

impl Position {
    /// As the checkpoint keeps it.
    ///
    /// # Errors
    ///
    /// None in practice: a position always has a JSON form.
    pub fn to_offset(&self) -> Result<Offset> {
        let mut topics: BTreeMap<&str, BTreeMap<i32, i64>> = BTreeMap::new();
        for (place, offset) in &self.offsets {
            topics.entry(&place.topic).or_default().insert(place.partition, *offset);
        }
        let mut object = Map::new();
        for (topic, partitions) in topics {
            let partitions: Map<String, Value> =
                partitions.into_iter().map(|(p, offset)| (p.to_string(), offset.into())).collect();
            object.insert(topic.to_owned(), partitions.into());
        }
        if !self.ids.is_empty() {
            let ids: Map<String, Value> =
                self.ids.iter().map(|(topic, id)| (topic.clone(), id.as_str().into())).collect();
            object.insert(IDS.to_owned(), ids.into());
        }
        Offset::of(&object)
    }

    /// Reads it back; also an offset that Spark wrote, which has no ids.
    ///
    /// # Errors
    ///
    /// `Corrupt` if it is no such thing.
    pub fn of(offset: &Offset) -> Result<Self> {
        let bad = || {
            Error::corrupt(format!("offset {offset} was not written by a Kafka source"))
                .with_condition("KAFKA_OFFSET_MALFORMED")
        };
        let mut position = Self::default();
        for (topic, inner) in offset.json().as_object().ok_or_else(bad)? {
            for (name, value) in inner.as_object().ok_or_else(bad)? {
                if topic == IDS {
                    let id = value.as_str().ok_or_else(bad)?;
                    position.ids.insert(name.clone(), id.to_owned());
                    continue;
                }
                let partition = name.parse().ok().filter(|p| *p >= 0).ok_or_else(bad)?;
                let next = value.as_i64().filter(|n| *n >= 0).ok_or_else(bad)?;
                let place = TopicPartition::new(topic.as_str(), partition);
                position.offsets.insert(place, next);
            }
        }
        Ok(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_text_is_sparks_with_ids() {
        let mut position = Position::default();
        for (topic, partition, next) in [("b", 0, 7), ("a", 10, 1), ("a", 2, 0)] {
            position.offsets.insert(TopicPartition::new(topic, partition), next);
        }
        position.ids.insert("a".into(), "x".into());
        let offset = position.to_offset().unwrap();
        let expected = json!({"a": {"2": 0, "10": 1}, "b": {"0": 7}, "@topicIds": {"a": "x"}});
        assert_eq!(offset.json(), &expected);
        assert_eq!(Position::of(&offset).unwrap(), position);
    }

    /// Trap J5: nothing that a file may hold makes this do more than fail.
    #[test]
    fn other_things_are_refused() {
        let bad = [
            json!(7),
            json!({"t": 1}),
            json!({"t": {"x": 1}}),
            json!({"t": {"-1": 1}}),
            json!({"t": {"0": -2}}),
            json!({"t": {"0": 1.5}}),
            json!({"t": {"99999999999": 1}}),
            json!({"@topicIds": {"t": 1}}),
        ];
        for value in bad {
            let error = Position::of(&Offset::from(value)).unwrap_err();
            assert_eq!(error.kind(), fluvial_core::ErrorKind::Corrupt);
        }
    }
}
