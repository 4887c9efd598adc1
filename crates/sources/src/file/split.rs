//! The files of a batch, cut into splits of nearly the same number of bytes.

use super::entry::FileEntry;
use crate::numbers;
use fluvial_core::{Error, Result, Split};
use serde::{Deserialize, Serialize};

/// Smaller files are not cut.
const CUT_BYTES: u64 = 16 << 20;

/// What opening a file costs, in bytes.
const OPEN_BYTES: u64 = 64 << 10;

/// A place in a batch: a file, by its number in the entry, and a byte of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Position(pub(crate) usize, pub(crate) u64);

/// The files from one place to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stretch {
    pub(crate) from: Position,
    pub(crate) to: Position,
}

/// Whether files may be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grain {
    /// Only between files.
    File,
    /// Also inside of large ones: the format finds its own boundaries.
    Bytes,
}

/// Cuts the files of a batch into at most `count` splits, none empty, in order.
pub(crate) fn cut(files: &[FileEntry], grain: Grain, count: usize) -> Result<Vec<Split>> {
    let cost = |file: &FileEntry| u128::from(file.size) + u128::from(OPEN_BYTES);
    let total: u128 = files.iter().map(cost).sum();
    let count = count.clamp(1, 65_536) as u128;
    let (mut bounds, mut before, mut next) = (vec![Position(0, 0)], 0u128, 1);
    for (i, file) in files.iter().enumerate() {
        let after = before + cost(file);
        while next < count && total * next / count <= after {
            let inside = (total * next / count).saturating_sub(before);
            bounds.push(if grain == Grain::Bytes && file.size >= CUT_BYTES {
                Position(i, u64::try_from(inside).unwrap_or(u64::MAX).min(file.size))
            } else {
                // The nearer end of the file.
                Position(i + usize::from(inside * 2 > cost(file)), 0)
            });
            next += 1;
        }
        before = after;
    }
    bounds.push(Position(files.len(), 0));
    // The end of one file is the start of the next.
    for bound in &mut bounds {
        if files.get(bound.0).is_some_and(|file| bound.1 > 0 && bound.1 >= file.size) {
            *bound = Position(bound.0 + 1, 0);
        }
    }
    bounds.dedup();
    bounds.windows(2).map(|pair| numbers::split(&Stretch { from: pair[0], to: pair[1] })).collect()
}

/// A file of a split, and which of its bytes.
pub(crate) type Piece<'a> = (&'a FileEntry, std::ops::Range<u64>);

/// The files of a split.
///
/// # Errors
///
/// `Corrupt` if the batch has no such files.
pub(crate) fn pieces<'a>(split: &Split, files: &'a [FileEntry]) -> Result<Vec<Piece<'a>>> {
    let Stretch { from, to } = numbers::parse_split(split)?;
    let most = Position(files.len(), 0);
    if from > to || to > most {
        return Err(Error::corrupt(format!(
            "split {} is not one of a batch of {} files",
            split.0,
            files.len()
        )));
    }
    let last = to.0 + usize::from(to.1 > 0);
    Ok((from.0..last)
        .map(|i| {
            let start = if i == from.0 { from.1 } else { 0 };
            let end = if i == to.0 { to.1 } else { files[i].size };
            (&files[i], start..end)
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn files(sizes: &[u64]) -> Vec<FileEntry> {
        let file = |(i, size): (usize, &u64)| FileEntry {
            path: i.to_string(),
            size: *size,
            mtime: 0,
            etag: None,
        };
        sizes.iter().enumerate().map(file).collect()
    }

    #[test]
    fn files_are_spread_evenly() {
        let counts = |sizes: &[u64], grain, n| -> Vec<usize> {
            let files = files(sizes);
            let splits = cut(&files, grain, n).unwrap();
            splits.iter().map(|split| pieces(split, &files).unwrap().len()).collect()
        };
        assert_eq!(counts(&[100; 4], Grain::File, 2), [2, 2]);
        assert_eq!(counts(&[0; 7], Grain::File, 3), [2, 3, 2]);
        assert_eq!(counts(&[100], Grain::File, 8), [1]);
        assert_eq!(counts(&[1 << 30], Grain::File, 2), [1]);
        assert_eq!(counts(&[1 << 30], Grain::Bytes, 2), [1, 1]);
        assert_eq!(counts(&[1 << 30, 1, 1 << 30], Grain::Bytes, 2).len(), 2);
    }

    proptest! {
        #[test]
        fn every_byte_is_in_one_split(
            sizes in proptest::collection::vec(prop_oneof![Just(0u64), 1..1000u64, Just(1 << 27), Just(u64::MAX)], 1..8),
            count in 0usize..9,
            bytes in any::<bool>(),
        ) {
            let files = files(&sizes);
            let grain = if bytes { Grain::Bytes } else { Grain::File };
            let splits = cut(&files, grain, count).unwrap();
            prop_assert!(splits.len() <= count.max(1));
            let mut next = (0usize, 0u64);
            for split in &splits {
                let pieces = pieces(split, &files).unwrap();
                prop_assert!(!pieces.is_empty());
                for (file, range) in pieces {
                    let i: usize = file.path.parse().unwrap();
                    prop_assert_eq!((i, range.start), next);
                    prop_assert!(range.end > range.start || file.size == 0);
                    next = if range.end == file.size { (i + 1, 0) } else { (i, range.end) };
                }
            }
            prop_assert_eq!(next, (files.len(), 0));
        }
    }
}
