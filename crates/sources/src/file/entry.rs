//! What the source writes beside the plans: which files a batch takes, and, ten entries at a
//! time, the fingerprints of all files taken before.
//!
//! ```text
//!  entry 0 <- entry 1 <- ... <- entry 9 <- entry 10 <- entry 11
//!                                           |
//!                                           parts: fingerprints of entries 0..=9
//! ```
//!
//! Each entry names the one before it. Every tenth entry also names *parts*, which together hold
//! the fingerprints of all files of the entries before it; ten parts of one level are merged
//! into one of the next. So reading back takes a few objects however long a query has lived.

use fluvial_core::{Error, LogRef, Result};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_128;

/// So many entries make a part, and so many parts a part of the next level.
pub(crate) const FAN_OUT: usize = 10;

/// A file, as it was when it was planned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileEntry {
    /// Below the store's root.
    pub(crate) path: String,
    /// Bytes.
    pub(crate) size: u64,
    /// Milliseconds since the epoch.
    pub(crate) mtime: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) etag: Option<String>,
}

/// What makes two files the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Identity {
    /// Their path: a file is read once, whatever becomes of it.
    #[default]
    Path,
    /// Their name, in whatever folder they are.
    Name,
    /// Their path, size and time: a file that is overwritten is another one.
    Version,
}

impl Identity {
    pub(crate) fn of(self, file: &FileEntry) -> u128 {
        match self {
            Self::Path | Self::Name => self.of_path(&file.path),
            Self::Version => fingerprint(&format!("{}\n{}\n{}", file.path, file.size, file.mtime)),
        }
    }

    /// The same of a path, where that is all that a file is.
    pub(crate) fn of_path(self, path: &str) -> u128 {
        match self {
            Self::Name => fingerprint(path.rsplit('/').next().unwrap_or(path)),
            Self::Path | Self::Version => fingerprint(path),
        }
    }
}

/// What is remembered of a text.
pub(crate) fn fingerprint(path: &str) -> u128 {
    xxh3_128(path.as_bytes())
}

/// The files of one batch, and how to find those of all batches before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry {
    /// Counts entries from 0.
    pub(crate) log_offset: i64,
    /// The entry before this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) previous: Option<LogRef>,
    /// In every tenth entry: parts that hold all files of all entries before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) parts: Vec<PartRef>,
    /// The latest modification time of any file so far.
    pub(crate) newest: i64,
    /// The greatest path of any file so far, where listings begin after it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) greatest: Option<String>,
    /// When it was planned, in milliseconds since the epoch: for files that are kept for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) planned_ms: Option<i64>,
    /// In the order in which they are read.
    pub(crate) files: Vec<FileEntry>,
}

/// Names a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartRef {
    /// It stands for `FAN_OUT` to this power entries.
    pub(crate) level: u32,
    pub(crate) log: LogRef,
}

impl Entry {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        let entry: Self = serde_json::from_slice(bytes)
            .map_err(|e| Error::corrupt("not an entry of a file source's log").with_source(e))?;
        if entry.log_offset < 0 || (entry.log_offset > 0 && entry.previous.is_none()) {
            return Err(Error::corrupt(format!(
                "entry {} of a file source's log does not name the one before it",
                entry.log_offset
            )));
        }
        Ok(entry)
    }

    pub(crate) fn bytes(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self)
            .map_err(|e| Error::invalid("an entry has no JSON form").with_source(e))
    }

    /// Whether this entry names parts: the first of ten.
    pub(crate) fn starts_decade(&self) -> bool {
        self.log_offset % FAN_OUT as i64 == 0
    }
}

/// The bytes of a part: its fingerprints.
pub(crate) fn part_bytes(fingerprints: &[u128]) -> Vec<u8> {
    fingerprints.iter().flat_map(|f| f.to_le_bytes()).collect()
}

/// The fingerprints of a part.
///
/// # Errors
///
/// `Corrupt` if the bytes are no part.
pub(crate) fn parse_part(bytes: &[u8]) -> Result<Vec<u128>> {
    let (whole, rest) = bytes.as_chunks::<16>();
    if !rest.is_empty() {
        return Err(Error::corrupt("not a part of a file source's log"));
    }
    Ok(whole.iter().map(|chunk| u128::from_le_bytes(*chunk)).collect())
}

/// What an object of the log needs of others; a part needs nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogNeeds {
    /// The entry before it, of the same ten.
    pub previous: Option<LogRef>,
    /// What holds the files of all entries before these ten.
    pub parts: Vec<LogRef>,
}

/// Reads an entry or a part: for whoever accounts for what is on disk.
///
/// # Errors
///
/// `Corrupt` if the bytes are neither.
pub fn parse_log_object(bytes: &[u8]) -> Result<LogNeeds> {
    let needs = |entry: Entry| LogNeeds {
        previous: entry.previous.clone().filter(|_| !entry.starts_decade()),
        parts: entry.parts.into_iter().map(|part| part.log).collect(),
    };
    let entry = Entry::parse(bytes).map(needs);
    entry.or_else(|_| parse_part(bytes).map(|_| LogNeeds::default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_core::ErrorKind;

    #[test]
    fn the_format_is_pinned() {
        let entry = Entry {
            log_offset: 1,
            previous: Some(LogRef { name: "0-r-00000007".into(), crc32: 7 }),
            parts: Vec::new(),
            newest: 5,
            greatest: None,
            planned_ms: None,
            files: vec![FileEntry { path: "in/a".into(), size: 3, mtime: 5, etag: None }],
        };
        let text = concat!(
            r#"{"logOffset":1,"previous":{"name":"0-r-00000007","crc32":7},"newest":5,"#,
            r#""files":[{"path":"in/a","size":3,"mtime":5}]}"#
        );
        assert_eq!(String::from_utf8(entry.bytes().unwrap()).unwrap(), text);
        assert_eq!(Entry::parse(text.as_bytes()).unwrap(), entry);
        assert_eq!(fingerprint("in/a"), 0x6b47_0b65_e27b_dec4_2593_467c_2854_7114);
    }

    #[test]
    fn what_no_writer_writes_is_corrupt() {
        for bad in ["", "{}", r#"{"logOffset":1,"newest":0,"files":[]}"#] {
            assert_eq!(Entry::parse(bad.as_bytes()).unwrap_err().kind(), ErrorKind::Corrupt);
        }
        assert_eq!(parse_part(&[0; 17]).unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(parse_part(&part_bytes(&[1, 2])).unwrap(), [1, 2]);
    }

    #[test]
    fn either_an_entry_or_a_part_is_read() {
        let entry = br#"{"logOffset":0,"newest":5,"files":[]}"#;
        for whole in [&entry[..], &part_bytes(&[1, u128::MAX])] {
            assert_eq!(parse_log_object(whole).unwrap(), LogNeeds::default());
        }
        let log = |name: &str| LogRef { name: name.into(), crc32: 1 };
        let part = |name| PartRef { level: 1, log: log(name) };
        let entry_of = |log_offset, parts| Entry {
            log_offset,
            previous: Some(log("a")),
            parts,
            newest: 5,
            greatest: None,
            planned_ms: None,
            files: Vec::new(),
        };
        for (entry, previous, parts) in [
            (entry_of(1, Vec::new()), Some(log("a")), Vec::new()),
            (entry_of(10, vec![part("b")]), None, vec![log("b")]),
        ] {
            let found = parse_log_object(&entry.bytes().unwrap()).unwrap();
            assert_eq!(found, LogNeeds { previous, parts });
        }
        let cut = parse_log_object(&entry[1..]).unwrap_err();
        assert_eq!(cut.kind(), ErrorKind::Corrupt);
    }
}
