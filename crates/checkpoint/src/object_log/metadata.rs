//! The query's id, made once.

use super::{GENERATIONS, ObjectLog};
use crate::create::{Created, create, read};
use crate::format::{METADATA, is_cut, metadata_bytes, parse_metadata};
use bytes::Bytes;
use fluvial_core::{Commit, Error, Plan, QueryId, Result};
use object_store::path::Path;

impl ObjectLog {
    fn metadata_path(&self, generation: u32) -> Path {
        match generation {
            0 => self.layout.metadata(),
            _ => self.layout.root().clone().join(format!("metadata.again-{generation}")),
        }
    }

    /// The id in the checkpoint, or `proposed` for a new one.
    pub(super) async fn metadata(&self, proposed: &QueryId) -> Result<QueryId> {
        if let Some(id) = self.recorded_id().await? {
            return Ok(id);
        }
        if self.has_entries().await? {
            // A run that started at the same time may have made both since we looked.
            return match self.recorded_id().await? {
                Some(id) => Ok(id),
                None => Err(self.missing().await?),
            };
        }
        let bytes = metadata_bytes(proposed)?;
        for generation in 0..GENERATIONS {
            let path = self.metadata_path(generation);
            match create(self.store.as_ref(), &path, bytes.clone()).await? {
                Created::Ours => return Ok(proposed.clone()),
                Created::Found(found) => match id_of(&path, &found)? {
                    Some(id) => return Ok(id),
                    // Torn, and nothing was ever planned: its creation was never acknowledged.
                    None => continue,
                },
            }
        }
        Err(Error::corrupt(format!(
            "{} was torn {GENERATIONS} times: this disk loses what it acknowledged",
            self.layout.metadata()
        )))
    }

    async fn recorded_id(&self) -> Result<Option<QueryId>> {
        for generation in 0..GENERATIONS {
            let path = self.metadata_path(generation);
            match read(self.store.as_ref(), &path).await? {
                None => return Ok(None),
                Some(bytes) => match id_of(&path, &bytes)? {
                    Some(id) => return Ok(Some(id)),
                    None => continue,
                },
            }
        }
        Ok(None)
    }

    async fn has_entries(&self) -> Result<bool> {
        // Torn entries alone do not count: nothing was ever acknowledged.
        Ok(self.latest::<Plan>().await?.is_some() || self.latest::<Commit>().await?.is_some())
    }

    /// What is wrong with a checkpoint that has batches and no id.
    async fn missing(&self) -> Result<Error> {
        let path = self.layout.metadata();
        let why = "without the query's id the sink cannot tell what it has already written; \
                   restore the file, or start with a new checkpoint and a new output";
        Ok(match read(self.store.as_ref(), &path).await? {
            None => {
                Error::invalid(format!("{path} is missing, but the checkpoint has batches: {why}"))
                    .with_condition("CHECKPOINT_METADATA_MISSING")
            }
            Some(_) => Error::corrupt(format!(
                "{path} is cut off, and the checkpoint's batches show that it was whole once: {why}"
            ))
            .with_condition("CHECKPOINT_ENTRY_CORRUPT"),
        })
    }
}

/// The id in the record; `None` if the record is torn.
fn id_of(path: &Path, bytes: &Bytes) -> Result<Option<QueryId>> {
    match parse_metadata(bytes) {
        Ok(id) => Ok(Some(id)),
        Err(_) if is_cut(METADATA, bytes) => Ok(None),
        Err(error) => Err(error.at(path)),
    }
}
