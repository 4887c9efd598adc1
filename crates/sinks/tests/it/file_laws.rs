//! The laws of sinks, on files.

use crate::files::{ROOT, options, read_numbers};
use fluvial_conformance::sink::{Destination, Owners};
use fluvial_core::{Result, Sink};
use fluvial_sinks::FileSink;
use futures::future::BoxFuture;
use object_store::ObjectStore;
use object_store::path::Path;
use std::sync::Arc;

fluvial_conformance::sink!(durable: file_sink, || Folder);

struct Folder;

impl Destination for Folder {
    fn sink(&self, store: Arc<dyn ObjectStore>) -> Box<dyn Sink> {
        Box::new(FileSink::new(store, Path::from(ROOT), options()))
    }

    fn visible(&self, store: Arc<dyn ObjectStore>) -> BoxFuture<'_, Result<Vec<i64>>> {
        Box::pin(async move { read_numbers(&store).await })
    }

    fn owners(&self) -> Owners {
        Owners::One
    }
}
