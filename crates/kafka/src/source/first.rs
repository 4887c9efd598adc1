//! Where a query began, kept in its checkpoint: without it, a query that starts at the latest
//! offsets and is stopped before its first batch would skip what came meanwhile.

use fluvial_core::{Error, Offset, Result, frame};
use object_store::path::Path;
use object_store::{Error as StoreError, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use std::sync::Arc;

const KIND: &str = "kafka-start";
const VERSION: u32 = 1;

/// One object of a source's folder.
#[derive(Debug, Clone)]
pub(crate) struct First {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) folder: Path,
}

impl First {
    fn path(&self) -> Path {
        self.folder.clone().join("kafka-start")
    }

    /// What was kept.
    pub(crate) async fn load(&self) -> Result<Option<Offset>> {
        let bytes = match self.store.get(&self.path()).await {
            Ok(found) => found.bytes().await?,
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let body = frame::open(KIND, VERSION, &bytes)?;
        serde_json::from_slice(body).map(Some).map_err(|e| {
            Error::corrupt("the start of a Kafka source is not an offset")
                .with_condition("CHECKPOINT_ENTRY_CORRUPT")
                .with_source(e)
        })
    }

    /// Keeps `offset`, unless another run was faster; what is kept.
    pub(crate) async fn keep(&self, offset: Offset) -> Result<Offset> {
        let body = serde_json::to_vec(&offset)
            .map_err(|e| Error::invalid("an offset has no JSON form").with_source(e))?;
        let bytes = frame::seal(KIND, VERSION, &body);
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.store.put_opts(&self.path(), bytes.into(), options).await {
            Ok(_) => Ok(offset),
            Err(StoreError::AlreadyExists { .. } | StoreError::Precondition { .. }) => {
                let gone = || Error::unavailable("the start of a Kafka source came and went");
                self.load().await?.ok_or_else(gone)
            }
            Err(error) => Err(error.into()),
        }
    }
}
