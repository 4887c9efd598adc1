//! Compares what we answered with what Spark did.

use super::entry::Expected;
use fluvial::Result;
use serde::Deserialize;

/// What Spark did.
#[derive(Debug, Deserialize)]
pub(super) struct Record {
    pub(super) name: String,
    accepted: bool,
    condition: Option<String>,
    #[serde(default)]
    conditions_in_text: Vec<String>,
}

/// Conditions that say nothing about what is wrong.
const GENERAL: &[&str] = &["STREAM_FAILED", "TASK_WRITE_FAILED", "INTERNAL_ERROR"];

impl Record {
    /// The conditions of Spark that name the mistake.
    fn specific(&self) -> Vec<&str> {
        let all = self.condition.iter().chain(&self.conditions_in_text).map(String::as_str);
        all.filter(|c| !c.starts_with("_LEGACY_ERROR_TEMP") && !GENERAL.contains(c)).collect()
    }
}

/// What is wrong with an answer of ours, if anything is.
pub(super) fn judge(
    record: &Record,
    expected: &Expected,
    names: &[&str],
    result: &Result<()>,
) -> Option<String> {
    let specific = record.specific();
    let allowed = match expected {
        Expected::Accepted if !record.accepted => return Some("Spark refuses it".into()),
        Expected::Sparks | Expected::Ours(_) if record.accepted => {
            return Some("Spark accepts it".into());
        }
        Expected::Ours(_) if !specific.is_empty() => {
            return Some(format!("Spark has a condition for it: {specific:?}"));
        }
        Expected::Sparks if specific.is_empty() => {
            return Some("Spark has no condition for it".into());
        }
        Expected::Differs(_, "") => return Some("a reason is missing".into()),
        Expected::Sparks => specific,
        Expected::Ours(condition) | Expected::Differs(Some(condition), _) => vec![*condition],
        Expected::Accepted | Expected::Differs(None, _) => Vec::new(),
    };
    match result {
        Ok(()) if allowed.is_empty() => None,
        Ok(()) => Some(format!("accepted, but {allowed:?} was expected")),
        Err(error) if !allowed.iter().any(|c| Some(*c) == error.condition()) => {
            Some(format!("{allowed:?} was expected, not: {error}"))
        }
        Err(error) => {
            let lacking: Vec<_> =
                names.iter().filter(|name| !error.message().contains(**name)).collect();
            (!lacking.is_empty()).then(|| format!("the message does not name {lacking:?}: {error}"))
        }
    }
}
