//! What a source writes beside a plan: the list of files of a batch, say.
//!
//! An object is written *before* the plan that needs it, under a name of its own for every
//! attempt, and counts only if the winning plan carries its [`LogRef`]. So a crash, a lost
//! election or a lost acknowledgement leaves garbage, never a wrong list.
//!
//! Like everything in this crate it does no I/O of its own: the store is given.

use crate::error::{Error, Result};
use crate::frame;
use crate::ids::{BatchId, RunId};
use crate::source::LogRef;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{Error as StoreError, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use std::sync::Arc;

/// The framed objects of one source of one query, in one folder of the checkpoint:
/// `sources/<source id>/<batch>-<run>-<crc32>`.
#[derive(Debug, Clone)]
pub struct SourceLog {
    store: Arc<dyn ObjectStore>,
    folder: Path,
    kind: &'static str,
    format: u32,
}

/// An object that a [`SourceLog`] holds, whether a plan names it or not.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceLogEntry {
    /// The batch it was written for.
    pub batch: BatchId,
    /// Its name, as in [`LogRef::name`].
    pub name: String,
}

impl SourceLog {
    /// A log in `folder`. `kind` (one lower-case word) and `format` go into the frame of each
    /// object; an object of a newer format is refused.
    pub fn new(store: Arc<dyn ObjectStore>, folder: Path, kind: &'static str, format: u32) -> Self {
        Self { store, folder, kind, format }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, name: &str) -> Path {
        // `join` escapes what could leave the folder.
        self.folder.clone().join(name)
    }

    /// Writes `body` for `batch`; durable when it returns. Repeating a call is harmless.
    ///
    /// # Errors
    ///
    /// Those of the store; `Corrupt` if other bytes are there under the very same name.
    pub async fn put(&self, batch: BatchId, run: &RunId, body: &[u8]) -> Result<LogRef> {
        let bytes = frame::seal(self.kind, self.format, body);
        let crc32 = crc32fast::hash(&bytes);
        // The checksum is part of the name because one run may plan a batch twice, differently:
        // if the answer to the first plan was lost, that plan may be the one that counts.
        let name = format!("{batch}-{run}-{crc32:08x}");
        let path = self.path(&name);
        let create = PutOptions::from(PutMode::Create);
        match self.store.put_opts(&path, bytes.clone().into(), create).await {
            Ok(_) => Ok(LogRef { name, crc32 }),
            Err(StoreError::AlreadyExists { .. }) => {
                // Our own earlier call, or a refusal that wrote nothing.
                match self.fetch(&path).await? {
                    Some(found) if found == bytes => Ok(LogRef { name, crc32 }),
                    Some(_) => Err(Error::corrupt(format!(
                        "{path} holds other bytes than this run would write there: no one else \
                         may write to this folder"
                    ))),
                    None => Err(Error::unavailable(format!(
                        "the store refused to create {path} although it does not exist: try again"
                    ))),
                }
            }
            Err(error) => Err(Error::from(error).at(format!("writing {path}"))),
        }
    }

    async fn fetch(&self, path: &Path) -> Result<Option<Bytes>> {
        let place = |error| Error::from(error).at(format!("reading {path}"));
        match self.store.get(path).await {
            Ok(found) => found.bytes().await.map(Some).map_err(place),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(place(error)),
        }
    }

    /// Reads the body of an object that a plan names.
    ///
    /// # Errors
    ///
    /// `NotFound` if it is gone, `Corrupt` if it is not what was written, `Invalid` if its
    /// format is newer than this log's.
    pub async fn get(&self, log: &LogRef) -> Result<Bytes> {
        let path = self.path(&log.name);
        let Some(bytes) = self.fetch(&path).await? else {
            return Err(Error::not_found(format!(
                "{path} is gone, and a plan needs it: restore it, or start with a new checkpoint"
            ))
            .with_condition("CHECKPOINT_ENTRY_MISSING"));
        };
        let found = crc32fast::hash(&bytes);
        if found != log.crc32 {
            return Err(Error::corrupt(format!(
                "{path} has checksum {found:08x}, its plan says {:08x}: restore it, or start \
                 with a new checkpoint",
                log.crc32
            ))
            .with_condition("CHECKPOINT_ENTRY_CORRUPT"));
        }
        let body = frame::open(self.kind, self.format, &bytes).map_err(|e| e.at(&path))?;
        let start = bytes.len() - body.len();
        Ok(bytes.slice(start..))
    }

    /// Everything in the folder, oldest batch first. Foreign names are left out. For collecting
    /// garbage, not for finding out what a batch read: only plans know that.
    ///
    /// # Errors
    ///
    /// Those of the store.
    pub async fn list(&self) -> Result<Vec<SourceLogEntry>> {
        let mut entries: Vec<SourceLogEntry> = self
            .store
            .list(Some(&self.folder))
            .try_filter_map(|meta| {
                let name = meta.location.filename().unwrap_or_default();
                let direct = meta.location == self.path(name);
                let entry = parse_name(name).filter(|_| direct);
                futures::future::ready(Ok(entry))
            })
            .try_collect()
            .await
            .map_err(|e| Error::from(e).at(format!("listing {}", self.folder)))?;
        entries.sort();
        Ok(entries)
    }

    /// Deletes objects that no retained plan needs. Absent ones are fine.
    ///
    /// # Errors
    ///
    /// Those of the store; some may be deleted by then.
    pub async fn delete(&self, names: impl IntoIterator<Item = String>) -> Result<()> {
        let paths: Vec<_> = names.into_iter().map(|name| Ok(self.path(&name))).collect();
        let mut deleted = self.store.delete_stream(futures::stream::iter(paths).boxed());
        while let Some(answer) = deleted.next().await {
            match answer {
                Ok(_) | Err(StoreError::NotFound { .. }) => {}
                Err(error) => {
                    return Err(Error::from(error).at(format!("cleaning {}", self.folder)));
                }
            }
        }
        Ok(())
    }
}

/// `<batch>-<run>-<crc32>`; a run's own name may hold dashes.
fn parse_name(name: &str) -> Option<SourceLogEntry> {
    let (batch, rest) = name.split_once('-')?;
    let (run, crc32) = rest.rsplit_once('-')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let hex = crc32.len() == 8 && crc32.bytes().all(|b| b.is_ascii_hexdigit());
    if run.is_empty() || !hex || !digits(batch) {
        return None;
    }
    Some(SourceLogEntry { batch: BatchId(batch.parse().ok()?), name: name.into() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use futures::FutureExt;
    use object_store::memory::InMemory;

    fn log(store: &Arc<InMemory>) -> SourceLog {
        let folder = Path::from("q/sources/s");
        SourceLog::new(store.clone(), folder, "files", 1)
    }

    /// A store in memory answers at once.
    fn block_on<T>(future: impl Future<Output = T>) -> T {
        future.now_or_never().unwrap()
    }

    fn run(name: &str) -> RunId {
        RunId::new(name).unwrap()
    }

    #[test]
    fn gives_back_what_was_put_and_repeats_are_harmless() {
        let store = Arc::new(InMemory::new());
        let log = log(&store);
        let first = block_on(log.put(BatchId(7), &run("r-1"), b"body")).unwrap();
        assert_eq!(block_on(log.put(BatchId(7), &run("r-1"), b"body")).unwrap(), first);
        assert_eq!(block_on(log.get(&first)).unwrap(), "body");
    }

    #[test]
    fn two_attempts_of_one_run_do_not_meet() {
        let store = Arc::new(InMemory::new());
        let log = log(&store);
        let first = block_on(log.put(BatchId(7), &run("r"), b"one")).unwrap();
        let second = block_on(log.put(BatchId(7), &run("r"), b"two")).unwrap();
        assert_ne!(first.name, second.name);
        assert_eq!(block_on(log.get(&first)).unwrap(), "one");
        assert_eq!(block_on(log.get(&second)).unwrap(), "two");
    }

    #[test]
    fn damage_and_loss_are_told_apart() {
        let store = Arc::new(InMemory::new());
        let log = log(&store);
        let entry = block_on(log.put(BatchId(0), &run("r"), b"body")).unwrap();
        let path = log.path(&entry.name);
        let whole = block_on(async { store.get(&path).await.unwrap().bytes().await.unwrap() });
        for i in 0..whole.len() {
            let mut flipped = whole.to_vec();
            flipped[i] ^= 1;
            for bytes in [flipped, whole[..i].to_vec()] {
                block_on(store.put(&path, bytes.into())).unwrap();
                assert_eq!(block_on(log.get(&entry)).unwrap_err().kind(), ErrorKind::Corrupt);
            }
        }
        block_on(store.delete(&path)).unwrap();
        assert_eq!(block_on(log.get(&entry)).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn lists_by_batch_and_ignores_foreign_names() {
        let store = Arc::new(InMemory::new());
        let log = log(&store);
        let ten = block_on(log.put(BatchId(10), &run("r-1"), b"x")).unwrap();
        let two = block_on(log.put(BatchId(2), &run("r-1"), b"x")).unwrap();
        for foreign in ["2-r.tmp", "x-r-00000000", "2--00000000", "sub/2-r-00000000", ".crc"] {
            let path = Path::from(format!("q/sources/s/{foreign}"));
            block_on(store.put(&path, "x".into())).unwrap();
        }
        let names = |log: &SourceLog| -> Vec<String> {
            block_on(log.list()).unwrap().into_iter().map(|entry| entry.name).collect()
        };
        assert_eq!(names(&log), [two.name.clone(), ten.name.clone()]);
        block_on(log.delete([two.name, "gone".into()])).unwrap();
        assert_eq!(names(&log), [ten.name]);
    }

    #[test]
    fn a_name_cannot_leave_the_folder() {
        let store = Arc::new(InMemory::new());
        block_on(store.put(&Path::from("q/metadata"), "x".into())).unwrap();
        let log = log(&store);
        let bad = LogRef { name: "../../metadata".into(), crc32: crc32fast::hash(b"x") };
        assert_eq!(block_on(log.get(&bad)).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
