//! Where a source is in a table: an offset with Delta's names and meaning.

use fluvial_core::{Error, Offset, Result};
use serde::{Deserialize, Serialize};

/// The version of the offset's form.
const FORM: u32 = 1;

/// The index before the first file of a version.
pub(crate) const BEFORE: i64 = -1;

/// The newest file that was read: by its version and its place among those that the version
/// adds, or, while the first snapshot is read, among all files of the table in that version.
///
/// What follows the last file of a version is the start of the next one, so that equal places
/// are equal values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) version: u64,
    pub(crate) index: i64,
    pub(crate) part: Part,
}

/// What the index of a [`Position`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All files of the table, as of that version.
    Snapshot,
    /// The files that the version adds.
    Changes,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Text {
    source_version: u32,
    reservoir_id: String,
    reservoir_version: u64,
    index: i64,
    is_starting_version: bool,
}

impl Position {
    /// Before everything that `version` adds.
    pub(crate) fn before(version: u64) -> Self {
        Self { version, index: BEFORE, part: Part::Changes }
    }

    /// The offset in a checkpoint. `table` is the table's id.
    pub(crate) fn offset(self, table: &str) -> Result<Offset> {
        Offset::of(&Text {
            source_version: FORM,
            reservoir_id: table.to_owned(),
            reservoir_version: self.version,
            index: self.index,
            is_starting_version: self.part == Part::Snapshot,
        })
    }

    /// Reads an offset of the table with the id `table`.
    ///
    /// # Errors
    ///
    /// `Corrupt` if it is no offset of a Delta source, `Invalid` if it is one of another table or
    /// of a newer form.
    pub(crate) fn read(offset: &Offset, table: &str) -> Result<Self> {
        let text: Text = offset.read()?;
        if text.source_version != FORM {
            return Err(Error::invalid(format!(
                "offset {offset} has version {}, this program reads {FORM}: use the program that \
                 wrote it, or a new checkpoint",
                text.source_version
            )));
        }
        if text.reservoir_id != table {
            return Err(Error::invalid(format!(
                "the checkpoint is about the table with id {}, but the one at this place has id \
                 {table}: it was made anew; start with a new checkpoint",
                text.reservoir_id
            ))
            .with_condition("DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"));
        }
        let part = if text.is_starting_version { Part::Snapshot } else { Part::Changes };
        Ok(Self { version: text.reservoir_version, index: text.index, part })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_pinned() {
        let position = Position { version: 7, index: 3, part: Part::Snapshot };
        let offset = position.offset("t-1").unwrap();
        let text = concat!(
            r#"{"index":3,"isStartingVersion":true,"reservoirId":"t-1","#,
            r#""reservoirVersion":7,"sourceVersion":1}"#
        );
        assert_eq!(offset.to_string(), text);
        assert_eq!(Position::read(&offset, "t-1").unwrap(), position);
    }

    #[test]
    fn another_table_s_offset_is_refused() {
        let offset = Position::before(2).offset("t-1").unwrap();
        let error = Position::read(&offset, "t-2").unwrap_err();
        let condition = "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE";
        assert_eq!(error.condition(), Some(condition));
        assert!(Position::read(&Offset::from(serde_json::json!({"logOffset": 1})), "t").is_err());
    }
}
