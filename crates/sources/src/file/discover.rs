//! Which files there may be to take: by a listing of everything, of the tail or of names, or by
//! news.

use super::auto::Incremental;
use super::entry::{FileEntry, Identity};
use super::names;
use super::notify::FileNotifications;
use super::place::parse_path;
use super::{FileSource, listing};
use fluvial_core::Result;
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectStoreExt;

/// What is known of the order in which files arrive, in this process.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Tail {
    /// Listings of the tail since the last full one.
    partial: u32,
    /// Whether the last full listing found nothing new before what was taken.
    ordered: bool,
    /// When there was a full listing, in milliseconds since the epoch.
    full_ms: Option<i64>,
}

/// After so many listings of the tail there is a full one, unless an interval is given.
const PARTIAL_LISTINGS: u32 = 7;

/// So many unknown files are asked for one by one; beyond it a listing with times is cheaper.
const ASKED_MAX: usize = 10_000;

/// So many files are asked for at once.
const CONCURRENCY: usize = 16;

impl FileSource {
    /// The files that are there: all of them, or those that may be new.
    pub(super) async fn list(&self) -> Result<Vec<FileEntry>> {
        let tail = *self.tail();
        if !self.is_backfill_due(tail) {
            if let Some(news) = &self.notifications {
                return self.told(news.as_ref()).await;
            }
            let greatest = self.inner.memory().head().and_then(|head| head.greatest.clone());
            if let Some(greatest) = greatest.filter(|_| self.lists_tail(tail)) {
                let found = listing::list_after(self.place(), &self.options, &greatest).await?;
                self.tail().partial += 1;
                return Ok(found);
            }
        }
        let found = match self.list_unknown().await? {
            Some(found) => found,
            None => listing::list(self.place(), &self.options).await?,
        };
        let ordered = self.inner.memory().are_beyond(&found);
        let full_ms = self.now_ms();
        *self.tail() = Tail { partial: 0, ordered, full_ms };
        Ok(found)
    }

    fn now_ms(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| clock.now_ms())
    }

    /// Whether all files have to be looked at: whatever tells of new ones may have missed some.
    fn is_backfill_due(&self, tail: Tail) -> bool {
        let interval = self.options.auto.as_ref().and_then(|auto| auto.backfill_ms);
        match (interval, tail.full_ms, self.now_ms()) {
            (Some(interval), Some(full), Some(now)) => now.saturating_sub(full) >= interval,
            (Some(_), _, _) => true,
            (None, full, _) if self.notifications.is_some() => full.is_none(),
            (None, _, _) => tail.partial >= PARTIAL_LISTINGS,
        }
    }

    fn lists_tail(&self, tail: Tail) -> bool {
        let incremental = self.options.auto.as_ref().map(|auto| auto.incremental);
        let wanted = match incremental.unwrap_or_default() {
            Incremental::Never => false,
            Incremental::Auto => tail.ordered,
            Incremental::Always => true,
        };
        wanted && self.place().patterns.is_empty()
    }

    /// The files whose names were not taken, where names can be had without their files.
    async fn list_unknown(&self) -> Result<Option<Vec<FileEntry>>> {
        let place = self.place();
        let plain = place.patterns.is_empty() && self.options.identity() != Identity::Version;
        let Some(names) = place.names.as_ref().filter(|_| plain) else { return Ok(None) };
        let unknown = |paths: &mut Vec<String>| self.inner.memory().retain_unknown(paths);
        let paths = names::paths(place, &self.options, names.as_ref(), unknown).await?;
        if paths.len() > ASKED_MAX {
            return Ok(None);
        }
        self.ask(paths).await.map(Some)
    }

    /// The files of these paths that are there, with their sizes and times.
    async fn ask(&self, paths: Vec<String>) -> Result<Vec<FileEntry>> {
        let store = &self.place().store;
        let ask = |path: String| async move {
            match store.head(&parse_path(&path)?).await {
                Ok(meta) => Ok(Some(listing::entry(meta))),
                // It was there a moment ago.
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                Err(error) => {
                    Err(fluvial_core::Error::from(error).at(format!("looking at {path}")))
                }
            }
        };
        let asked = futures::stream::iter(paths).map(ask).buffered(CONCURRENCY);
        let found: Vec<Option<FileEntry>> = asked.try_collect().await?;
        let admitted = |file: &FileEntry| self.options.admits(file.mtime);
        Ok(found.into_iter().flatten().filter(admitted).collect())
    }

    /// The files that were told of and are there. News of others is acknowledged: those that were
    /// taken are in a durable plan.
    async fn told(&self, news: &dyn FileNotifications) -> Result<Vec<FileEntry>> {
        let (mut done, mut open) = (Vec::new(), Vec::new());
        for one in news.pending().await? {
            let path = self.place().resolve(&one.location);
            match path.ok().filter(|path| listing::is_of(self.place(), &self.options, path)) {
                Some(path) => open.push((one.id, String::from(path))),
                None => done.push(one.id),
            }
        }
        let found = self.ask(open.iter().map(|(_, path)| path.clone()).collect()).await?;
        let mut found: std::collections::BTreeMap<String, FileEntry> =
            found.into_iter().map(|file| (file.path.clone(), file)).collect();
        self.inner.memory().retain_new(&mut found);
        done.extend(open.iter().filter(|(_, path)| !found.contains_key(path)).map(|(id, _)| *id));
        if !done.is_empty() {
            news.acknowledge(&done).await?;
        }
        Ok(found.into_values().collect())
    }
}
