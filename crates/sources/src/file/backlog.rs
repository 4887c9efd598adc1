//! How much is found and not read yet, for progress.

use super::entry::FileEntry;
use std::collections::BTreeMap;

/// Files and their bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Backlog {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

impl Backlog {
    pub(crate) fn of(files: &[FileEntry]) -> Self {
        let bytes = files.iter().fold(0u64, |sum, file| sum.saturating_add(file.size));
        Self { files: files.len() as u64, bytes }
    }

    /// What is left without `files`.
    pub(crate) fn without(self, files: &[FileEntry]) -> Self {
        let less = Self::of(files);
        let bytes = self.bytes.saturating_sub(less.bytes);
        Self { files: self.files.saturating_sub(less.files), bytes }
    }

    /// Under the names that Databricks gives them.
    pub(crate) fn metrics(self) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("numFilesOutstanding".to_owned(), self.files.to_string()),
            ("numBytesOutstanding".to_owned(), self.bytes.to_string()),
        ])
    }
}
