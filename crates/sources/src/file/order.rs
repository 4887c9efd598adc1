//! Which files come next: their order, and how many a batch takes.

use super::entry::FileEntry;
use fluvial_core::ReadLimit;
use std::cmp::Reverse;

/// Which files come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Order {
    #[default]
    OldestFirst,
    NewestFirst,
}

impl Order {
    /// Sorts by modification time, then by path.
    pub(crate) fn sort(self, files: &mut [FileEntry]) {
        match self {
            Self::OldestFirst => {
                files.sort_unstable_by(|a, b| (a.mtime, &a.path).cmp(&(b.mtime, &b.path)));
            }
            Self::NewestFirst => files.sort_unstable_by(|a, b| {
                (Reverse(a.mtime), &a.path).cmp(&(Reverse(b.mtime), &b.path))
            }),
        }
    }
}

/// How much of a limit is left.
#[derive(Debug)]
pub(crate) struct Admission {
    limit: ReadLimit,
    files: u64,
    bytes: u64,
}

impl Admission {
    pub(crate) fn new(limit: ReadLimit) -> Self {
        Self { limit, files: 0, bytes: 0 }
    }

    /// Whether a batch takes this file too. The first one is always taken. How many rows a file
    /// has is not known before it is read, so a limit on rows is one file.
    pub(crate) fn admits(&mut self, size: u64) -> bool {
        let bytes = self.bytes.saturating_add(size);
        let fits = self.limit.rows.is_none()
            && self.limit.files.is_none_or(|most| self.files < most.get())
            && self.limit.bytes.is_none_or(|most| bytes <= most.get());
        let admits = fits || self.files == 0;
        if admits {
            (self.files, self.bytes) = (self.files + 1, bytes);
        }
        admits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU64;

    fn admitted(limit: ReadLimit, sizes: &[u64]) -> usize {
        let mut admission = Admission::new(limit);
        sizes.iter().take_while(|size| admission.admits(**size)).count()
    }

    #[test]
    fn a_batch_stops_before_its_limit_is_passed_but_takes_one_file() {
        let bytes = |n| ReadLimit { bytes: NonZeroU64::new(n), ..ReadLimit::NONE };
        let files = |n| ReadLimit { files: NonZeroU64::new(n), ..ReadLimit::NONE };
        let rows = ReadLimit { rows: NonZeroU64::new(100), ..ReadLimit::NONE };
        assert_eq!(admitted(bytes(30), &[13; 6]), 2);
        assert_eq!(admitted(bytes(5), &[13; 6]), 1);
        assert_eq!(admitted(bytes(26), &[13, 13, 0, 0]), 4);
        assert_eq!(admitted(bytes(u64::MAX), &[u64::MAX, u64::MAX]), 2);
        assert_eq!(admitted(files(3), &[13; 6]), 3);
        assert_eq!(admitted(rows, &[13; 6]), 1);
        assert_eq!(admitted(ReadLimit::NONE, &[13; 6]), 6);
        assert_eq!(admitted(ReadLimit::NONE, &[]), 0);
    }

    #[test]
    fn time_comes_before_name() {
        let file = |path: &str, mtime| FileEntry { path: path.into(), size: 0, mtime, etag: None };
        let sorted = |order: Order| {
            let mut files = [file("a", 30), file("c", 10), file("b", 10), file("d", 20)];
            order.sort(&mut files);
            files.map(|file| file.path).concat()
        };
        assert_eq!(sorted(Order::OldestFirst), "bcda");
        assert_eq!(sorted(Order::NewestFirst), "adbc");
    }
}
