//! A cache of blocks on a local disk: it may be deleted at any moment.
//!
//! A run has one file, in which a block lies where it lies in the run; the rest is a hole. What is
//! read is checked as if it came from the object store, and what does not hold is read from there:
//! so a lost, cut, damaged or half written file costs time and nothing else. No file stays open.

use crate::budget::lock;
use crate::run::RunKey;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where the cache is, and how large it may become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalCache {
    /// A folder for it alone. Processes must not share it.
    pub folder: PathBuf,
    /// Bytes of blocks in it; files of runs that were not read for the longest time go first.
    pub bytes_max: u64,
}

/// The cache.
#[derive(Debug)]
pub(crate) struct DiskCache {
    place: LocalCache,
    files: Mutex<Files>,
    failures: AtomicU64,
}

#[derive(Debug, Default)]
struct Files {
    files: BTreeMap<String, Cached>,
    bytes: u64,
    reads: u64,
}

#[derive(Debug, Default)]
struct Cached {
    bytes: u64,
    /// Where blocks were written by this process.
    blocks: BTreeSet<u64>,
    /// The number of the last read or write.
    last: u64,
}

fn name(run: &RunKey) -> String {
    format!("{}+{}", run.object, run.offset)
}

impl DiskCache {
    /// A cache in a folder, with what an earlier process left there.
    pub(crate) fn new(place: LocalCache) -> Self {
        let mut files = Files::default();
        let entries = fs::read_dir(&place.folder).into_iter().flatten().flatten();
        for entry in entries {
            let Ok(meta) = entry.metadata() else { continue };
            let name = entry.file_name().to_string_lossy().into_owned();
            if meta.is_file() && name.contains('+') {
                files.bytes += meta.len();
                files.files.insert(name, Cached { bytes: meta.len(), ..Cached::default() });
            }
        }
        Self { place, files: Mutex::new(files), failures: AtomicU64::new(0) }
    }

    /// How often the disk failed; each time the object store was asked instead.
    pub(crate) fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }

    /// The bytes at these places of a run, where there is something; nobody has checked them.
    pub(crate) fn read(&self, run: &RunKey, places: &[Range<u64>]) -> Vec<Option<Vec<u8>>> {
        let name = name(run);
        {
            let mut files = lock(&self.files);
            files.reads += 1;
            let last = files.reads;
            match files.files.get_mut(&name) {
                Some(cached) => cached.last = last,
                None => return vec![None; places.len()],
            }
        }
        let Ok(mut file) = File::open(self.place.folder.join(&name)) else {
            return vec![None; places.len()];
        };
        let read = |place: &Range<u64>| {
            let length = usize::try_from(place.end - place.start).ok()?;
            let mut bytes = vec![0; length];
            file.seek(SeekFrom::Start(place.start)).ok()?;
            file.read_exact(&mut bytes).ok()?;
            Some(bytes)
        };
        places.iter().map(read).collect()
    }

    /// Puts bytes at places of a run.
    pub(crate) fn write<'b>(
        &self,
        run: &RunKey,
        blocks: impl Iterator<Item = (Range<u64>, &'b [u8])>,
    ) {
        let name = name(run);
        if self.try_write(&name, blocks).is_err() {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        self.shrink(&name);
    }

    fn try_write<'b>(
        &self,
        name: &str,
        blocks: impl Iterator<Item = (Range<u64>, &'b [u8])>,
    ) -> io::Result<()> {
        fs::create_dir_all(&self.place.folder)?;
        let path = self.place.folder.join(name);
        let mut file = OpenOptions::new().create(true).write(true).truncate(false).open(path)?;
        for (place, bytes) in blocks {
            file.seek(SeekFrom::Start(place.start))?;
            file.write_all(bytes)?;
            let mut files = lock(&self.files);
            let (length, last) = (bytes.len() as u64, files.reads);
            let cached = files.files.entry(name.to_owned()).or_default();
            cached.last = last;
            if cached.blocks.insert(place.start) {
                cached.bytes += length;
                files.bytes += length;
            }
        }
        Ok(())
    }

    /// Removes files of other runs until there is room.
    fn shrink(&self, current: &str) {
        loop {
            let oldest = {
                let files = lock(&self.files);
                if files.bytes <= self.place.bytes_max {
                    return;
                }
                let others = files.files.iter().filter(|(name, _)| *name != current);
                let oldest = others.min_by_key(|(_, cached)| cached.last);
                oldest.map_or_else(|| current.to_owned(), |(name, _)| name.clone())
            };
            if let Err(error) = fs::remove_file(self.place.folder.join(&oldest))
                && error.kind() != io::ErrorKind::NotFound
            {
                self.failures.fetch_add(1, Ordering::Relaxed);
            }
            let mut files = lock(&self.files);
            let bytes = files.files.remove(&oldest).map_or(0, |cached| cached.bytes);
            files.bytes = files.bytes.saturating_sub(bytes);
        }
    }
}
