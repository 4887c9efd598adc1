//! Manifests: the runs of a version, newest first, and how many keys each group has.
//!
//! ```text
//! manifest = format first-group end-group (rows)*  #objects (object)* #runs (run)*
//! object   = version attempt run-id
//! run      = object offset data meta plain filter blocks entries deletes ranges
//!            low high low-middle high-middle first-group end-group
//! ```
//!
//! The object 0 is the one that the manifest itself lies in; the others are numbered from 1.
//! A manifest names runs of earlier objects, and a run may be named for some of its groups only:
//! that is how the number of partitions changes without a byte being rewritten.

use crate::codec::{Reader, put_bytes, put_number};
use crate::index::too_new;
use crate::token::ObjectName;
use fluvial_core::{Error, KeyGroupRange, KeyRange, Result};

/// Version of the bytes of manifests.
const FORMAT: u8 = 1;

/// How many bytes behind the group are the *middle* of a key: those of a time, if it begins with
/// one.
const MIDDLE_BYTES: usize = 9;

/// What stands behind the group of a key.
pub(crate) fn middle(key: &[u8]) -> &[u8] {
    &key[2..key.len().min(2 + MIDDLE_BYTES)]
}

/// A run without its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunMeta {
    /// Where it begins in its object.
    pub(crate) offset: u64,
    /// Bytes of its blocks.
    pub(crate) data: u64,
    /// Bytes of its packed index behind them, and before compression.
    pub(crate) meta: u64,
    pub(crate) meta_plain: u64,
    /// Bytes of its packed filter behind that, and before compression.
    pub(crate) filter: u64,
    pub(crate) blocks: u32,
    pub(crate) entries: u64,
    pub(crate) deletes: u64,
    /// Deleted ranges of older runs.
    pub(crate) ranges: u64,
    /// No key lies before `low` or behind `high`; for short keys they are its first and last.
    pub(crate) low: Vec<u8>,
    pub(crate) high: Vec<u8>,
    /// The least and the greatest middle of its keys: its times, where keys begin with one.
    pub(crate) low_middle: Vec<u8>,
    pub(crate) high_middle: Vec<u8>,
}

impl RunMeta {
    /// Bytes of it in its object.
    pub(crate) fn bytes(&self) -> u64 {
        self.data + self.meta + self.filter
    }

    /// What can stand behind the group in its keys.
    pub(crate) fn reach(&self) -> KeyRange {
        let KeyRange { end, .. } = KeyRange::prefix(&self.high_middle);
        KeyRange { start: self.low_middle.clone(), end }
    }
}

/// The runs of a version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) groups: KeyGroupRange,
    /// Keys in each group of `groups`.
    pub(crate) rows: Vec<u64>,
    /// Newest first. An object that is `None` is the manifest's own.
    pub(crate) runs: Vec<ManifestRun>,
}

/// A run as a manifest names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ManifestRun {
    pub(crate) object: Option<ObjectName>,
    pub(crate) meta: RunMeta,
    /// The groups for which it counts.
    pub(crate) clip: KeyGroupRange,
}

fn put_groups(out: &mut Vec<u8>, groups: KeyGroupRange) {
    put_number(out, u64::from(groups.start));
    put_number(out, u64::from(groups.end));
}

fn take_groups(reader: &mut Reader<'_>) -> Result<KeyGroupRange> {
    let groups = KeyGroupRange { start: reader.group()?, end: reader.group()? };
    if groups.start <= groups.end { Ok(groups) } else { Err(bad()) }
}

fn bad() -> Error {
    Error::corrupt("a manifest is damaged")
}

impl Manifest {
    /// The bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        put_groups(&mut out, self.groups);
        self.rows.iter().for_each(|rows| put_number(&mut out, *rows));
        let mut objects: Vec<&ObjectName> =
            self.runs.iter().filter_map(|run| run.object.as_ref()).collect();
        objects.sort_unstable();
        objects.dedup();
        put_number(&mut out, objects.len() as u64);
        objects.iter().for_each(|object| object.put(&mut out));
        put_number(&mut out, self.runs.len() as u64);
        for ManifestRun { object, meta, clip } in &self.runs {
            let object = object.as_ref().and_then(|o| objects.binary_search(&o).ok());
            put_number(&mut out, object.map_or(0, |at| at as u64 + 1));
            for number in [meta.offset, meta.data, meta.meta, meta.meta_plain, meta.filter] {
                put_number(&mut out, number);
            }
            for number in [u64::from(meta.blocks), meta.entries, meta.deletes, meta.ranges] {
                put_number(&mut out, number);
            }
            for bytes in [&meta.low, &meta.high, &meta.low_middle, &meta.high_middle] {
                put_bytes(&mut out, bytes);
            }
            put_groups(&mut out, *clip);
        }
        out
    }

    /// Reads the bytes.
    ///
    /// # Errors
    ///
    /// `Corrupt` for bytes that no writer wrote, `Invalid` for a newer format.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader(bytes);
        match reader.byte()? {
            FORMAT => {}
            newer if newer > FORMAT => return Err(too_new(newer, FORMAT)),
            _ => return Err(Error::corrupt("it holds something else")),
        }
        let groups = take_groups(&mut reader)?;
        let mut rows = Vec::new();
        for _ in groups.groups() {
            rows.push(reader.number()?);
        }
        let mut objects = Vec::new();
        for _ in 0..reader.count()? {
            objects.push(ObjectName::take(&mut reader)?);
        }
        let mut runs = Vec::new();
        for _ in 0..reader.count()? {
            let object = match reader.count()? {
                0 => None,
                at => Some(objects.get(at - 1).cloned().ok_or_else(bad)?),
            };
            let meta = take_meta(&mut reader)?;
            runs.push(ManifestRun { object, meta, clip: take_groups(&mut reader)? });
        }
        reader.finish()?;
        Ok(Self { groups, rows, runs })
    }

    /// All keys.
    pub(crate) fn total_rows(&self) -> u64 {
        self.rows.iter().fold(0, |sum, rows| sum.saturating_add(*rows))
    }
}

fn take_meta(reader: &mut Reader<'_>) -> Result<RunMeta> {
    let meta = RunMeta {
        offset: reader.number()?,
        data: reader.number()?,
        meta: reader.number()?,
        meta_plain: reader.number()?,
        filter: reader.number()?,
        blocks: reader.small()?,
        entries: reader.number()?,
        deletes: reader.number()?,
        ranges: reader.number()?,
        low: reader.bytes()?.to_vec(),
        high: reader.bytes()?.to_vec(),
        low_middle: reader.bytes()?.to_vec(),
        high_middle: reader.bytes()?.to_vec(),
    };
    let sizes = [meta.offset, meta.data, meta.meta, meta.filter];
    let end = sizes.iter().try_fold(0u64, |sum, size| sum.checked_add(*size));
    let keyed = meta.entries == 0 || meta.low.len() >= 2;
    if end.is_none() || !keyed || meta.low > meta.high {
        return Err(bad());
    }
    Ok(meta)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_core::ErrorKind;
    use proptest::prelude::*;

    fn example() -> Manifest {
        let meta = RunMeta {
            offset: 300,
            data: 4000,
            meta: 70,
            meta_plain: 90,
            filter: 41,
            blocks: 1,
            entries: 20,
            deletes: 3,
            ranges: 1,
            low: vec![0, 1, 7],
            high: vec![0, 3, 9],
            low_middle: vec![7],
            high_middle: vec![9],
        };
        let clip = KeyGroupRange { start: 1, end: 3 };
        let old = Some("3-1-run-7".parse().unwrap());
        let runs = [None, old].map(|object| ManifestRun { object, meta: meta.clone(), clip });
        let groups = KeyGroupRange { start: 1, end: 4 };
        Manifest { groups, rows: vec![5, 0, 300], runs: runs.into() }
    }

    #[test]
    fn manifests_come_back_and_their_bytes_never_change() {
        let manifest = example();
        let bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes).unwrap(), manifest);
        assert_eq!(manifest.total_rows(), 305);
        let golden = "01010405 00ac0201 03010572 756e2d37 0200ac02 a01f465a 29011403 01030001";
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let golden: String = golden.split(' ').collect();
        assert!(hex.starts_with(&golden), "{hex}");
    }

    #[test]
    fn newer_ones_are_told_from_damage() {
        let mut bytes = example().encode();
        bytes[0] += 1;
        assert_eq!(Manifest::decode(&bytes).unwrap_err().kind(), ErrorKind::Invalid);
        bytes[0] = 0;
        assert_eq!(Manifest::decode(&bytes).unwrap_err().kind(), ErrorKind::Corrupt);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(at: prop::sample::Index, flip in 1u8.., cut: prop::sample::Index) {
            let mut bytes = example().encode();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            let _ = Manifest::decode(&bytes);
            bytes.truncate(cut.index(bytes.len()));
            prop_assert!(Manifest::decode(&bytes).is_err());
        }
    }
}
