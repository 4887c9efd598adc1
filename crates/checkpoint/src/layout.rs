//! Where things are in a checkpoint.

use fluvial_core::{BatchId, SourceId};
use object_store::path::Path;

/// The places of one checkpoint. They depend on where the checkpoint is and on nothing else: a
/// path that carried a run's id could not be found again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    root: Path,
}

impl Layout {
    /// The checkpoint in folder `root` of its store.
    pub fn new(root: Path) -> Self {
        Self { root }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The record of the query's id.
    pub fn metadata(&self) -> Path {
        self.root.clone().join("metadata")
    }

    /// The folder of the plans.
    pub fn offsets(&self) -> Path {
        self.root.clone().join("offsets")
    }

    /// The folder of the commits.
    pub fn commits(&self) -> Path {
        self.root.clone().join("commits")
    }

    /// The record of what was cleaned up.
    pub fn low_water(&self) -> Path {
        self.root.clone().join("low-water")
    }

    /// The folder of one source's own log.
    pub fn source(&self, source: &SourceId) -> Path {
        self.root.clone().join("sources").join(source.as_str())
    }

    /// The folder of the state backend.
    pub fn state(&self) -> Path {
        self.root.clone().join("state")
    }
}

/// The name of an entry. `generation` 0 is the plain number. Higher ones stand in for objects
/// that a power cut left torn: see [`crate::ObjectLog`].
pub(crate) fn entry_name(batch: BatchId, generation: u32) -> String {
    match generation {
        0 => batch.to_string(),
        _ => format!("{batch}.again-{generation}"),
    }
}

/// The batch of an entry with a plain number for a name. Nothing else counts as an entry: not
/// `7.tmp`, not `.7.crc`, not `007`.
pub(crate) fn plain_number(name: &str) -> Option<BatchId> {
    let batch = BatchId(name.parse().ok()?);
    // The last number has no successor, so no batch has it.
    (batch.to_string() == name && batch.0 < u64::MAX).then_some(batch)
}

/// The batch of any object that belongs to an entry, whatever its generation.
pub(crate) fn entry_number(name: &str) -> Option<BatchId> {
    match name.split_once(".again-") {
        Some((batch, generation)) => plain_number(generation).and_then(|_| plain_number(batch)),
        None => plain_number(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_numbers_are_entries() {
        assert_eq!(plain_number("0"), Some(BatchId(0)));
        assert_eq!(plain_number("18446744073709551614"), Some(BatchId(u64::MAX - 1)));
        for foreign in [
            "",
            "007",
            "+7",
            "-1",
            "7.tmp",
            ".7.crc",
            "7 ",
            "0x7",
            "18446744073709551615",
            "18446744073709551616",
            "٧",
        ] {
            assert_eq!(plain_number(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn generations_are_told_from_foreign_names() {
        assert_eq!(entry_number(&entry_name(BatchId(7), 0)), Some(BatchId(7)));
        assert_eq!(entry_number(&entry_name(BatchId(7), 3)), Some(BatchId(7)));
        assert_eq!(entry_number("7.again-x"), None);
        assert_eq!(entry_number("x.again-1"), None);
    }

    #[test]
    fn places_depend_on_the_root_alone() {
        let layout = Layout::new(Path::from("a/b"));
        let source = SourceId::new("s").unwrap();
        assert_eq!(layout.metadata().as_ref(), "a/b/metadata");
        assert_eq!(layout.source(&source).as_ref(), "a/b/sources/s");
        assert_eq!(Layout::new(Path::default()).offsets().as_ref(), "offsets");
    }
}
