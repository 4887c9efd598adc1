//! Files and folders, blocking: writing, publishing, syncing, and saying what went wrong.

use object_store::{Error, Result};
use std::collections::BTreeSet;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

/// How many hidden files of one name may be in use, or left by crashes, at the same time.
const STAGED_MAX: u32 = 10_000;

/// How a staged file gets its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Publish {
    /// Whatever has the name loses it.
    Replace,
    /// Only if nothing has the name.
    Create,
}

/// A hidden file being written. Dropping it removes it.
#[derive(Debug)]
pub(super) struct Staged {
    file: Option<File>,
    path: PathBuf,
    target: PathBuf,
    /// Its hidden name is free again, and may be another process's by now.
    renamed: bool,
}

impl Staged {
    /// Makes a hidden file beside `target`, and the folders above it. The name is one that
    /// `LocalFileSystem` leaves out of listings.
    pub(super) fn create(target: PathBuf) -> Result<Self> {
        for number in 1..=STAGED_MAX {
            let mut path = target.clone().into_os_string();
            path.push(format!("#{number}"));
            let path = PathBuf::from(path);
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Self::new(file, path, target)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let Some(folder) = path.parent() else {
                        return Err(told("creating", &path, error));
                    };
                    std::fs::create_dir_all(folder).map_err(|e| told("creating", folder, e))?;
                    // The same number again, now that there is a folder.
                    let file = OpenOptions::new().write(true).create_new(true).open(&path);
                    match file {
                        Ok(file) => return Ok(Self::new(file, path, target)),
                        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                        Err(error) => return Err(told("creating", &path, error)),
                    }
                }
                Err(error) => return Err(told("creating", &path, error)),
            }
        }
        let full = io::Error::other("too many unfinished writes; delete the files with a '#'");
        Err(told("creating", &target, full))
    }

    fn new(file: File, path: PathBuf, target: PathBuf) -> Self {
        Self { file: Some(file), path, target, renamed: false }
    }

    fn open(&mut self) -> Result<&mut File> {
        let path = &self.path;
        self.file.as_mut().ok_or_else(|| told("writing", path, io::Error::other("is finished")))
    }

    /// Writes at the end.
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.open()?.write_all(bytes);
        written.map_err(|e| told("writing", &self.path, e))
    }

    /// Writes at a position.
    pub(super) fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let file = self.open()?;
        let written = file.seek(SeekFrom::Start(offset)).and_then(|_| file.write_all(bytes));
        written.map_err(|e| told("writing", &self.path, e))
    }

    /// Brings what was written so far to the disk.
    pub(super) fn sync_data(&mut self) -> Result<()> {
        let synced = self.open()?.sync_data();
        synced.map_err(|e| told("syncing", &self.path, e))
    }

    /// Syncs it and gives it its name; durable when it returns. Returns the entity tag.
    ///
    /// `AlreadyExists` is durable too: whoever hears it will read what is there and act upon
    /// it, so it must not vanish.
    pub(super) fn publish(mut self, how: Publish, folders: &Folders) -> Result<String> {
        let (path, target) = (self.path.clone(), self.target.clone());
        let file = self.open()?;
        let synced = file.sync_all().and_then(|()| file.metadata());
        let e_tag = entity_tag(&synced.map_err(|e| told("syncing", &path, e))?);
        // Some file systems upload on close.
        self.file = None;
        let published = match how {
            Publish::Replace => std::fs::rename(&path, &target),
            Publish::Create => std::fs::hard_link(&path, &target),
        };
        match published {
            Ok(()) => {
                self.renamed = how == Publish::Replace;
                folders.published(&target)?;
                Ok(e_tag)
            }
            Err(error) if how == Publish::Create && error.kind() == ErrorKind::AlreadyExists => {
                folders.published(&target)?;
                let path = target.display().to_string();
                Err(Error::AlreadyExists { path, source: error.into() })
            }
            Err(error) => Err(told("publishing", &target, error)),
        }
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        self.file = None;
        if !self.renamed {
            // A hidden file that stays is garbage, not damage.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The scheme of `LocalFileSystem`, so that tags of puts and of reads are the same.
fn entity_tag(metadata: &Metadata) -> String {
    #[cfg(unix)]
    let inode = std::os::unix::fs::MetadataExt::ino(metadata);
    #[cfg(not(unix))]
    let inode = 0;
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let micros = modified.unwrap_or_default().as_micros();
    format!("{inode:x}-{micros:x}-{:x}", metadata.len())
}

/// Which folders hold only what is durable, as far as other processes' doings go.
#[derive(Debug, Default)]
pub(super) struct Folders {
    settled: Mutex<BTreeSet<PathBuf>>,
    /// Every folder that was synced, in order: nobody can see it from outside.
    #[cfg(test)]
    pub(super) synced: Mutex<Vec<PathBuf>>,
}

impl Folders {
    fn with<T>(&self, f: impl FnOnce(&mut BTreeSet<PathBuf>) -> T) -> T {
        f(&mut self.settled.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn sync(&self, folder: &Path) -> io::Result<()> {
        #[cfg(test)]
        self.synced.lock().unwrap().push(folder.to_owned());
        sync_folder(folder)
    }

    pub(super) fn are_settled(&self, folder: &Path) -> bool {
        self.with(|settled| settled.contains(folder))
    }

    /// Syncs a folder the first time it is seen, and whatever above it may not be durable yet: a
    /// process that died between publishing and syncing may have left names there that only the
    /// memory knows, and the folder itself may be new.
    pub(super) fn settle(&self, folder: &Path) -> Result<()> {
        if self.are_settled(folder) {
            return Ok(());
        }
        for folder in folder.ancestors() {
            match self.sync(folder) {
                // The first that was settled before has the name of a new folder in it now.
                Ok(()) if !self.with(|settled| settled.insert(folder.to_owned())) => break,
                Ok(()) => {}
                // Not ours to sync, or not there yet.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::PermissionDenied | ErrorKind::NotFound
                    ) => {}
                Err(error) => return Err(told("syncing", folder, error)),
            }
        }
        Ok(())
    }

    /// Makes the name of `file` durable, after it was given or taken away.
    pub(super) fn published(&self, file: &Path) -> Result<()> {
        let Some(folder) = file.parent() else { return Ok(()) };
        if !self.are_settled(folder) {
            return self.settle(folder);
        }
        self.sync(folder).map_err(|e| told("syncing", folder, e))
    }
}

/// Syncs what a file holds. A missing one is left to the call that follows.
pub(super) fn sync_file(path: &Path) -> Result<()> {
    match File::open(path).and_then(|file| file.sync_all()) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(told("syncing", path, error)),
        _ => Ok(()),
    }
}

#[cfg(unix)]
fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Where folders cannot be opened, names are as durable as the file system makes them.
#[cfg(not(unix))]
fn sync_folder(_: &Path) -> io::Result<()> {
    Ok(())
}

/// An error of the operating system as one of the store: what, where, and what to do.
pub(super) fn told(doing: &str, path: &Path, error: io::Error) -> Error {
    let advice = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            ": free some space and try again; nothing was published"
        }
        ErrorKind::ReadOnlyFilesystem => ": mount it writable, or choose another folder",
        ErrorKind::PermissionDenied => ": this user must be allowed to read and write there",
        ErrorKind::NotADirectory => ": a file is in the way of a folder",
        _ => "",
    };
    let message = format!("{doing} {}: {error}{advice}", path.display());
    match error.kind() {
        ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied => {
            Error::PermissionDenied { path: path.display().to_string(), source: message.into() }
        }
        ErrorKind::NotADirectory => Error::NotSupported { source: message.into() },
        _ => Error::Generic { store: "DurableLocal", source: message.into() },
    }
}

/// Says of an error of `LocalFileSystem` what it is, where that store only says `Generic`.
pub(super) fn clear(error: Error) -> Error {
    let Error::Generic { .. } = &error else { return error };
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    let mut found = None;
    while let Some(inner) = cause {
        found = inner.downcast_ref::<io::Error>().map(io::Error::kind).or(found);
        cause = inner.source();
    }
    match found {
        Some(ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) => {
            let advice = "this user must be allowed to read and write there";
            let source = format!("{error}: {advice}").into();
            Error::PermissionDenied { path: String::new(), source }
        }
        _ => error,
    }
}
