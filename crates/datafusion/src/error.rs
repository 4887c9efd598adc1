//! Our errors inside DataFusion's, and back out.

use datafusion::error::DataFusionError;
use fluvial_core::{Error, ErrorKind};

/// Carries one of our errors through DataFusion unchanged.
pub(crate) fn plan(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Takes our own error out of DataFusion's if one is inside, else makes it an `Invalid` one: what
/// DataFusion refuses or fails at is the query or its data.
///
/// A message of the form `[CONDITION] text` gives the error its condition.
pub fn from_datafusion(error: DataFusionError) -> Error {
    match error {
        DataFusionError::External(inner) => match inner.downcast::<Error>() {
            Ok(ours) => *ours,
            Err(inner) => match inner.downcast::<DataFusionError>() {
                Ok(nested) => from_datafusion(*nested),
                Err(other) => from_text(other.to_string()).with_source(other),
            },
        },
        DataFusionError::Context(place, inner) => from_datafusion(*inner).at(place),
        DataFusionError::Diagnostic(_, inner) => from_datafusion(*inner),
        DataFusionError::Shared(inner) => match ours_inside(&inner) {
            Some(error) => error,
            None => from_text(inner.to_string()),
        },
        DataFusionError::ArrowError(inner, _) => match *inner {
            arrow::error::ArrowError::ExternalError(inner) => {
                from_datafusion(DataFusionError::External(inner))
            }
            other => from_text(other.to_string()).with_source(other),
        },
        DataFusionError::ObjectStore(inner) => Error::from(*inner),
        DataFusionError::ResourcesExhausted(text) => exhausted(&text),
        other => {
            let text = other.strip_backtrace();
            from_text(text).with_source(other)
        }
    }
}

fn exhausted(text: &str) -> Error {
    Error::invalid(format!(
        "{text}: give batches more memory (batch.memory), or less to do (maxFilesPerTrigger)"
    ))
    .with_condition("OUT_OF_MEMORY")
}

/// A shared error cannot be moved out of; copies kind, condition and text.
fn ours_inside(error: &DataFusionError) -> Option<Error> {
    let inner = match error.find_root() {
        DataFusionError::External(inner) => inner,
        DataFusionError::ResourcesExhausted(text) => return Some(exhausted(text)),
        _ => return None,
    };
    let ours = inner.downcast_ref::<Error>()?;
    let copy = Error::new(ours.kind(), ours.message());
    Some(match ours.condition() {
        Some(condition) => copy.with_condition(condition.to_owned()),
        None => copy,
    })
}

fn from_text(text: String) -> Error {
    // "Execution error: [DIVIDE_BY_ZERO] ..." and its like.
    let inner = text.find('[').filter(|at| {
        let head = &text[..*at];
        head.is_empty() || head.ends_with(": ")
    });
    if let Some(start) = inner
        && let Some(length) = text[start + 1..].find(']')
    {
        let name = &text[start + 1..start + 1 + length];
        let fits = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_' || c == '.';
        if !name.is_empty() && name.chars().all(fits) {
            let message = text[start + length + 2..].trim_start().to_owned();
            return Error::new(ErrorKind::Invalid, message).with_condition(name.to_owned());
        }
    }
    Error::invalid(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn our_errors_come_out_as_they_went_in() {
        let ours = || plan(Error::fenced("stop").with_condition("FENCED"));
        for wrapped in [
            ours(),
            ours().context("scan"),
            DataFusionError::Shared(Arc::new(ours())),
            DataFusionError::External(Box::new(ours())),
        ] {
            let back = from_datafusion(wrapped);
            assert_eq!((back.kind(), back.condition()), (ErrorKind::Fenced, Some("FENCED")));
        }
    }

    #[test]
    fn a_full_memory_pool_has_a_condition_of_its_own() {
        let full = || DataFusionError::ResourcesExhausted("8 KB are missing".into());
        for wrapped in [full(), full().context("sort"), DataFusionError::Shared(Arc::new(full()))] {
            assert_eq!(from_datafusion(wrapped).condition(), Some("OUT_OF_MEMORY"));
        }
    }

    #[test]
    fn conditions_are_read_from_messages() {
        let error = DataFusionError::Execution("[DIVIDE_BY_ZERO] division by zero".into());
        let ours = from_datafusion(error);
        assert_eq!(ours.condition(), Some("DIVIDE_BY_ZERO"));
        assert_eq!(ours.message(), "division by zero");
        assert_eq!(from_datafusion(DataFusionError::Plan("x[0] is odd".into())).condition(), None);
    }
}
