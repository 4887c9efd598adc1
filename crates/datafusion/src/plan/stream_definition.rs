//! What a query knows of a source before it has a checkpoint.

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use fluvial_core::{Result, Source};
use object_store::ObjectStore;
use object_store::path::Path;
use std::sync::Arc;

/// A source that is described, but not opened yet: `read_stream().load()` gives one, and every
/// start of a query opens it anew.
#[async_trait]
pub trait StreamDefinition: Send + Sync {
    /// Schema of the rows.
    fn schema(&self) -> SchemaRef;

    /// Kind and place for people, without secrets.
    fn description(&self) -> String;

    /// The same source with the hidden column `_metadata`, the file that a row comes from; `None`
    /// if it has no files.
    fn with_file_metadata(&self) -> Option<Arc<dyn StreamDefinition>> {
        None
    }

    /// Whether a query whose checkpoint has this URL may read it.
    ///
    /// # Errors
    ///
    /// `Invalid` if what the source keeps has to be elsewhere.
    fn check_checkpoint(&self, _: &str) -> Result<()> {
        Ok(())
    }

    /// Opens the source for one run of one query.
    ///
    /// # Errors
    ///
    /// What the source refuses: a missing folder, an option that makes no sense.
    async fn open(&self, log: SourceFolder) -> Result<Arc<dyn Source>>;
}

/// Where a source may keep its own log: a folder of the query's checkpoint.
#[derive(Debug, Clone)]
pub struct SourceFolder {
    /// The checkpoint's store.
    pub store: Arc<dyn ObjectStore>,
    /// The folder: `<checkpoint>/sources/<source id>`.
    pub folder: Path,
}

/// A source that needs no opening: made by the user, or kept in memory.
pub struct OpenSource(pub Arc<dyn Source>);

#[async_trait]
impl StreamDefinition for OpenSource {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }

    fn description(&self) -> String {
        self.0.description()
    }

    async fn open(&self, _: SourceFolder) -> Result<Arc<dyn Source>> {
        Ok(Arc::clone(&self.0))
    }
}
