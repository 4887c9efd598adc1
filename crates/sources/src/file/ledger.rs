//! The source's log: writing entries and parts, reading them back, collecting garbage.

use super::entry::{Entry, FAN_OUT, FileEntry, Identity, PartRef, parse_part, part_bytes};
use super::memory::Head;
use fluvial_core::source_log::{SourceLog, SourceLogEntry};
use fluvial_core::{BatchId, Error, ErrorKind, LogRef, Result, RunId};
use object_store::ObjectStore;
use object_store::path::Path;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The log of one file source.
#[derive(Debug)]
pub(crate) struct Ledger {
    log: SourceLog,
    identity: Identity,
}

/// Who writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt<'a> {
    pub(crate) batch: BatchId,
    pub(crate) run: &'a RunId,
    /// The time, if it is to be written down.
    pub(crate) now_ms: Option<i64>,
}

impl Ledger {
    /// The log in a folder of a checkpoint's store.
    pub(crate) fn new(store: Arc<dyn ObjectStore>, folder: Path, identity: Identity) -> Self {
        Self { log: SourceLog::new(store, folder, "files", 1), identity }
    }

    /// Writes the first entry: it takes `files` without reading them.
    pub(crate) async fn skip(
        &self,
        attempt: Attempt<'_>,
        files: &[FileEntry],
    ) -> Result<(LogRef, Entry)> {
        let fingerprints = files.iter().map(|file| self.identity.of(file)).collect();
        let part = self.put_part(attempt, 1, fingerprints).await?;
        let entry = Entry {
            log_offset: 0,
            previous: None,
            parts: vec![part],
            newest: files.iter().map(|file| file.mtime).max().unwrap_or(i64::MIN),
            greatest: files.iter().map(|file| file.path.clone()).max(),
            planned_ms: attempt.now_ms,
            files: Vec::new(),
        };
        let log = self.log.put(attempt.batch, attempt.run, &entry.bytes()?).await?;
        Ok((log, entry))
    }

    /// Writes the entry that takes `files` after `head`.
    pub(crate) async fn append(
        &self,
        attempt: Attempt<'_>,
        head: Option<&Head>,
        files: Vec<FileEntry>,
    ) -> Result<(LogRef, Entry)> {
        let log_offset = head.map_or(0, |head| head.log_offset + 1);
        let newest = files.iter().map(|file| file.mtime).chain(head.map(|head| head.newest));
        let newest = newest.max().unwrap_or(i64::MIN);
        let before = head.and_then(|head| head.greatest.clone());
        let greatest = files.iter().map(|file| file.path.clone()).chain(before).max();
        let mut entry = Entry {
            log_offset,
            previous: head.map(|head| head.log.clone()),
            parts: Vec::new(),
            newest,
            greatest,
            planned_ms: attempt.now_ms,
            files,
        };
        if let Some(head) = head.filter(|_| entry.starts_decade()) {
            entry.parts = self.extend_parts(attempt, head).await?;
        }
        let log = self.log.put(attempt.batch, attempt.run, &entry.bytes()?).await?;
        Ok((log, entry))
    }

    /// The head's parts and one more, of its decade; ten of one level become one.
    async fn extend_parts(&self, attempt: Attempt<'_>, head: &Head) -> Result<Vec<PartRef>> {
        let mut parts = head.parts.clone();
        parts.push(self.put_part(attempt, 1, head.decade.clone()).await?);
        while let Some(level) = full_level(&parts) {
            let merged = parts.split_off(parts.len() - FAN_OUT);
            let fingerprints = self.read_parts(&merged).await?;
            parts.push(self.put_part(attempt, level + 1, fingerprints).await?);
        }
        Ok(parts)
    }

    async fn put_part(
        &self,
        attempt: Attempt<'_>,
        level: u32,
        mut fingerprints: Vec<u128>,
    ) -> Result<PartRef> {
        // The same files give the same bytes, whatever their order.
        fingerprints.sort_unstable();
        let bytes = part_bytes(&fingerprints);
        let log = self.log.put(attempt.batch, attempt.run, &bytes).await?;
        Ok(PartRef { level, log })
    }

    async fn read_parts(&self, parts: &[PartRef]) -> Result<Vec<u128>> {
        let mut all = Vec::new();
        for part in parts {
            let bytes = self.log.get(&part.log).await?;
            all.extend(parse_part(&bytes).map_err(|e| e.at(&part.log.name))?);
        }
        Ok(all)
    }

    /// Reads an entry.
    pub(crate) async fn entry(&self, log: &LogRef) -> Result<Entry> {
        let bytes = self.log.get(log).await?;
        Entry::parse(&bytes).map_err(|e| e.at(&log.name))
    }

    /// Reads an entry whose plan won, and all that came before it: the head, and the fingerprints
    /// of the files before its decade. What attempts that lost left of that decade is deleted.
    pub(crate) async fn restore(&self, log: &LogRef) -> Result<(Head, Vec<u128>)> {
        let decade = self.decade(log).await?;
        self.sweep(decade.iter().map(|(log, entry)| (log, entry))).await?;
        let (first, last) = match (decade.last(), decade.first()) {
            (Some((_, first)), Some((_, last))) => (first, last),
            _ => return Err(Error::corrupt(format!("{} has no entries", log.name))),
        };
        let before = self.read_parts(&first.parts).await?;
        let files = decade.iter().rev().flat_map(|(_, entry)| &entry.files);
        let head = Head {
            log: log.clone(),
            log_offset: last.log_offset,
            parts: first.parts.clone(),
            decade: files.map(|file| self.identity.of(file)).collect(),
            newest: last.newest,
            greatest: last.greatest.clone(),
        };
        Ok((head, before))
    }

    /// An entry and those of its decade before it, the newest first.
    async fn decade(&self, log: &LogRef) -> Result<Vec<(LogRef, Entry)>> {
        let mut entries = vec![(log.clone(), self.entry(log).await?)];
        while let Some((_, entry)) = entries.last() {
            let Some(previous) = entry.previous.clone().filter(|_| !entry.starts_decade()) else {
                break;
            };
            let before = self.entry(&previous).await?;
            if before.log_offset + 1 != entry.log_offset {
                return Err(Error::corrupt(format!(
                    "entry {} of a file source's log follows entry {}",
                    entry.log_offset, before.log_offset
                )));
            }
            entries.push((previous, before));
        }
        Ok(entries)
    }

    /// What `of` says of an entry and of those before it that are after `after`, the oldest
    /// first; those that were collected are left out.
    pub(crate) async fn since<T>(
        &self,
        log: &LogRef,
        after: i64,
        of: impl Fn(&Entry) -> T,
    ) -> Result<Vec<(LogRef, T)>> {
        let mut entries = Vec::new();
        let mut next = Some(log.clone());
        while let Some(log) = next {
            let entry = match self.entry(&log).await {
                Ok(entry) => entry,
                Err(error) if error.kind() == ErrorKind::NotFound && !entries.is_empty() => break,
                Err(error) => return Err(error),
            };
            if entry.log_offset <= after {
                break;
            }
            entries.push((log, of(&entry)));
            next = entry.previous;
        }
        entries.reverse();
        Ok(entries)
    }

    /// Deletes what was written for the batches of some entries, from the first to the last, and
    /// belongs to none of their plans. They are adopted, so nobody can win those batches any more;
    /// later ones somebody else may be planning.
    pub(crate) async fn sweep<'a>(
        &self,
        entries: impl IntoIterator<Item = (&'a LogRef, &'a Entry)>,
    ) -> Result<()> {
        let (mut adopted, mut keep) = (BTreeSet::new(), BTreeSet::new());
        for (log, entry) in entries {
            adopted.insert(log.name.as_str());
            keep.extend(entry.parts.iter().map(|part| part.log.name.as_str()));
        }
        let objects = self.log.list().await?;
        let batches = objects.iter().filter(|o| adopted.contains(o.name.as_str())).map(|o| o.batch);
        let (Some(first), Some(last)) = (batches.clone().min(), batches.max()) else {
            return Ok(());
        };
        keep.append(&mut adopted);
        self.delete(&objects, &keep, |batch| (first..=last).contains(&batch)).await
    }

    async fn delete(
        &self,
        objects: &[SourceLogEntry],
        keep: &BTreeSet<&str>,
        settled: impl Fn(BatchId) -> bool,
    ) -> Result<()> {
        let lost = |o: &&SourceLogEntry| settled(o.batch) && !keep.contains(o.name.as_str());
        let lost: Vec<String> = objects.iter().filter(lost).map(|o| o.name.clone()).collect();
        if lost.is_empty() { Ok(()) } else { self.log.delete(lost).await }
    }

    /// Deletes what nobody needs once nothing at or before entry `log` is read again: everything
    /// written for its batch or an earlier one, except its own decade and the parts before it.
    pub(crate) async fn collect(&self, log: &LogRef) -> Result<()> {
        let decade = self.decade(log).await?;
        let mut keep: BTreeSet<&str> = decade.iter().map(|(log, _)| log.name.as_str()).collect();
        let parts = decade.last().map_or(&[][..], |(_, first)| &first.parts);
        keep.extend(parts.iter().map(|part| part.log.name.as_str()));
        let objects = self.log.list().await?;
        let Some(batch) = objects.iter().find(|o| o.name == log.name).map(|o| o.batch) else {
            return Ok(());
        };
        self.delete(&objects, &keep, |of| of <= batch).await
    }
}

/// The level of the last ten parts, if it is one.
fn full_level(parts: &[PartRef]) -> Option<u32> {
    let last = parts.last_chunk::<FAN_OUT>()?;
    last.iter().all(|part| part.level == last[0].level).then_some(last[0].level)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::memory::Memory;
    use fluvial_sim::{CrashAt, Disk, block_on};

    fn file(n: u64) -> FileEntry {
        FileEntry { path: format!("in/{n}"), size: 1, mtime: n as i64, etag: None }
    }

    /// A log of `n` entries of one file each, and its head.
    fn written(disk: &Disk, n: u64) -> (Ledger, Memory) {
        let ledger = Ledger::new(disk.process().store(), Path::from("log"), Identity::Path);
        let (mut memory, run) = (Memory::default(), RunId::new("r").unwrap());
        for i in 0..n {
            let attempt = Attempt { batch: BatchId(i), run: &run, now_ms: None };
            let (log, entry) =
                block_on(ledger.append(attempt, memory.head(), vec![file(i)])).unwrap();
            memory.advance(&log, &entry);
        }
        (ledger, memory)
    }

    #[test]
    fn reading_back_finds_every_file_in_a_few_requests() {
        for n in [1, 9, 10, 11, 25, 100, 101, 123, 1000, 1099] {
            let disk = Disk::new();
            let (_, memory) = written(&disk, n);
            let head = memory.head().unwrap();
            let process = disk.process();
            let ledger = Ledger::new(process.store(), Path::from("log"), Identity::Path);
            let (restored, mut all) = block_on(ledger.restore(&head.log)).unwrap();
            all.extend(&restored.decade);
            all.sort_unstable();
            let mut expected: Vec<u128> = (0..n).map(|i| Identity::Path.of(&file(i))).collect();
            expected.sort_unstable();
            assert_eq!(all, expected, "{n}");
            assert_eq!(restored.log_offset, n as i64 - 1);
            assert_eq!((&restored.parts, restored.newest), (&head.parts, head.newest));
            assert!(process.steps() <= 40, "{n}: {} requests", process.steps());
        }
    }

    #[test]
    fn collecting_leaves_what_is_needed_to_go_on() {
        let disk = Disk::new();
        let (ledger, memory) = written(&disk, 137);
        let log = memory.head().unwrap().log.clone();
        let before = disk.paths().len();
        block_on(ledger.collect(&log)).unwrap();
        let left = disk.paths().len();
        assert!(left <= 12 && left < before, "{left} of {before}");
        assert!(block_on(ledger.restore(&log)).is_ok());
        block_on(ledger.collect(&log)).unwrap();
        assert_eq!(disk.paths().len(), left);
    }

    #[test]
    fn collecting_at_an_entry_keeps_all_later_ones() {
        let disk = Disk::new();
        let (ledger, memory) = written(&disk, 57);
        let last = memory.head().unwrap().log.clone();
        let mut log = last.clone();
        for _ in 0..5 {
            log = block_on(ledger.entry(&log)).unwrap().previous.unwrap();
        }
        block_on(ledger.collect(&log)).unwrap();
        let (head, before) = block_on(ledger.restore(&last)).unwrap();
        assert_eq!(head.decade.len() + before.len(), 57);
    }

    #[test]
    fn what_attempts_that_lost_left_behind_goes_with_the_next_start() {
        for n in [1, 7, 10, 11, 35, 101] {
            let disk = Disk::new();
            let (ledger, memory) = written(&disk, n);
            let newest = memory.head().unwrap().log.clone();
            let (lost, run) = (disk.paths(), RunId::new("lost").unwrap());
            for batch in [n - 1, n] {
                let attempt = Attempt { batch: BatchId(batch), run: &run, now_ms: None };
                block_on(ledger.append(attempt, memory.head(), vec![file(9999)])).unwrap();
            }
            let later = format!("log/{n}-lost-");
            block_on(ledger.restore(&newest)).unwrap();
            let left: Vec<String> =
                disk.paths().into_iter().filter(|path| !lost.contains(path)).collect();
            assert!(!left.is_empty(), "{n}: another may be planning that batch");
            assert!(left.iter().all(|path| path.starts_with(&later)), "{n}: {left:?}");
            let (head, before) = block_on(ledger.restore(&newest)).unwrap();
            assert_eq!(head.decade.len() + before.len(), n as usize, "{n}");
        }
    }

    /// Trap D20.
    #[test]
    fn every_file_stays_known_wherever_collecting_dies() {
        // Nothing is merged, ten entries are, a hundred are: before, with, and after what goes.
        for n in [5, 12, 13, 14, 103] {
            let collect = |crash: Option<CrashAt>| {
                let disk = Disk::new();
                let (ledger, memory) = written(&disk, n);
                let newest = memory.head().unwrap().log.clone();
                let mut released = newest.clone();
                let before = |log: &LogRef| block_on(ledger.entry(log)).unwrap().previous.unwrap();
                for _ in 0..2 {
                    released = before(&released);
                }
                // As it is done, batch by batch.
                block_on(ledger.collect(&before(&released))).unwrap();
                let process = disk.mortal(crash);
                let dying = Ledger::new(process.store(), Path::from("log"), Identity::Path);
                block_on(process.live(dying.collect(&released)));
                for again in [false, true] {
                    if again {
                        block_on(ledger.collect(&released)).unwrap();
                    }
                    let (head, before) = block_on(ledger.restore(&newest)).unwrap();
                    assert_eq!(head.decade.len() + before.len(), n as usize, "{n}, {crash:?}");
                }
                process.steps()
            };
            let steps = collect(None);
            for crash in CrashAt::each(steps) {
                collect(Some(crash));
            }
        }
    }
}
