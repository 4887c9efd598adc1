//! One error type at every boundary; its kind says what the *caller* must do.

use std::borrow::Cow;
use std::fmt;

/// What the caller should do about an [`Error`]. Adding a kind is a design decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Transient: retry the same call.
    Unavailable,
    /// Another run owns this query: stop, do not retry.
    Fenced,
    /// Durable bytes are not what a correct writer could have written: stop, tell someone.
    Corrupt,
    /// The query, a setting or the data is wrong: fix it and start again.
    Invalid,
    /// The requested version, offset or object is gone: restore or reset.
    NotFound,
}

/// An error: a kind, a message for a person, sometimes a stable condition name, and a cause.
///
/// Messages say what was attempted and on which object, in lower case, and what to do. The
/// condition is a stable name that programs may match on; where Spark has a specific one for
/// the same mistake it is Spark's (`STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION`).
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    condition: Option<Cow<'static, str>>,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// Creates an error.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, condition: None, message: message.into(), source: None }
    }

    /// An [`ErrorKind::Unavailable`] error.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// An [`ErrorKind::Fenced`] error.
    pub fn fenced(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Fenced, message)
    }

    /// An [`ErrorKind::Corrupt`] error.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// An [`ErrorKind::Invalid`] error.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// An [`ErrorKind::NotFound`] error.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// Names the condition.
    #[must_use]
    pub fn with_condition(mut self, condition: impl Into<Cow<'static, str>>) -> Self {
        self.condition = Some(condition.into());
        self
    }

    /// Attaches the cause.
    #[must_use]
    pub fn with_source(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Puts a place in front of the message: `batch 7: ...`. Kind, condition and cause stay.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.message = format!("{place}: {}", self.message);
        self
    }

    /// Says the message in other words.
    #[must_use]
    pub fn reworded(mut self, words: impl FnOnce(&str) -> String) -> Self {
        self.message = words(&self.message);
        self
    }

    /// What to do about it.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The stable name of the mistake, if it has one.
    pub fn condition(&self) -> Option<&str> {
        self.condition.as_deref()
    }

    /// The message without the condition.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.condition {
            Some(condition) => write!(f, "[{condition}] {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|e| e as _)
    }
}

impl From<arrow::error::ArrowError> for Error {
    fn from(error: arrow::error::ArrowError) -> Self {
        Self::invalid(error.to_string()).with_source(error)
    }
}

impl From<object_store::Error> for Error {
    /// Gone is [`ErrorKind::NotFound`], a refusal or a bad setting is [`ErrorKind::Invalid`],
    /// everything else may pass: [`ErrorKind::Unavailable`].
    fn from(error: object_store::Error) -> Self {
        use object_store::Error as E;
        let condition = store_condition(&error);
        if condition == Some(ACCESS_DENIED) {
            let text = format!("{error}: give the program access, or use another place");
            return Self::invalid(text).with_condition(ACCESS_DENIED).with_source(error);
        }
        let kind = match &error {
            E::NotFound { .. } => ErrorKind::NotFound,
            E::InvalidPath { .. }
            | E::NotSupported { .. }
            | E::NotImplemented { .. }
            | E::UnknownConfigurationKey { .. } => ErrorKind::Invalid,
            _ => ErrorKind::Unavailable,
        };
        let made = Self::new(kind, error.to_string());
        let made = match condition {
            Some(condition) => made.with_condition(condition),
            None => made,
        };
        made.with_source(error)
    }
}

const ACCESS_DENIED: &str = "ACCESS_DENIED";

/// The condition of what a store said, if it has one.
pub fn store_condition(error: &object_store::Error) -> Option<&'static str> {
    use object_store::Error as E;
    use std::io::ErrorKind as Io;
    if matches!(error, E::PermissionDenied { .. } | E::Unauthenticated { .. }) {
        return Some(ACCESS_DENIED);
    }
    // Local stores say so only in the cause.
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = next {
        match cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind) {
            Some(Io::PermissionDenied) => return Some(ACCESS_DENIED),
            Some(Io::StorageFull | Io::QuotaExceeded) => return Some("STORAGE_FULL"),
            _ => next = cause.source(),
        }
    }
    None
}

/// The result of every fallible method.
pub type Result<T, E = Error> = std::result::Result<T, E>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_denied_is_found_in_the_cause() {
        let io = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
        let error = Error::from(object_store::Error::Generic { store: "s", source: io.into() });
        assert_eq!((error.kind(), error.condition()), (ErrorKind::Invalid, Some("ACCESS_DENIED")));
        let io = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let error = Error::from(object_store::Error::Generic { store: "s", source: io.into() });
        let full = (ErrorKind::Unavailable, Some("STORAGE_FULL"));
        assert_eq!((error.kind(), error.condition()), full);
    }

    #[test]
    fn shows_condition_and_place() {
        let error = Error::invalid("no such column").with_condition("UNRESOLVED").at("batch 7");
        assert_eq!(error.to_string(), "[UNRESOLVED] batch 7: no such column");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}
