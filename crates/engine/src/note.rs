//! What the engine stores beside a batch's output, so that state and output always come from one
//! attempt.

use fluvial_core::{Error, Note, Plan, Result, RunId, Snapshot, Watermarks, frame};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_128;

const KIND: &str = "note";
const VERSION: u32 = 1;

/// The note of one attempt at one batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attempt {
    /// [`digest`] of the plan that ran.
    pub(crate) plan: String,
    /// The run that ran it.
    pub(crate) run: RunId,
    /// The snapshots that this attempt wrote.
    pub(crate) snapshots: Vec<Snapshot>,
    /// The watermarks for the next batch.
    pub(crate) watermarks: Watermarks,
}

impl Attempt {
    pub(crate) fn encode(&self) -> Note {
        let body = serde_json::to_vec(self).expect("an attempt has string keys only");
        Note(frame::seal(KIND, VERSION, &body))
    }

    /// # Errors
    ///
    /// `Corrupt` if it is damaged, `Invalid` if it has a newer format.
    pub(crate) fn decode(note: &Note) -> Result<Self> {
        let body = frame::open(KIND, VERSION, &note.0)?;
        serde_json::from_slice(body)
            .map_err(|e| Error::corrupt("the sink's note is not one of an attempt").with_source(e))
    }
}

/// Identifies what a plan makes a batch compute: everything in it that rows depend on.
///
/// The shape and the pinned settings are left out, so that they may gain fields in later
/// versions; keys are sorted, so that the order in which a map was read does not matter.
pub(crate) fn digest(plan: &Plan) -> String {
    let ranges: Vec<Value> =
        plan.ranges.iter().map(|(id, r)| json!([id, r.start, r.end, r.splits])).collect();
    let text = canonical(&json!([
        plan.batch,
        plan.run,
        ranges,
        plan.late,
        plan.evict,
        plan.time,
        plan.partitions
    ]));
    format!("{:032x}", xxh3_128(text.as_bytes()))
}

fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            let parts: Vec<_> = fields
                .into_iter()
                .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), canonical(value)))
                .collect();
            format!("{{{}}}", parts.join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::plan;
    use fluvial_core::{BatchTime, ErrorKind};

    #[test]
    fn the_digest_is_that_of_what_rows_depend_on() {
        let base = plan(3);
        assert_eq!(digest(&base), digest(&base.clone()));
        let other = |change: fn(&mut Plan)| {
            let mut plan = base.clone();
            change(&mut plan);
            digest(&plan) != digest(&base)
        };
        assert!(other(|p| p.run = RunId::new("another").unwrap()));
        assert!(other(|p| p.time = BatchTime(99)));
        assert!(other(|p| p.ranges.clear()));
        assert!(!other(|p| p.settings.state_format = "lsm".into()));
    }

    #[test]
    fn the_order_of_keys_does_not_matter() {
        let value = json!({"b": [1, {"y": null, "x": "\""}], "a": 2.5});
        assert_eq!(canonical(&value), r#"{"a":2.5,"b":[1,{"x":"\"","y":null}]}"#);
    }

    #[test]
    fn a_damaged_note_is_found() {
        let attempt = Attempt {
            plan: digest(&plan(3)),
            run: RunId::new("r").unwrap(),
            snapshots: Vec::new(),
            watermarks: Watermarks::new(),
        };
        let note = attempt.encode();
        assert_eq!(Attempt::decode(&note).unwrap(), attempt);
        let cut = Note(note.0.slice(..note.0.len() - 1));
        assert_eq!(Attempt::decode(&cut).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
