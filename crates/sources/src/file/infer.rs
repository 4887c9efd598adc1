//! A schema from the files that are there.

use super::entry::FileEntry;
use super::fetch::PlannedFile;
use super::order::Order;
use super::place::FilePlace;
use crate::format::FileDecoder;
use arrow::datatypes::Schema;
use fluvial_core::{Error, Result};

/// The schema of `files`: for Parquet that of the newest file, for the others what fits all.
///
/// # Errors
///
/// `Invalid` (`UNABLE_TO_INFER_SCHEMA`) if there is no file.
pub(crate) async fn schema(
    place: &FilePlace,
    decoder: &FileDecoder,
    files: &[FileEntry],
) -> Result<Schema> {
    let mut files = files.to_vec();
    Order::OldestFirst.sort(&mut files);
    files.retain(|file| file.size > 0);
    if files.is_empty() {
        return Err(Error::invalid(format!(
            "{place} has no file to take a schema from: give the schema"
        ))
        .with_condition("UNABLE_TO_INFER_SCHEMA"));
    }
    let files: Vec<PlannedFile> =
        files.iter().map(|file| PlannedFile::new(place, file)).collect::<Result<_>>()?;
    decoder.infer(&files).await
}
