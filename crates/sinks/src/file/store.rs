//! The few things that the protocol asks of an object store.

use bytes::Bytes;
use fluvial_core::{Error, Result};
use futures::StreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};

/// The outcome of a create-if-absent.
pub(crate) enum Created {
    /// The object holds our bytes.
    Ours,
    /// Somebody else's are there.
    Theirs(Bytes),
}

/// Creates an object unless it exists.
///
/// # Errors
///
/// `Unavailable` if the store says "exists" of nothing: try again.
pub(crate) async fn create(store: &dyn ObjectStore, path: &Path, bytes: Bytes) -> Result<Created> {
    let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
    match store.put_opts(path, bytes.clone().into(), options).await {
        Ok(_) => Ok(Created::Ours),
        Err(object_store::Error::AlreadyExists { .. }) => match read(store, path).await? {
            // Our own, of a call whose answer was lost.
            Some(found) if found == bytes => Ok(Created::Ours),
            Some(found) => Ok(Created::Theirs(found)),
            None => Err(Error::unavailable(format!("{path}: two writers met, and none won"))),
        },
        Err(error) => Err(error.into()),
    }
}

/// Reads a small object; `None` if it is not there.
pub(crate) async fn read(store: &dyn ObjectStore, path: &Path) -> Result<Option<Bytes>> {
    match store.get(path).await {
        Ok(found) => Ok(Some(found.bytes().await?)),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether an object is there.
pub(crate) async fn exists(store: &dyn ObjectStore, path: &Path) -> Result<bool> {
    match store.head(path).await {
        Ok(_) => Ok(true),
        Err(object_store::Error::NotFound { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Removes objects, whether they are there or not.
pub(crate) async fn remove_all(store: &dyn ObjectStore, paths: Vec<Path>) -> Result<()> {
    let mut removed = store.delete_stream(futures::stream::iter(paths.into_iter().map(Ok)).boxed());
    while let Some(outcome) = removed.next().await {
        match outcome {
            Ok(_) | Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
