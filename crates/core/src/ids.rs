//! Newtypes for the names and numbers that must never be confused.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The identity of a micro-batch: 0, 1, 2, ... without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BatchId(pub u64);

impl BatchId {
    /// The first batch of a query.
    pub const FIRST: Self = Self(0);

    /// The batch after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }

    /// The batch before this one; `None` for the first.
    pub fn previous(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
    }

    /// The state version this batch reads: batch `n` reads version `n` and writes `n + 1`.
    pub fn reads(self) -> StateVersion {
        StateVersion(self.0)
    }

    /// The state version this batch writes.
    pub fn writes(self) -> StateVersion {
        StateVersion(self.0 + 1)
    }
}

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A version of keyed state; version 0 is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StateVersion(pub u64);

impl fmt::Display for StateVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A partition of a stateful operator, `0..partitions` of the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PartitionId(pub u32);

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Checks a name that will become a path segment or a key in a log.
fn checked_name(what: &str, name: String) -> Result<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 128 || name.starts_with('.') || !name.chars().all(fits) {
        return Err(Error::invalid(format!(
            "{what} {name:?} must be 1 to 128 letters, digits, '-', '_' or '.', not starting with '.'"
        )));
    }
    Ok(name)
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(String);

        impl $type {
            /// Takes a name.
            ///
            /// # Errors
            ///
            /// `Invalid` unless it is 1 to 128 ASCII letters, digits, `-`, `_` or `.`, not
            /// starting with `.`: names become path segments and are never escaped.
            pub fn new(name: impl Into<String>) -> Result<Self> {
                checked_name($what, name.into()).map(Self)
            }

            /// The name.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $type {
            type Error = Error;
            fn try_from(name: String) -> Result<Self> {
                Self::new(name)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0
            }
        }
    };
}

name! {
    /// Identity of a query; made once, kept in its checkpoint, the same in every run.
    QueryId, "query id"
}
name! {
    /// Identity of one run of a query: the nonce that tells attempts and writers apart.
    RunId, "run id"
}
name! {
    /// Stable name of a source within its query.
    SourceId, "source id"
}
name! {
    /// Stable name of a sink within its query.
    SinkId, "sink id"
}
name! {
    /// Stable name of a stateful operator within its query; independent of plan position.
    OperatorId, "operator id"
}
name! {
    /// Stable name of a watermark definition within its query.
    WatermarkId, "watermark id"
}
name! {
    /// One of the stores of an operator (`default`, `left`, `timers`).
    StoreName, "store name"
}

/// Identity of one store: an operator may have several.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct StoreId {
    /// The operator.
    pub operator: OperatorId,
    /// Which of its stores.
    pub store: StoreName,
}

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.operator, self.store)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_would_escape_a_folder_are_refused() {
        for bad in ["", ".", "..", "a/b", "a b", "é", "\0"] {
            assert_eq!(
                OperatorId::new(bad).unwrap_err().kind(),
                crate::ErrorKind::Invalid,
                "{bad}"
            );
        }
        assert_eq!(OperatorId::new("count-by_page.1").unwrap().as_str(), "count-by_page.1");
    }

    #[test]
    fn parsing_checks_names_too() {
        assert!(serde_json::from_str::<RunId>("\"../x\"").is_err());
    }
}
