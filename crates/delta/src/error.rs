//! The Delta library's errors as ours: what should the caller do?

use deltalake::DeltaTableError;
use deltalake::kernel::transaction::TransactionError;
use fluvial_core::{Error, ErrorKind};
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
        DeltaTableError::NotATable(_) => ErrorKind::NotFound,
        other => store_error(other).map_or(ErrorKind::Unavailable, store_kind),
    };
    Error::new(kind, error.to_string()).with_source(error)
}

/// Translates an error of a log write.
pub(crate) fn transaction_error(error: TransactionError) -> Error {
    delta_error(error.into())
}

/// Whether the error says that there is no table.
pub(crate) fn is_missing(error: &DeltaTableError) -> bool {
    matches!(error, DeltaTableError::NotATable(_))
}

fn store_error(error: &DeltaTableError) -> Option<&object_store::Error> {
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

fn store_kind(error: &object_store::Error) -> ErrorKind {
    use object_store::Error as E;
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
    }
}
