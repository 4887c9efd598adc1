//! What plans and commits have in common as entries of a log.

use crate::format::{self, is_cut};
use bytes::Bytes;
use fluvial_core::{BatchId, Commit, Error, ErrorKind, Plan, Result};

/// A kind of log entry.
pub(crate) trait Entry: Sized + Send + Sync {
    /// Whatever can only exist if this entry was once read whole.
    type Witness: Entry<Witness = Self>;
    /// One word for messages and frames.
    const WORD: &'static str;
    /// The folder's name.
    const FOLDER: &'static str;

    /// Which batch.
    fn batch(&self) -> BatchId;
    /// The bytes.
    fn write(&self) -> Result<Bytes>;
    /// From bytes.
    fn parse(bytes: &[u8]) -> Result<Self>;
    /// The batch of the witness of this entry of `batch`.
    fn witness(batch: BatchId) -> BatchId;
}

impl Entry for Plan {
    type Witness = Commit;
    const WORD: &'static str = "plan";
    const FOLDER: &'static str = "offsets";

    fn batch(&self) -> BatchId {
        self.batch
    }

    fn write(&self) -> Result<Bytes> {
        format::plan_bytes(self)
    }

    fn parse(bytes: &[u8]) -> Result<Self> {
        format::parse_plan(bytes)
    }

    fn witness(batch: BatchId) -> BatchId {
        batch
    }
}

impl Entry for Commit {
    type Witness = Plan;
    const WORD: &'static str = "commit";
    const FOLDER: &'static str = "commits";

    fn batch(&self) -> BatchId {
        self.batch
    }

    fn write(&self) -> Result<Bytes> {
        format::commit_bytes(self)
    }

    fn parse(bytes: &[u8]) -> Result<Self> {
        format::parse_commit(bytes)
    }

    fn witness(batch: BatchId) -> BatchId {
        batch.next()
    }
}

/// What one object turned out to be. Damage is an error.
#[derive(Debug)]
pub(crate) enum Content<E> {
    /// The entry.
    Whole(E),
    /// Its beginning.
    Cut,
}

/// Reads the object of an entry of `batch`.
pub(crate) fn content<E: Entry>(batch: BatchId, bytes: &[u8]) -> Result<Content<E>> {
    match E::parse(bytes) {
        Ok(entry) if entry.batch() == batch => Ok(Content::Whole(entry)),
        Ok(entry) => Err(Error::corrupt(format!(
            "this is the {} of batch {}, not of {batch}: put it back where it belongs",
            E::WORD,
            entry.batch()
        ))),
        Err(error) if error.kind() == ErrorKind::Corrupt && is_cut(E::WORD, bytes) => {
            Ok(Content::Cut)
        }
        Err(error) => Err(error),
    }
}
