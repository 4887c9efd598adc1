//! Object stores by URL: `file:///...` or a path, `memory://`, `s3://`, `gs://`, `az://`.

use async_trait::async_trait;
use fluvial_core::{Error, Result};
use fluvial_local_store::{Durability, DurableLocal};
use fluvial_sources::{FolderNames, ListNames};
use object_store::ObjectStore;
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use std::collections::BTreeMap;
use std::path::{Component, PathBuf};
use std::sync::Arc;
use url::Url;

/// The folders of this machine.
#[derive(Debug)]
struct LocalNames;

#[async_trait]
impl ListNames for LocalNames {
    async fn list_names(&self, folder: &Path) -> Result<FolderNames> {
        let folder = std::path::Path::new("/").join(folder.as_ref());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return FolderNames::read(&folder);
        };
        let read = runtime.spawn_blocking(move || FolderNames::read(&folder)).await;
        read.map_err(|e| Error::unavailable("a folder could not be read").with_source(e))?
    }
}

/// A folder in a store.
#[derive(Debug, Clone)]
pub struct Place {
    /// The store.
    pub store: Arc<dyn ObjectStore>,
    /// The folder in it.
    pub path: Path,
    /// The whole as a URL, for people and for other libraries.
    pub url: Url,
}

impl Place {
    /// What people call it: a path if it is local.
    pub fn shown(&self) -> String {
        match self.url.to_file_path() {
            Ok(path) => path.display().to_string(),
            Err(()) => self.url.to_string(),
        }
    }

    /// A folder below this one.
    pub fn join(&self, segments: &str) -> Self {
        let mut path = self.path.clone();
        let mut url = self.url.clone();
        for segment in segments.split('/').filter(|s| !s.is_empty()) {
            path = path.join(segment);
            let whole = format!("{}/{segment}", url.path().trim_end_matches('/'));
            url.set_path(&whole);
        }
        Self { store: Arc::clone(&self.store), path, url }
    }
}

/// Finds stores for locations, with the session's options.
#[derive(Debug)]
pub struct Storage {
    base: PathBuf,
    options: BTreeMap<String, String>,
    /// What `memory://` means in this session.
    memory: Arc<InMemory>,
    /// Stores of the user's, by scheme and host.
    own: Arc<OwnStores>,
}

/// Stores of the user's, by [`root_of`] their locations.
pub(crate) type OwnStores = BTreeMap<String, Arc<dyn ObjectStore>>;

/// What two locations in one store have in common: `s3://bucket`.
pub(crate) fn root_of(url: &Url) -> String {
    format!("{}://{}", url.scheme(), url.authority())
}

impl Storage {
    /// Relative paths start at `base`; `options` go to the cloud stores (credentials, regions).
    pub fn new(base: PathBuf, options: BTreeMap<String, String>) -> Self {
        Self { base, options, memory: Arc::new(InMemory::new()), own: Arc::default() }
    }

    /// With stores of the user's.
    pub(crate) fn with_own(mut self, own: Arc<OwnStores>) -> Self {
        self.own = own;
        self
    }

    /// `memory` is what `memory://` means: a session has one.
    pub(crate) fn with_memory(mut self, memory: Arc<InMemory>) -> Self {
        self.memory = memory;
        self
    }

    /// The URL of a location: a URL already, or a path.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is neither.
    pub fn url(&self, location: &str) -> Result<Url> {
        if let Ok(url) = Url::parse(location)
            && location.contains("://")
        {
            return Ok(url);
        }
        let path = normal(&self.base.join(location.strip_prefix("file:").unwrap_or(location)));
        Url::from_file_path(&path)
            .map_err(|()| Error::invalid(format!("{location:?} is neither a path nor a URL")))
    }

    /// The store and folder of a location to write to. A local folder is made if it is missing,
    /// and what is written there is synced before it counts.
    ///
    /// # Errors
    ///
    /// `Invalid` for a scheme that no store has, settings that a store refuses, or a folder that
    /// cannot be made.
    pub fn open(&self, location: &str) -> Result<Place> {
        let url = self.url(location)?;
        if url.scheme() == "file" {
            let store = DurableLocal::open(local_path(&url)?, Durability::Synced)?
                .with_offload(Arc::new(|work| drop(tokio::task::spawn_blocking(work))));
            return Ok(Place { store: Arc::new(store), path: Path::default(), url });
        }
        let (store, path) = self.remote(&url)?;
        Ok(Place { store, path, url })
    }

    /// The store, its root's URL and the path in it of a location to read from. Nothing is made.
    /// The path may be a pattern.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn look(&self, location: &str) -> Result<(Arc<dyn ObjectStore>, String, String)> {
        if !location.contains("://") {
            let path = normal(&self.base.join(location.strip_prefix("file:").unwrap_or(location)));
            let path = path.display().to_string();
            return Ok((Arc::new(LocalFileSystem::new()), "file:///".into(), path));
        }
        let url = self.url(location)?;
        if url.scheme() == "file" {
            let path = local_path(&url)?.display().to_string();
            return Ok((Arc::new(LocalFileSystem::new()), "file:///".into(), path));
        }
        let (store, path) = self.remote(&url)?;
        let mut base = url.clone();
        base.set_path("/");
        Ok((store, base.to_string(), path.to_string()))
    }

    /// Names of files in the store of the root `base`, where listing them is cheaper than
    /// listing files: in local folders.
    pub(crate) fn names(base: &str) -> Option<Arc<dyn ListNames>> {
        (base == "file:///").then(|| Arc::new(LocalNames) as Arc<dyn ListNames>)
    }

    /// The store of a URL that is not on this machine; its root is the URL's.
    #[cfg(feature = "delta")]
    pub(crate) fn root(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.remote(url).map(|(store, _)| store)
    }

    fn remote(&self, url: &Url) -> Result<(Arc<dyn ObjectStore>, Path)> {
        if let Some(store) = self.own.get(&root_of(url)) {
            return Ok((
                Arc::clone(store),
                Path::from_url_path(url.path()).map_err(|e| {
                    Error::invalid(format!("{url} has no path that can name an object: {e}"))
                        .with_source(e)
                })?,
            ));
        }
        if url.scheme() == "memory" {
            let store: Arc<dyn ObjectStore> = self.memory.clone();
            let whole = format!("{}{}", url.host_str().unwrap_or_default(), url.path());
            return Ok((store, Path::from(whole)));
        }
        let (store, path) = object_store::parse_url_opts(url, self.environment())
            .map_err(|e| Error::invalid(format!("{url} cannot be opened: {e}")).with_source(e))?;
        Ok((Arc::from(store), path))
    }

    /// Options for cloud stores: the environment's, then the session's.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let known = ["AWS_", "GOOGLE_", "AZURE_"];
        let mut all: BTreeMap<String, String> = std::env::vars()
            .filter(|(name, _)| known.iter().any(|prefix| name.starts_with(prefix)))
            .map(|(name, value)| (name.to_ascii_lowercase(), value))
            .collect();
        all.extend(self.options.clone());
        all
    }

    /// A store of its own that goes with the process: for checkpoints that need not last.
    pub fn temporary(name: &str) -> Result<Place> {
        let url = Url::parse(&format!("memory:///{name}")).map_err(|e| {
            Error::invalid(format!("{name:?} cannot be part of a URL")).with_source(e)
        })?;
        Ok(Place { store: Arc::new(InMemory::new()), path: Path::from(name), url })
    }
}

fn local_path(url: &Url) -> Result<PathBuf> {
    url.to_file_path().map_err(|()| Error::invalid(format!("{url} is not a path on this machine")))
}

/// The path without `.` and `..`, whether or not it exists.
fn normal(path: &std::path::Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_base() {
        let storage = Storage::new("/base/dir".into(), BTreeMap::new());
        assert_eq!(storage.url("out/t").unwrap().as_str(), "file:///base/dir/out/t");
        assert_eq!(storage.url("../x/./y").unwrap().as_str(), "file:///base/x/y");
        assert_eq!(storage.url("/abs").unwrap().as_str(), "file:///abs");
        assert_eq!(storage.url("s3://bucket/key").unwrap().as_str(), "s3://bucket/key");
        let place = storage.open("memory://a/b").unwrap();
        assert_eq!(place.join("c/d").path.as_ref(), "a/b/c/d");
    }

    #[test]
    fn a_store_of_ones_own_is_known_by_scheme_and_host() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let own = OwnStores::from([("mine://here".to_owned(), Arc::clone(&store))]);
        let storage = Storage::new("/".into(), BTreeMap::new()).with_own(Arc::new(own));
        let place = storage.open("mine://here/a/b").unwrap();
        assert!(Arc::ptr_eq(&place.store, &store));
        assert_eq!(place.path.as_ref(), "a/b");
        assert!(storage.open("mine://there/a").is_err());
    }
}
