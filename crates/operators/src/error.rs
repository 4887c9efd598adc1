//! Our errors out of DataFusion's.

use arrow::error::ArrowError;
use datafusion_common::DataFusionError;
use fluvial_core::Error;

/// What an accumulator fails at is the query or its data: `Invalid`, unless one of our own errors
/// is inside. A message that begins with `[CONDITION]` names its condition.
pub(crate) fn from_datafusion(error: DataFusionError) -> Error {
    match error {
        DataFusionError::External(inner) => match inner.downcast::<Error>() {
            Ok(ours) => *ours,
            Err(other) => from_text(&other.to_string()).with_source(other),
        },
        DataFusionError::Context(place, inner) => from_datafusion(*inner).at(place),
        DataFusionError::ArrowError(inner, _) => match *inner {
            ArrowError::ExternalError(inner) => from_datafusion(DataFusionError::External(inner)),
            ArrowError::ArithmeticOverflow(text) => {
                Error::invalid(text).with_condition("ARITHMETIC_OVERFLOW")
            }
            other => from_text(&other.to_string()).with_source(other),
        },
        DataFusionError::Execution(text) | DataFusionError::Plan(text) => from_text(&text),
        other => from_text(&other.strip_backtrace()).with_source(other),
    }
}

fn from_text(text: &str) -> Error {
    let named = text.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let fits = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || matches!(c, '_' | '.');
    match named {
        Some((name, message)) if !name.is_empty() && name.chars().all(fits) => {
            Error::invalid(message.trim_start()).with_condition(name.to_owned())
        }
        _ => Error::invalid(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_errors_and_conditions_come_out() {
        let ours = DataFusionError::External(Box::new(Error::corrupt("bad")));
        assert_eq!(from_datafusion(ours.context("sum")).message(), "sum: bad");
        let text = DataFusionError::Execution("[ARITHMETIC_OVERFLOW] long overflow".into());
        let error = from_datafusion(text);
        assert_eq!(error.condition(), Some("ARITHMETIC_OVERFLOW"));
        assert_eq!(error.message(), "long overflow");
        let arrow = ArrowError::ArithmeticOverflow("1 + 1".into());
        let error = from_datafusion(DataFusionError::from(arrow));
        assert_eq!(error.condition(), Some("ARITHMETIC_OVERFLOW"));
        assert_eq!(from_datafusion(DataFusionError::Execution("[x] y".into())).condition(), None);
    }
}
