//! Finding entries: one by its batch, the newest, all of them.

use super::{GENERATIONS, ObjectLog};
use crate::create::read;
use crate::entry::{Content, Entry, content};
use crate::layout::plain_number;
use crate::low_water;
use fluvial_core::{BatchId, Commit, Error, ErrorKind, Result};
use futures::{StreamExt, TryStreamExt};

/// How often a reading starts again because another run deletes what was listed.
const SETTLING: u32 = 16;
/// How many entries are read at once.
const READS: usize = 16;

/// What the log has of one entry.
enum Found<E> {
    Absent,
    Whole(E),
    /// Only torn objects.
    Cut,
}

impl ObjectLog {
    /// Reads the objects of one entry until one is whole.
    async fn find<E: Entry>(&self, batch: BatchId) -> Result<Found<E>> {
        for generation in 0..GENERATIONS {
            let path = self.path::<E>(batch, generation);
            let Some(bytes) = read(self.store.as_ref(), &path).await? else {
                return Ok(if generation == 0 { Found::Absent } else { Found::Cut });
            };
            match content(batch, &bytes).map_err(|e| e.at(&path))? {
                Content::Whole(entry) => return Ok(Found::Whole(entry)),
                Content::Cut => {}
            }
        }
        Ok(Found::Cut)
    }

    /// One entry. A torn one that nobody can have acted upon counts as absent.
    pub(super) async fn whole_or_absent<E: Entry>(&self, batch: BatchId) -> Result<Option<E>> {
        match self.find::<E>(batch).await? {
            Found::Whole(entry) => Ok(Some(entry)),
            Found::Absent => Ok(None),
            Found::Cut if self.was_whole::<E>(batch).await? => Err(Error::corrupt(format!(
                "{} is cut off, and later entries show that it was whole once: restore it, or \
                 start with a new checkpoint",
                self.path::<E>(batch, 0)
            ))
            .with_condition("CHECKPOINT_ENTRY_CORRUPT")),
            Found::Cut => Ok(None),
        }
    }

    /// Whether anything proves that the entry of `batch` was once read whole: the plan by a
    /// commit of the batch, the commit by a plan of the next. Proofs that are torn themselves
    /// prove nothing, unless something proves them.
    async fn was_whole<E: Entry>(&self, batch: BatchId) -> Result<bool> {
        let mut at = batch;
        loop {
            at = E::witness(at);
            if let Some(answer) = self.proves::<E::Witness>(at).await? {
                return Ok(answer);
            }
            at = E::Witness::witness(at);
            if let Some(answer) = self.proves::<E>(at).await? {
                return Ok(answer);
            }
        }
    }

    /// `None`: it is torn, look for its own proof. A damaged one was written whole.
    async fn proves<E: Entry>(&self, batch: BatchId) -> Result<Option<bool>> {
        match self.find::<E>(batch).await {
            Ok(Found::Absent) => Ok(Some(false)),
            Ok(Found::Whole(_)) => Ok(Some(true)),
            Ok(Found::Cut) => Ok(None),
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(Some(true)),
            Err(error) => Err(error),
        }
    }

    /// The batches that have an entry, ascending.
    pub(super) async fn numbers<E: Entry>(&self) -> Result<Vec<BatchId>> {
        let folder = self.layout.root().clone().join(E::FOLDER);
        let mut numbers: Vec<BatchId> = self
            .store
            .list(Some(&folder))
            .try_filter_map(|meta| {
                let number = meta.location.filename().and_then(plain_number);
                let own = number.filter(|number| self.path::<E>(*number, 0) == meta.location);
                futures::future::ready(Ok(own))
            })
            .try_collect()
            .await
            .map_err(|e| Error::from(e).at(format!("listing {folder}")))?;
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The newest entry. Reads until it is settled: another run may delete entries meanwhile.
    pub(super) async fn latest<E: Entry>(&self) -> Result<Option<E>> {
        'settling: for _ in 0..SETTLING {
            for batch in self.numbers::<E>().await?.into_iter().rev() {
                match self.find::<E>(batch).await? {
                    Found::Whole(entry) => return Ok(Some(entry)),
                    Found::Absent => continue 'settling,
                    Found::Cut => {
                        // Torn for good, unless something proves that it was whole.
                        if let Some(entry) = self.whole_or_absent::<E>(batch).await? {
                            return Ok(Some(entry));
                        }
                    }
                }
            }
            return Ok(None);
        }
        Err(Error::unavailable(format!(
            "the log in {} changes faster than it can be read: try again",
            self.layout.root()
        )))
    }

    /// The batch below which entries may be gone: cleaning may have got to some of them.
    ///
    /// # Errors
    ///
    /// `Corrupt` if the mark cannot be read.
    pub async fn low_water(&self) -> Result<BatchId> {
        if let Some(mark) = self.known(|known| known.low_water) {
            return Ok(mark);
        }
        let mark = low_water::load(self.store.as_ref(), &self.layout.low_water()).await?;
        self.known(|known| known.low_water = known.low_water.max(Some(mark)));
        Ok(mark)
    }

    /// Every commit above the low-water mark, oldest first. Each is read once in a process's
    /// life: commits do not change.
    pub(super) async fn all_commits(&self) -> Result<Vec<Commit>> {
        let mark = self.low_water().await?;
        let numbers = self.numbers::<Commit>().await?.into_iter().filter(|batch| *batch >= mark);
        let read = |batch: BatchId| async move {
            match self.known(|known| known.commits.get(&batch).cloned()) {
                Some(commit) => Ok(Some(commit)),
                None => self.whole_or_absent::<Commit>(batch).await,
            }
        };
        // A commit that went away after the listing was cleaned up by another run.
        let found: Vec<Option<Commit>> =
            futures::stream::iter(numbers).map(read).buffered(READS).try_collect().await?;
        let commits: Vec<Commit> = found.into_iter().flatten().collect();
        commits.iter().for_each(|commit| self.remember(commit));
        Ok(commits)
    }
}
