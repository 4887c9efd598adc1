//! News of files: what is told, instead of looked for.

use async_trait::async_trait;
use fluvial_core::Result;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};

/// Tells which files have come: a queue that a store, or whoever writes the files, feeds.
///
/// # Laws
///
/// 1. *Kept.* News is in what `pending` gives from when it was told until it is acknowledged.
/// 2. *Not exact.* The same file may be told of often, files that never come, or that are no
///    data; order means nothing. A file that was told of again since is news of its own.
/// 3. *Not complete.* News may be lost when a process ends, or on its way: a source lists all
///    files when it starts, and every `backfillInterval`.
#[async_trait]
pub trait FileNotifications: Debug + Send + Sync {
    /// What was told and not acknowledged; does not wait.
    ///
    /// # Errors
    ///
    /// Those of the queue.
    async fn pending(&self) -> Result<Vec<FileNews>>;

    /// Lets go of news: its files are planned for good, or are no data.
    ///
    /// # Errors
    ///
    /// Those of the queue.
    async fn acknowledge(&self, news: &[u64]) -> Result<()>;
}

/// A file that was told of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileNews {
    /// What `acknowledge` calls it.
    pub id: u64,
    /// Its URL, or its path from the root of the store.
    pub location: String,
}

/// News told within one process: by the program that writes the files, or by a server that a
/// store calls.
///
/// ```
/// # use fluvial_sources::{FileNotifications, NewsInProcess};
/// # fluvial_sim::block_on(async {
/// let news = NewsInProcess::default();
/// news.tell("s3://bucket/landing/a.json");
/// let pending = news.pending().await?;
/// assert_eq!(pending[0].location, "s3://bucket/landing/a.json");
/// news.acknowledge(&[pending[0].id]).await?;
/// assert!(news.pending().await?.is_empty());
/// # Ok::<(), fluvial_core::Error>(()) }).unwrap();
/// ```
#[derive(Debug, Default)]
pub struct NewsInProcess {
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    next: u64,
    pending: BTreeMap<u64, String>,
}

impl NewsInProcess {
    /// Tells of a file that is there now, whole: by its URL, or its path from the store's root.
    pub fn tell(&self, location: impl Into<String>) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let id = told.next;
        told.next += 1;
        told.pending.insert(id, location.into());
    }
}

#[async_trait]
impl FileNotifications for NewsInProcess {
    async fn pending(&self) -> Result<Vec<FileNews>> {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let news = told.pending.iter();
        Ok(news.map(|(id, at)| FileNews { id: *id, location: at.clone() }).collect())
    }

    async fn acknowledge(&self, news: &[u64]) -> Result<()> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        for id in news {
            told.pending.remove(id);
        }
        Ok(())
    }
}
