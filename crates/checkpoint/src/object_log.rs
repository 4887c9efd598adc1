//! The batch log over an object store: one immutable object per entry.

mod cleaning;
mod metadata;
mod reading;

use crate::create::{Created, create};
use crate::entry::{Content, Entry, content};
use crate::layout::{Layout, entry_name};
use crate::low_water;
use async_trait::async_trait;
use fluvial_core::{BatchId, BatchLog, Commit, Error, Plan, Put, QueryId, Result};
use object_store::ObjectStore;
use object_store::path::Path;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// How many torn objects of one entry are stepped over. Each takes a power cut of its own.
const GENERATIONS: u32 = 16;

/// [`BatchLog`] in a folder of any object store.
///
/// Entries are created if absent and never changed. Only plain numbers are entries. Nothing is
/// listed while batches run: listing is for starting and for cleaning.
///
/// # Torn entries
///
/// A power cut may leave an object of which only the beginning reached the disk (never behind a
/// store that syncs, and never on object stores). A torn newest plan without a commit
/// was not acknowledged, so its batch never ran and is planned again; a torn newest commit means
/// that its batch runs again. The torn object stays: whoever removed or replaced it might, a
/// moment later, remove what another run put in its place. Instead the entry is elected once
/// more under the next name, `7.again-1`, by the same create-if-absent. A flipped bit, or a torn
/// entry that a later entry proves to have been whole, is `Corrupt`.
///
/// # Cleaning
///
/// `truncate_before` first raises a durable mark, then deletes. Every `put` looks at the mark
/// after it created something; below the mark it is `Fenced`: a run that slept while others went
/// on finds its batch free only because they cleaned it.
pub struct ObjectLog {
    store: Arc<dyn ObjectStore>,
    layout: Layout,
    known: Mutex<Known>,
}

/// What this process has seen. Entries never change, so none of it can be wrong, only
/// incomplete.
#[derive(Debug, Default)]
struct Known {
    commits: BTreeMap<BatchId, Commit>,
    newest_commit: Option<BatchId>,
    /// What belongs to entries, by batch; once `listed`, all but what other runs added since.
    objects: BTreeMap<BatchId, BTreeSet<Path>>,
    listed: bool,
    low_water: Option<BatchId>,
}

impl fmt::Debug for ObjectLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectLog")
            .field("store", &self.store)
            .field("root", self.layout.root())
            .finish_non_exhaustive()
    }
}

impl ObjectLog {
    /// The log of the checkpoint in folder `root` of `store`. Nothing is read or written yet.
    pub fn new(store: Arc<dyn ObjectStore>, root: Path) -> Self {
        Self { store, layout: Layout::new(root), known: Mutex::default() }
    }

    /// Where things are in this checkpoint.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    fn known<T>(&self, f: impl FnOnce(&mut Known) -> T) -> T {
        f(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn path<E: Entry>(&self, batch: BatchId, generation: u32) -> Path {
        self.layout.root().clone().join(E::FOLDER).join(entry_name(batch, generation))
    }

    async fn put<E: Entry>(&self, entry: &E) -> Result<Put<E>> {
        let (batch, bytes) = (entry.batch(), entry.write()?);
        for generation in 0..GENERATIONS {
            let path = self.path::<E>(batch, generation);
            let created = create(self.store.as_ref(), &path, bytes.clone()).await?;
            self.known(|known| known.objects.entry(batch).or_default().insert(path.clone()));
            let put = match created {
                Created::Ours => Put::Created,
                Created::Found(found) => match content(batch, &found).map_err(|e| e.at(&path))? {
                    Content::Whole(entry) => Put::Exists(entry),
                    // Torn: the next generation decides, if there is one or may be one.
                    Content::Cut => match self.whole_or_absent::<E>(batch).await? {
                        Some(entry) => Put::Exists(entry),
                        None => continue,
                    },
                },
            };
            self.refuse_zombies(E::WORD, batch).await?;
            return Ok(put);
        }
        Err(Error::corrupt(format!(
            "{} was torn {GENERATIONS} times: this disk loses what it acknowledged",
            self.path::<E>(batch, 0)
        )))
    }

    /// After a creation: was it possible only because someone cleaned up behind this run?
    async fn refuse_zombies(&self, word: &str, batch: BatchId) -> Result<()> {
        let mark = low_water::load(self.store.as_ref(), &self.layout.low_water()).await?;
        self.known(|known| known.low_water = known.low_water.max(Some(mark)));
        if batch >= mark {
            return Ok(());
        }
        Err(Error::fenced(format!(
            "the {word} of batch {batch} comes too late: another run on checkpoint {} has gone \
             on and cleaned up everything before batch {mark}; stop this run",
            self.layout.root()
        ))
        .with_condition("CONCURRENT_RUN"))
    }

    /// Remembers a commit that is known to be in the log.
    fn remember(&self, commit: &Commit) {
        self.known(|known| {
            known.newest_commit = known.newest_commit.max(Some(commit.batch));
            known.commits.insert(commit.batch, commit.clone());
        });
    }
}

#[async_trait]
impl BatchLog for ObjectLog {
    async fn query_id(&self, proposed: &QueryId) -> Result<QueryId> {
        self.metadata(proposed).await
    }

    async fn put_plan(&self, plan: &Plan) -> Result<Put<Plan>> {
        self.put(plan).await
    }

    async fn put_commit(&self, commit: &Commit) -> Result<Put<Commit>> {
        let put = self.put(commit).await?;
        match &put {
            Put::Created => self.remember(commit),
            Put::Exists(found) => self.remember(found),
        }
        Ok(put)
    }

    async fn latest_plan(&self) -> Result<Option<Plan>> {
        self.latest().await
    }

    async fn latest_commit(&self) -> Result<Option<Commit>> {
        let latest = self.latest().await?;
        latest.iter().for_each(|commit| self.remember(commit));
        Ok(latest)
    }

    async fn plan(&self, batch: BatchId) -> Result<Option<Plan>> {
        self.whole_or_absent(batch).await
    }

    async fn commit(&self, batch: BatchId) -> Result<Option<Commit>> {
        self.whole_or_absent(batch).await
    }

    async fn commits(&self) -> Result<Vec<Commit>> {
        self.all_commits().await
    }

    async fn truncate_before(&self, batch: BatchId) -> Result<()> {
        self.clean(batch).await
    }
}
