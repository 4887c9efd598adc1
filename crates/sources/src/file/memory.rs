//! What the source remembers: which files were taken, as of the newest adopted plan.

use super::backlog::Backlog;
use super::entry::{Entry, FileEntry, Identity, PartRef};
use super::order::{Admission, Order};
use super::seen::Seen;
use fluvial_core::{Error, LogRef, ReadLimit, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The newest adopted entry, and all that follows from it.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) log: LogRef,
    pub(crate) log_offset: i64,
    /// Parts that hold the files of all entries before this one's decade.
    pub(crate) parts: Vec<PartRef>,
    /// The files of this one's decade, up to this one.
    pub(crate) decade: Vec<u128>,
    /// The latest modification time of any file so far.
    pub(crate) newest: i64,
    /// The greatest path of any file so far, if the log says it.
    pub(crate) greatest: Option<String>,
}

/// Files found by one listing and not taken yet, in order.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    files: Vec<FileEntry>,
    /// Files before this one were taken.
    next: usize,
    /// The files from there on.
    backlog: Backlog,
}

/// A listing that an available-now run does not read past.
#[derive(Debug)]
struct Frozen {
    id: u64,
    listing: Listing,
}

/// What is remembered.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    head: Option<Head>,
    identity: Identity,
    /// 16 bytes a file, for as long as the query lives: a file is never read twice, whatever its
    /// new modification time.
    taken: Seen,
    /// What the newest listing found. Not a memory of plans: a file leaves it when it is taken
    /// by an adopted plan only.
    found: Option<Listing>,
    frozen: Option<Frozen>,
    frontiers: u64,
    /// The entry planned or read last.
    entry: Option<(LogRef, Arc<Entry>)>,
}

/// Which of the files that are there count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice {
    pub(crate) order: Order,
    pub(crate) max_age_ms: i64,
}

impl Memory {
    pub(crate) fn new(identity: Identity) -> Self {
        Self { identity, ..Self::default() }
    }

    /// Whether all of these files would come after those that were taken.
    pub(crate) fn are_beyond(&self, files: &[FileEntry]) -> bool {
        let Some(greatest) = self.head.as_ref().and_then(|head| head.greatest.as_ref()) else {
            return false;
        };
        let new = |file: &&FileEntry| !self.taken.contains(self.identity.of(file));
        files.iter().filter(new).all(|file| file.path > *greatest)
    }

    pub(crate) fn head(&self) -> Option<&Head> {
        self.head.as_ref()
    }

    /// The offset of the newest adopted entry; -1 before the first.
    pub(crate) fn log_offset(&self) -> i64 {
        self.head.as_ref().map_or(-1, |head| head.log_offset)
    }

    /// Keeps the files of a listing that count and were not taken.
    pub(crate) fn find(&mut self, files: Vec<FileEntry>, choice: Choice) {
        self.found = Some(self.filter(files, choice));
    }

    /// Keeps a listing as the frontier of an available-now run; the answer is its number.
    pub(crate) fn freeze(&mut self, files: Vec<FileEntry>, choice: Choice) -> u64 {
        self.frontiers += 1;
        let listing = self.filter(files, choice);
        self.frozen = Some(Frozen { id: self.frontiers, listing });
        self.frontiers
    }

    fn filter(&self, mut files: Vec<FileEntry>, choice: Choice) -> Listing {
        // Before the first batch nothing was seen, so nothing is too old.
        let oldest = self.head.as_ref().map(|head| head.newest.saturating_sub(choice.max_age_ms));
        files.retain(|file| {
            oldest.is_none_or(|oldest| file.mtime >= oldest)
                && !self.taken.contains(self.identity.of(file))
        });
        choice.order.sort(&mut files);
        // The same file by two ways, through overlapping patterns.
        files.dedup_by(|a, b| a.path == b.path);
        if self.identity == Identity::Name {
            let mut names = BTreeSet::new();
            files.retain(|file| names.insert(self.identity.of(file)));
        }
        let backlog = Backlog::of(&files);
        Listing { files, next: 0, backlog }
    }

    /// Leaves the paths that were not taken, where a path is all that a file is.
    pub(crate) fn retain_unknown(&self, paths: &mut Vec<String>) {
        paths.retain(|path| !self.taken.contains(self.identity.of_path(path)));
    }

    /// Leaves the files that were not taken.
    pub(crate) fn retain_new(&self, files: &mut BTreeMap<String, FileEntry>) {
        files.retain(|_, file| !self.taken.contains(self.identity.of(file)));
    }

    /// What the newest listing has, and an available-now run still has to read.
    pub(crate) fn backlog(&self, frozen: bool) -> Backlog {
        let frozen = self.frozen.as_ref().map(|frozen| &frozen.listing).filter(|_| frozen);
        frozen.or(self.found.as_ref()).map_or_else(Backlog::default, |listing| listing.backlog)
    }

    /// What the next batch takes of the newest listing.
    pub(crate) fn take_found(&self, limit: ReadLimit) -> Vec<FileEntry> {
        self.found.as_ref().map_or_else(Vec::new, |found| self.take(found, limit).0)
    }

    /// What it takes of the newest listing, if that fills the limit: then there is no need for
    /// another one.
    pub(crate) fn take_full(&self, limit: ReadLimit) -> Option<Vec<FileEntry>> {
        let (files, full) = self.take(self.found.as_ref()?, limit);
        full.then_some(files)
    }

    /// What it takes up to a frontier.
    ///
    /// # Errors
    ///
    /// `Invalid` if the frontier was replaced by a newer one.
    pub(crate) fn take_frozen(&self, id: Option<u64>, limit: ReadLimit) -> Result<Vec<FileEntry>> {
        match &self.frozen {
            Some(frozen) if Some(frozen.id) == id => Ok(self.take(&frozen.listing, limit).0),
            _ => Err(Error::invalid(
                "this frontier of a file source was replaced by a newer one, or belongs to \
                 another instance: ask for it again",
            )),
        }
    }

    /// The files, and whether the limit left one out.
    fn take(&self, listing: &Listing, limit: ReadLimit) -> (Vec<FileEntry>, bool) {
        let mut admission = Admission::new(limit);
        let mut files = Vec::new();
        for file in &listing.files[listing.next..] {
            if self.taken.contains(self.identity.of(file)) {
                continue;
            }
            if !admission.admits(file.size) {
                return (files, true);
            }
            files.push(file.clone());
        }
        let full = limit.files.is_some_and(|most| files.len() as u64 >= most.get());
        (files, full)
    }

    /// Adopts the entry that follows the head.
    pub(crate) fn advance(&mut self, log: &LogRef, entry: &Entry) {
        let identity = self.identity;
        let files = entry.files.iter().map(|file| identity.of(file));
        let head = match self.head.take() {
            Some(mut head) if !entry.starts_decade() => {
                head.decade.extend(files);
                Head {
                    log: log.clone(),
                    log_offset: entry.log_offset,
                    newest: entry.newest,
                    greatest: entry.greatest.clone(),
                    ..head
                }
            }
            _ => Head {
                log: log.clone(),
                log_offset: entry.log_offset,
                parts: entry.parts.clone(),
                decade: files.collect(),
                newest: entry.newest,
                greatest: entry.greatest.clone(),
            },
        };
        self.taken.extend(entry.files.iter().map(|file| identity.of(file)));
        self.head = Some(head);
        self.forget_taken();
    }

    /// Adopts an entry together with all that came before it.
    pub(crate) fn restore(&mut self, head: Head, before: impl IntoIterator<Item = u128>) {
        self.taken = before.into_iter().chain(head.decade.iter().copied()).collect();
        self.head = Some(head);
        self.found = None;
        self.forget_taken();
    }

    /// Steps over what was taken at the start of the listings.
    fn forget_taken(&mut self) {
        let (taken, identity) = (&self.taken, self.identity);
        let frozen = self.frozen.as_mut().map(|frozen| &mut frozen.listing);
        for listing in [self.found.as_mut(), frozen].into_iter().flatten() {
            let rest = &listing.files[listing.next..];
            let done = rest.iter().take_while(|f| taken.contains(identity.of(f))).count();
            listing.backlog = listing.backlog.without(&rest[..done]);
            listing.next += done;
            if listing.next == listing.files.len() {
                *listing = Listing::default();
            }
        }
    }

    /// The entry of this name, if it was the last one.
    pub(crate) fn entry(&self, log: &LogRef) -> Option<Arc<Entry>> {
        self.entry.as_ref().filter(|(name, _)| name == log).map(|(_, entry)| entry.clone())
    }

    pub(crate) fn keep_entry(&mut self, log: LogRef, entry: Arc<Entry>) {
        self.entry = Some((log, entry));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU64;

    const ALL: Choice = Choice { order: Order::OldestFirst, max_age_ms: i64::MAX };

    fn files(names: &[(&str, i64)]) -> Vec<FileEntry> {
        let file = |(path, mtime): &(&str, i64)| FileEntry {
            path: (*path).into(),
            size: 1,
            mtime: *mtime,
            etag: None,
        };
        names.iter().map(file).collect()
    }

    fn adopt(memory: &mut Memory, log_offset: i64, taken: Vec<FileEntry>) {
        let newest = taken.iter().map(|file| file.mtime).max().unwrap_or(0);
        let log = LogRef { name: log_offset.to_string(), crc32: 0 };
        let previous = Some(log.clone());
        let greatest = None;
        let entry = Entry {
            log_offset,
            previous,
            parts: Vec::new(),
            newest,
            greatest,
            planned_ms: None,
            files: taken,
        };
        memory.advance(&log, &entry);
    }

    fn names(files: &[FileEntry]) -> String {
        files.iter().map(|file| file.path.as_str()).collect()
    }

    fn two() -> ReadLimit {
        ReadLimit { files: NonZeroU64::new(2), ..ReadLimit::NONE }
    }

    #[test]
    fn only_adopting_takes_a_file() {
        let mut memory = Memory::default();
        memory.find(files(&[("a", 1), ("b", 2), ("c", 3)]), ALL);
        assert_eq!(names(&memory.take_found(two())), "ab");
        assert_eq!(names(&memory.take_found(two())), "ab", "planning leaves no trace");
        // Another plan won, with other files.
        adopt(&mut memory, 0, files(&[("b", 2)]));
        assert_eq!(names(&memory.take_found(two())), "ac");
        assert_eq!(names(&memory.take_found(ReadLimit::NONE)), "ac");
    }

    #[test]
    fn a_full_batch_needs_no_listing() {
        let mut memory = Memory::default();
        assert_eq!(memory.take_full(two()), None);
        memory.find(files(&[("a", 1), ("b", 2), ("c", 3)]), ALL);
        assert_eq!(memory.take_full(two()).map(|files| names(&files)).as_deref(), Some("ab"));
        assert_eq!(memory.take_full(ReadLimit::NONE), None);
        adopt(&mut memory, 0, files(&[("a", 1), ("b", 2)]));
        assert_eq!(memory.take_full(two()), None, "one is left: there may be more by now");
    }

    #[test]
    fn age_counts_from_the_newest_taken_and_not_in_the_first_batch() {
        let week = Choice { order: Order::OldestFirst, max_age_ms: 7 };
        let mut memory = Memory::default();
        memory.find(files(&[("a", 0), ("b", 100)]), week);
        assert_eq!(names(&memory.take_found(ReadLimit::NONE)), "ab");
        adopt(&mut memory, 0, files(&[("b", 100)]));
        memory.find(files(&[("a", 0), ("b", 100), ("c", 92), ("d", 93)]), week);
        assert_eq!(names(&memory.take_found(ReadLimit::NONE)), "d");
    }

    #[test]
    fn a_frontier_is_not_passed() {
        let mut memory = Memory::default();
        let id = memory.freeze(files(&[("a", 1), ("b", 2), ("c", 3)]), ALL);
        memory.find(files(&[("a", 1), ("b", 2), ("c", 3), ("d", 0)]), ALL);
        let take = |memory: &Memory| names(&memory.take_frozen(Some(id), two()).unwrap());
        assert_eq!(take(&memory), "ab");
        adopt(&mut memory, 0, files(&[("a", 1), ("b", 2)]));
        assert_eq!(take(&memory), "c");
        adopt(&mut memory, 1, files(&[("c", 3)]));
        assert_eq!(take(&memory), "");
        assert!(memory.take_frozen(Some(id + 1), two()).is_err());
    }
}
