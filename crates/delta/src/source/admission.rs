//! How much a batch takes.

use super::data_file::DataFile;
use fluvial_core::ReadLimit;

/// What a batch has taken so far, and what it may.
#[derive(Debug)]
pub(crate) struct Admission {
    limit: ReadLimit,
    files: u64,
    bytes: u64,
    rows: u64,
}

impl Admission {
    pub(crate) fn new(limit: ReadLimit) -> Self {
        Self { limit, files: 0, bytes: 0, rows: 0 }
    }

    /// Takes files that belong together, if they fit, or if they are the first. A file whose rows
    /// nobody counted fits no limit of rows.
    pub(crate) fn admits(&mut self, files: &[DataFile]) -> bool {
        let first = self.files == 0;
        let count = self.files.saturating_add(files.len() as u64);
        let bytes = files.iter().fold(self.bytes, |sum, file| sum.saturating_add(file.size));
        let rows =
            files.iter().fold(self.rows, |sum, f| sum.saturating_add(f.rows.unwrap_or(u64::MAX)));
        let over = |most: Option<std::num::NonZeroU64>, wanted: u64| {
            most.is_some_and(|most| wanted > most.get())
        };
        let fits = !over(self.limit.files, count)
            && !over(self.limit.bytes, bytes)
            && !over(self.limit.rows, rows);
        if files.is_empty() || first || fits {
            (self.files, self.bytes, self.rows) = (count, bytes, rows);
            return true;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU64;

    fn file(size: u64, rows: Option<u64>) -> DataFile {
        DataFile {
            path: "a".into(),
            size,
            version: 0,
            partition_values: [].into(),
            deletion_vector: None,
            change: None,
            rows,
        }
    }

    #[test]
    fn the_first_file_always_fits_and_others_within_the_limit() {
        let some = NonZeroU64::new;
        let taken = |limit: ReadLimit, files: &[DataFile]| {
            let mut admission = Admission::new(limit);
            files.iter().take_while(|file| admission.admits(std::slice::from_ref(*file))).count()
        };
        let files = [file(10, Some(5)), file(10, Some(5)), file(10, None)];
        assert_eq!(taken(ReadLimit::NONE, &files), 3);
        assert_eq!(taken(ReadLimit { files: some(2), ..ReadLimit::NONE }, &files), 2);
        assert_eq!(taken(ReadLimit { bytes: some(1), ..ReadLimit::NONE }, &files), 1);
        assert_eq!(taken(ReadLimit { rows: some(1000), ..ReadLimit::NONE }, &files), 2);
        assert_eq!(taken(ReadLimit { rows: some(1000), ..ReadLimit::NONE }, &files[2..]), 1);
    }
}
