//! The Delta library's errors as ours: what should the caller do?

use deltalake::DeltaTableError;
use deltalake::kernel::transaction::TransactionError;
use fluvial_core::{Error, ErrorKind, store_condition};
use object_store::Error as StoreError;
use std::error::Error as StdError;

/// Translates an error of the library.
///
/// What the store said decides, however deep it is; the library wraps it several times. Anything
/// that is not clearly somebody's mistake may pass and is `Unavailable`.
pub(crate) fn delta_error(error: DeltaTableError) -> Error {
    let kind = match &error {
        DeltaTableError::SchemaMismatch { .. }
        | DeltaTableError::InvalidData { .. }
        | DeltaTableError::InvalidTableLocation(_)
        | DeltaTableError::MissingFeature { .. }
        | DeltaTableError::MetadataError(_)
        | DeltaTableError::PartitionError { .. }
        | DeltaTableError::UnsupportedColumnMapping { .. }
        | DeltaTableError::Arrow { .. }
        | DeltaTableError::Transaction {
            source:
                TransactionError::UnsupportedTableFeatures(_)
                | TransactionError::TableFeaturesRequired(_)
                | TransactionError::DeltaTableAppendOnly,
        } => ErrorKind::Invalid,
        DeltaTableError::InvalidJsonLog { .. } => ErrorKind::Corrupt,
        // A log that cannot be parsed; the library has no words for which version of it.
        DeltaTableError::KernelError(_) if error.to_string().contains("Json error: ") => {
            ErrorKind::Corrupt
        }
        DeltaTableError::NotATable(_) => ErrorKind::NotFound,
        other => store_error(other).map_or(ErrorKind::Unavailable, store_kind),
    };
    match gap(&error.to_string()) {
        // The library's own words are a page long.
        Some((before, after)) => Error::new(kind, missing_versions(before, after))
            .with_condition("DELTA_VERSIONS_NOT_CONTIGUOUS"),
        None => {
            let condition = match kind {
                ErrorKind::Corrupt => Some(LOG_CORRUPT),
                _ => store_error(&error).and_then(store_condition),
            };
            let advice = match kind {
                ErrorKind::Corrupt => {
                    ": a file of the table's _delta_log is damaged; restore it from a copy, or make \
                     the table anew"
                }
                _ => "",
            };
            let made = Error::new(kind, format!("{error}{advice}")).with_source(error);
            match condition {
                Some(condition) => made.with_condition(condition),
                None => made,
            }
        }
    }
}

/// The condition of a log that cannot be read.
pub(crate) const LOG_CORRUPT: &str = "DELTA_LOG_CORRUPT";

/// The versions around a gap in a table's log, read off the library's words: it has no other. A
/// listing that runs while others write may show one that is none, so it is looked at again.
fn gap(text: &str) -> Option<(u64, u64)> {
    let number = |text: &str| -> Option<u64> {
        text.split(|c: char| !c.is_ascii_digit()).find(|part| !part.is_empty())?.parse().ok()
    };
    if let Some((_, files)) = text.split_once("contiguous commit files, but found gap") {
        let mut versions = files.split(" version: ").skip(1).filter_map(number);
        return versions.next().zip(versions.next());
    }
    let (_, checkpoint) = text.split_once("Gap between checkpoint version ")?;
    let (_, commit) = checkpoint.split_once("next commit ")?;
    number(checkpoint).zip(number(commit))
}

fn missing_versions(before: u64, after: u64) -> String {
    let missing = match (before + 1, after.saturating_sub(1)) {
        (first, last) if first < last => format!("versions {first} to {last} are"),
        (first, _) => format!("version {first} is"),
    };
    format!(
        "{missing} missing in the table's _delta_log between {before} and {after}: if it stays so, \
         restore them, or make the table anew"
    )
}

/// An error of an expression or its values: `[CONDITION] text` is all that is left of ours inside
/// of the library's and DataFusion's.
pub(crate) fn about_values(text: &str) -> Error {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b"_.".contains(&b))
    };
    match text.split_once('[').and_then(|(_, rest)| rest.split_once("] ")) {
        Some((name, message)) if is_name(name) => {
            Error::invalid(message.to_owned()).with_condition(name.to_owned())
        }
        _ => Error::invalid(text.to_owned()),
    }
}

/// Translates an error of a log write.
pub(crate) fn transaction_error(error: TransactionError) -> Error {
    delta_error(error.into())
}

/// Whether the error says that there is no table.
pub(crate) fn is_missing(error: &DeltaTableError) -> bool {
    matches!(error, DeltaTableError::NotATable(_))
}

/// What an object store said, if it is among the causes of an error.
pub(crate) fn store_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a StoreError> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // The source of an I/O error is that of the error in it, which it passes over.
        let within = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        next = match within {
            Some(error) => Some(error),
            None => error.source(),
        };
    }
    None
}

fn store_kind(error: &StoreError) -> ErrorKind {
    use StoreError as E;
    match error {
        E::InvalidPath { .. }
        | E::NotSupported { .. }
        | E::NotImplemented { .. }
        | E::PermissionDenied { .. }
        | E::Unauthenticated { .. }
        | E::UnknownConfigurationKey { .. } => ErrorKind::Invalid,
        // A log entry or checkpoint that a listing named and that is gone now was cleaned up by
        // another writer: the next attempt finds its successor.
        _ => ErrorKind::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use deltalake::parquet::errors::ParquetError;

    #[test]
    fn a_gap_in_the_log_is_said_in_few_words() {
        let file = |version: u64| {
            format!("ParsedLogPath {{ location: FileMeta {{ size: 0 }}, version: {version}, x }}")
        };
        let text = format!(
            "Generic delta kernel error: Expected contiguous commit files, but found gap: {} -> {}",
            file(1),
            file(3)
        );
        assert_eq!(gap(&text), Some((1, 3)));
        assert_eq!(gap("Gap between checkpoint version 10 and next commit 14"), Some((10, 14)));
        assert_eq!(gap("version: 1, version: 2"), None);
        let error = delta_error(DeltaTableError::generic(text));
        assert!(error.message().starts_with("version 2 is missing"), "{error}");
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(missing_versions(10, 14).starts_with("versions 11 to 13 are"));
    }

    #[test]
    fn a_damaged_log_says_what_to_do() {
        let json_err = serde_json::from_str::<serde_json::Value>("{").unwrap_err();
        let error =
            delta_error(DeltaTableError::InvalidJsonLog { json_err, line: "{".into(), version: 7 });
        assert_eq!((error.kind(), error.condition()), (ErrorKind::Corrupt, Some(LOG_CORRUPT)));
        assert!(error.message().contains("restore it from a copy"), "{error}");
    }

    #[test]
    fn the_condition_of_an_expression_is_read_off_its_text() {
        let error = about_values("Generic error: External error: [DIVIDE_BY_ZERO] by zero");
        assert_eq!((error.condition(), error.message()), (Some("DIVIDE_BY_ZERO"), "by zero"));
        let error = about_values("no field named x[0], but [y] is");
        assert_eq!(error.condition(), None);
    }

    #[test]
    fn the_store_decides_however_deep_its_error_is() {
        let denied = |source: object_store::Error| {
            delta_error(DeltaTableError::GenericError {
                source: Box::new(TransactionError::ObjectStore { source }),
            })
            .kind()
        };
        let no = object_store::Error::PermissionDenied { path: "p".into(), source: "no".into() };
        assert_eq!(denied(no), ErrorKind::Invalid);
        let gone = object_store::Error::Generic { store: "s3", source: "reset".into() };
        assert_eq!(denied(gone), ErrorKind::Unavailable);
        let no = object_store::Error::PermissionDenied { path: "p".into(), source: "no".into() };
        let source = ParquetError::External(Box::new(std::io::Error::other(no)));
        let written = DeltaTableError::Parquet { source };
        assert!(store_error(&written).is_some());
        assert_eq!(delta_error(written).kind(), ErrorKind::Invalid);
    }
}
