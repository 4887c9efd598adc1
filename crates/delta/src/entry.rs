//! What one version of the log says about a query's batches.

use crate::error::{LOG_CORRUPT, delta_error};
use bytes::Bytes;
use deltalake::kernel::{Action, CommitInfo, Version};
use deltalake::logstore::get_actions;
use fluvial_core::{BatchId, Error, Note, Result, SinkSpec};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The key in the commit info under which we keep ours.
const KEY: &str = "fluvial";

/// The id under which the log keeps the newest batch of a query and sink.
pub(crate) fn app_id(spec: &SinkSpec) -> String {
    format!("{}/{}", spec.query, spec.sink)
}

/// What we keep in the commit info, beside what the protocol knows.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mark {
    run: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// Notes that are not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    note_hex: Option<String>,
}

/// Our part of the commit info.
pub(crate) fn mark(spec: &SinkSpec, note: &Note) -> (String, Value) {
    let (text, hex) = match std::str::from_utf8(&note.0) {
        Ok(text) => (Some(text.to_owned()), None),
        Err(_) => (None, Some(to_hex(&note.0))),
    };
    let mark = Mark { run: spec.run.to_string(), note: text, note_hex: hex };
    let value = serde_json::to_value(mark).expect("a struct of texts is JSON");
    (KEY.into(), value)
}

fn place(version: Version) -> String {
    format!("version {version} of the log")
}

/// What is said of a version that has nothing in it: rows of it may be missing, and be written
/// again.
pub(crate) fn empty(version: Version) -> Error {
    let message = "it is empty: whoever wrote it did not end; restore _delta_log from a copy, \
                   remove the file if it is the newest version, or make the table anew";
    Error::corrupt(message).with_condition(LOG_CORRUPT).at(place(version))
}

/// The actions of a version.
///
/// # Errors
///
/// `Corrupt` if it is cut off or empty: every writer says at least who it is.
pub(crate) fn actions(version: Version, bytes: &Bytes) -> Result<Vec<Action>> {
    let actions = get_actions(version, bytes).map_err(|e| delta_error(e).at(place(version)))?;
    if actions.is_empty() {
        return Err(empty(version));
    }
    Ok(actions)
}

/// What a version means for the batches of one query and sink.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Entry {
    /// The batch that it publishes.
    pub(crate) batch: Option<BatchId>,
    /// The note that came with the batch.
    pub(crate) note: Option<Note>,
    /// Whether it changes the table's schema, properties or protocol.
    pub(crate) changes_table: bool,
}

impl Entry {
    /// Reads a version for the query and sink called `app`.
    ///
    /// # Errors
    ///
    /// `Corrupt` if it is not a version of a Delta log.
    pub(crate) fn read(version: Version, bytes: &Bytes, app: &str) -> Result<Self> {
        let mut entry = Self::default();
        let mut note = None;
        for action in actions(version, bytes)? {
            match action {
                Action::Txn(txn) if txn.app_id == app => {
                    let batch = u64::try_from(txn.version).map_err(|_| {
                        let message = format!("batch {} is negative", txn.version);
                        Error::corrupt(message).at(place(version))
                    })?;
                    entry.batch = Some(BatchId(batch));
                }
                Action::Metadata(_) | Action::Protocol(_) => entry.changes_table = true,
                Action::CommitInfo(info) => note = note_of(&info),
                _ => {}
            }
        }
        entry.note = note.filter(|_| entry.batch.is_some());
        Ok(entry)
    }
}

fn note_of(info: &CommitInfo) -> Option<Note> {
    let mark: Mark = serde_json::from_value(info.info.get(KEY)?.clone()).ok()?;
    let bytes = match (mark.note, mark.note_hex) {
        (Some(text), _) => text.into_bytes(),
        (None, Some(hex)) => from_hex(&hex)?,
        (None, None) => return None,
    };
    Some(Note(bytes.into()))
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| (c as char).to_digit(16);
    let pair = |pair: &[u8]| match pair {
        [high, low] => u8::try_from(digit(*high)? * 16 + digit(*low)?).ok(),
        _ => None,
    };
    text.as_bytes().chunks(2).map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_comes_back_and_bad_hex_does_not() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(from_hex(&to_hex(&all)), Some(all));
        assert_eq!(from_hex("abc"), None);
        assert_eq!(from_hex("zz"), None);
    }

    #[test]
    fn only_the_query_s_own_batches_count() {
        let log = concat!(
            r#"{"commitInfo":{"operation":"STREAMING UPDATE","fluvial":{"run":"r","note":"n"}}}"#,
            "\n",
            r#"{"txn":{"appId":"q/out","version":7}}"#,
        );
        let bytes = Bytes::from_static(log.as_bytes());
        let entry = Entry::read(3, &bytes, "q/out").unwrap();
        assert_eq!(entry.batch, Some(BatchId(7)));
        assert_eq!(entry.note, Some(Note("n".into())));
        assert_eq!(Entry::read(3, &bytes, "other/out").unwrap(), Entry::default());
        assert!(Entry::read(3, &Bytes::from_static(b"{\"add\":"), "q/out").is_err());
    }
}
