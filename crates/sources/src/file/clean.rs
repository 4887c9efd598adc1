//! Deleting or archiving the files of batches that nobody will read again.

use super::FileSource;
use super::entry::{Entry, FileEntry};
use super::fetch::PlannedFile;
use super::options::Clean;
use super::place::{FilePlace, parse_path};
use fluvial_core::{Error, LogRef, Result};
use futures::{StreamExt, TryStreamExt};
use object_store::{Error as StoreError, ObjectStoreExt};
use std::collections::VecDeque;

/// What was released already, in this process.
#[derive(Debug, Clone)]
pub(super) struct Cleaned {
    /// Files up to this entry are cleaned up, or wait for that.
    pub(super) files: i64,
    /// Log entries of decades before this one are collected.
    pub(super) decade: i64,
    /// Released entries whose files are kept for a while, the oldest first.
    waiting: VecDeque<(LogRef, i64)>,
}

impl Cleaned {
    pub(super) fn nothing() -> Self {
        Self { files: -1, decade: 0, waiting: VecDeque::new() }
    }
}

impl FileSource {
    /// Cleans up the files of entry `log` and of those before it, as far as they were kept long
    /// enough. The answer is the newest entry whose files are done with: what is before it in the
    /// log is not needed any more.
    pub(super) async fn clean(&self, log: &LogRef, offset: i64) -> Result<Option<LogRef>> {
        if self.options.clean == Clean::Off {
            return Ok(Some(log.clone()));
        }
        let done = self.cleaned().files;
        if offset > done {
            // Their names only: there may be a month of them.
            let waiting = self.inner.ledger.since(log, done, |entry| self.due_ms(entry)).await?;
            let mut cleaned = self.cleaned();
            cleaned.waiting.extend(waiting);
            cleaned.files = offset;
        }
        let mut newest = None;
        while let Some((log, _)) = self.next_due() {
            let entry = self.inner.ledger.entry(&log).await?;
            clean(self.place(), &self.options.clean, &entry.files).await?;
            self.cleaned().waiting.pop_front();
            newest = Some(log);
        }
        Ok(newest)
    }

    fn next_due(&self) -> Option<(LogRef, i64)> {
        let now = self.clock.as_ref().map_or(i64::MAX, |clock| clock.now_ms());
        self.cleaned().waiting.front().filter(|(_, due)| *due <= now).cloned()
    }

    /// When the files of an entry may go.
    fn due_ms(&self, entry: &Entry) -> i64 {
        match self.options.retention_ms {
            0 => i64::MIN,
            // An entry of before there was a retention: its newest file tells.
            kept => entry.planned_ms.unwrap_or(entry.newest).saturating_add(kept),
        }
    }
}

/// So many files are cleaned at once.
const CONCURRENCY: usize = 8;

/// Cleans up `files`. Those that are gone, or are other files by now, are left alone.
async fn clean(place: &FilePlace, how: &Clean, files: &[FileEntry]) -> Result<()> {
    if *how == Clean::Off {
        return Ok(());
    }
    let one = |file: FileEntry| async move {
        let cleaned = clean_one(place, how, &file).await;
        cleaned.map_err(|e| e.at(format!("cleaning up {}", place.show(&file.path))))
    };
    futures::stream::iter(files.to_vec())
        .map(one)
        .buffer_unordered(CONCURRENCY)
        .try_collect::<Vec<()>>()
        .await
        .map(|_| ())
}

async fn clean_one(place: &FilePlace, how: &Clean, file: &FileEntry) -> Result<()> {
    let planned = PlannedFile::new(place, file)?;
    // A file that was put under the same name since then was never read: it is not ours.
    match planned.now().await? {
        Some(meta) if planned.is(&meta) => {}
        _ => return Ok(()),
    }
    let path = parse_path(&file.path)?;
    let done = match how {
        Clean::Off => Ok(()),
        Clean::Delete => place.store.delete(&path).await,
        Clean::Archive(folder) => {
            let target = parse_path(format!("{folder}/{path}").trim_start_matches('/'))?;
            place.store.rename(&path, &target).await
        }
    };
    match done {
        Ok(()) | Err(StoreError::NotFound { .. }) => Ok(()),
        Err(error) => Err(Error::from(error)),
    }
}
