//! What one version of the table means for a stream.

use super::data_file::{ChangeKind, DataFile};
use super::log::Written;
use super::options::{DeltaChanges, DeltaReading};
use crate::entry::actions;
use deltalake::kernel::{Action, Metadata, Protocol};
use fluvial_core::{Error, Result};
use std::collections::BTreeSet;

/// A version, read.
#[derive(Debug)]
pub(crate) struct Commit {
    pub(crate) version: u64,
    /// What a batch may read of it, in the order of the log. Positions count these.
    pub(crate) files: Vec<DataFile>,
    pub(crate) metadata: Option<Metadata>,
    pub(crate) protocol: Option<Protocol>,
    /// When it was committed: milliseconds since the epoch.
    pub(crate) timestamp: i64,
    takes: Takes,
}

/// What a version takes away.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Takes {
    Nothing,
    /// A file, and it adds none.
    Rows(String),
    /// A file, and it adds others.
    AndAdds(String),
}

impl Commit {
    /// Reads a version for somebody who wants its rows, or its changes.
    ///
    /// # Errors
    ///
    /// `Corrupt` if it is not a version of a Delta log, `Invalid` if its changes cannot be told.
    pub(crate) fn parse(version: u64, written: &Written, reading: DeltaReading) -> Result<Self> {
        let actions = actions(version, &written.bytes)?;
        let mut timestamp = written.modified;
        let (mut added, mut removed, mut changes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut metadata, mut protocol) = (None, None);
        for action in actions {
            match action {
                Action::Add(add) if add.data_change => added.push(DataFile::added(version, add)?),
                Action::Remove(remove) if remove.data_change => removed.push(remove),
                Action::Cdc(cdc) => changes.push(DataFile::changes(version, cdc)?),
                Action::Metadata(found) => metadata = Some(found),
                Action::Protocol(found) => protocol = Some(found),
                Action::CommitInfo(info) => {
                    timestamp = info.in_commit_timestamp.unwrap_or(timestamp);
                }
                _ => {}
            }
        }
        let takes = match (removed.first(), added.is_empty()) {
            (None, _) => Takes::Nothing,
            (Some(file), true) => Takes::Rows(file.path.clone()),
            (Some(file), false) => Takes::AndAdds(file.path.clone()),
        };
        let files = match reading {
            DeltaReading::Rows => added,
            // Changes that are written down are all of them.
            DeltaReading::ChangeFeed if !changes.is_empty() => changes
                .into_iter()
                .map(|file| file.with_change(ChangeKind::InFile, timestamp))
                .collect(),
            DeltaReading::ChangeFeed => {
                let removed = removed.into_iter().map(|remove| DataFile::removed(version, remove));
                let removed = removed.collect::<Result<Vec<_>>>()?;
                refuse_rewritten(version, &added, &removed)?;
                let added =
                    added.into_iter().map(|file| file.with_change(ChangeKind::Insert, timestamp));
                let removed =
                    removed.into_iter().map(|file| file.with_change(ChangeKind::Delete, timestamp));
                removed.chain(added).collect()
            }
        };
        Ok(Self { version, files, metadata, protocol, timestamp, takes })
    }

    /// Applies the rule for versions that take something away.
    ///
    /// # Errors
    ///
    /// `Invalid` if the rule does not let it pass.
    pub(crate) fn apply(&mut self, rule: DeltaChanges) -> Result<()> {
        match (&self.takes, rule) {
            (Takes::Nothing, _) | (_, DeltaChanges::Reread) => Ok(()),
            (Takes::Rows(_), DeltaChanges::IgnoreDeletes) => Ok(()),
            (_, DeltaChanges::Skip) => {
                self.files.clear();
                Ok(())
            }
            (Takes::Rows(file), _) => Err(Error::invalid(format!(
                "version {} deletes rows (it removes {file} and adds nothing), and a stream cannot \
                 take rows back: set ignoreDeletes to true to go on without, or skipChangeCommits",
                self.version
            ))
            .with_condition("DELTA_SOURCE_IGNORE_DELETE")),
            (Takes::AndAdds(file), _) => Err(Error::invalid(format!(
                "version {} changes rows (it removes {file} and writes other files), and a stream \
                 cannot take rows back: set skipChangeCommits to true to leave such versions out, \
                 ignoreChanges to read rewritten files again, or readChangeFeed to read what \
                 changed",
                self.version
            ))
            .with_condition("DELTA_SOURCE_TABLE_IGNORE_CHANGES")),
        }
    }
}

/// A file that is removed and added again has other rows deleted: which ones only its deletion
/// vectors say.
fn refuse_rewritten(version: u64, added: &[DataFile], removed: &[DataFile]) -> Result<()> {
    let before: BTreeSet<&str> = removed.iter().map(|file| file.path.as_str()).collect();
    match added.iter().find(|file| before.contains(file.path.as_str())) {
        None => Ok(()),
        Some(file) => Err(Error::invalid(format!(
            "version {version} deletes rows of {} by a deletion vector and writes no change data; \
             this is not supported with readChangeFeed yet",
            file.path
        ))
        .with_condition("DELTA_FEATURE_NOT_SUPPORTED")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    const ADD: &str = r#"{"add":{"path":"a","partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}"#;
    const REMOVE: &str =
        r#"{"remove":{"path":"b","partitionValues":{},"size":1,"dataChange":true}}"#;
    const MOVED: &str = r#"{"add":{"path":"c","partitionValues":{},"size":1,"modificationTime":1,"dataChange":false}}"#;
    const CDC: &str =
        r#"{"cdc":{"path":"_change_data/d","partitionValues":{},"size":1,"dataChange":false}}"#;

    fn commit(lines: &[&str], reading: DeltaReading) -> Commit {
        let written = Written { bytes: Bytes::from(lines.join("\n")), modified: 9 };
        Commit::parse(3, &written, reading).unwrap()
    }

    /// The paths that are read, or the condition of the refusal.
    fn read(lines: &[&str], rule: DeltaChanges) -> String {
        let mut commit = commit(lines, DeltaReading::Rows);
        match commit.apply(rule) {
            Ok(()) => commit.files.iter().map(|file| file.path.as_str()).collect(),
            Err(error) => error.condition().unwrap_or_default().to_owned(),
        }
    }

    #[test]
    fn only_what_adds_rows_is_read() {
        for rule in [DeltaChanges::Refuse, DeltaChanges::Skip] {
            assert_eq!(read(&[ADD, MOVED], rule), "a");
            assert_eq!(read(&[MOVED], rule), "");
        }
    }

    #[test]
    fn what_takes_rows_away_follows_the_rule() {
        use DeltaChanges as Rule;
        for (rule, deletes, changes) in [
            (Rule::Refuse, "DELTA_SOURCE_IGNORE_DELETE", "DELTA_SOURCE_TABLE_IGNORE_CHANGES"),
            (Rule::IgnoreDeletes, "", "DELTA_SOURCE_TABLE_IGNORE_CHANGES"),
            (Rule::Reread, "", "a"),
            (Rule::Skip, "", ""),
        ] {
            assert_eq!(read(&[REMOVE], rule), deletes, "{rule:?}");
            assert_eq!(read(&[REMOVE, ADD], rule), changes, "{rule:?}");
        }
    }

    #[test]
    fn a_change_feed_has_what_was_written_down_or_else_the_files() {
        let kinds = |lines: &[&str]| -> Vec<_> {
            let commit = commit(lines, DeltaReading::ChangeFeed);
            commit.files.iter().map(|f| (f.path.clone(), f.change.unwrap().kind)).collect()
        };
        assert_eq!(
            kinds(&[ADD, REMOVE]),
            [("b".into(), ChangeKind::Delete), ("a".into(), ChangeKind::Insert)]
        );
        assert_eq!(kinds(&[ADD, REMOVE, CDC]), [("_change_data/d".into(), ChangeKind::InFile)]);
    }

    #[test]
    fn a_cut_entry_is_damage() {
        let written = Written { bytes: Bytes::from(&ADD.as_bytes()[..30]), modified: 0 };
        let error = Commit::parse(3, &written, DeltaReading::Rows).unwrap_err();
        assert_eq!(error.kind(), fluvial_core::ErrorKind::Corrupt);
        assert!(error.message().starts_with("version 3 of the log"), "{error}");
    }
}
