//! Where a table is and how to reach it.

use crate::error::{delta_error, is_missing};
use crate::provider::no_table;
use crate::source::Log;
use deltalake::logstore::{
    LogStore, LogStoreFactory, LogStoreRef, ObjectStoreRef, StorageConfig, default_logstore,
    logstore_factories,
};
use deltalake::{DeltaResult, DeltaTable, DeltaTableBuilder};
use fluvial_core::{Error, Result};
use object_store::ObjectStore;
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use url::Url;

/// The place of a table: a URL, the object store that reaches it, and the store's options.
#[derive(Clone)]
pub struct TableLocation {
    url: Url,
    store: Option<Arc<dyn ObjectStore>>,
    storage_options: BTreeMap<String, String>,
}

/// Whether a name, decoded once, looks as if it were to be decoded again.
fn has_escape_in_name(url: &Url) -> bool {
    let is_hex = |text: &str| text.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    url.path().split("%25").skip(1).any(is_hex)
}

impl TableLocation {
    /// Takes a URL or a path of the local file system.
    ///
    /// # Errors
    ///
    /// `Invalid` if it is neither, or if a folder in it has a name like `a%20b`.
    pub fn parse(place: &str) -> Result<Self> {
        let invalid = |why: &str| {
            Error::invalid(format!("{place:?} is not the place of a Delta table: {why}"))
        };
        let url = match Url::parse(place) {
            // One letter is a drive of Windows, not a scheme.
            Ok(url) if url.scheme().len() > 1 => url,
            _ => {
                let path = std::path::absolute(Path::new(place))
                    .map_err(|e| invalid(&e.to_string()).with_source(e))?;
                Url::from_directory_path(path).map_err(|()| invalid("the path is not absolute"))?
            }
        };
        if url.cannot_be_a_base() {
            return Err(invalid("the URL has no path"));
        }
        if has_escape_in_name(&url) {
            // It would write into the folder that the decoded name is.
            let why = "the Delta library takes a % and two digits for the character that they \
                       stand for: use a folder without";
            return Err(invalid(why));
        }
        Ok(Self { url, store: None, storage_options: BTreeMap::new() })
    }

    /// Reaches the table through `store`, whose root is the root of the URL: `/` for `file:`, the
    /// bucket for `s3:`.
    ///
    /// The sink is as durable as the store. Its create-if-absent elects the versions of the table.
    #[must_use]
    pub fn with_store(mut self, store: Arc<dyn ObjectStore>) -> Self {
        self.store = Some(store);
        self
    }

    /// Options for the store that the Delta library makes from the URL; not used with
    /// [`TableLocation::with_store`].
    #[must_use]
    pub fn with_storage_options(mut self, options: BTreeMap<String, String>) -> Self {
        self.storage_options = options;
        self
    }

    /// The URL.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The table without any of its state.
    fn build(&self) -> Result<DeltaTable> {
        let place = || format!("table {self}");
        let mut builder = DeltaTableBuilder::from_url(self.url.clone())
            .map_err(|e| delta_error(e).at(place()))?
            .with_storage_options(self.storage_options.clone().into_iter().collect());
        if let Some(store) = &self.store {
            know_scheme(&self.url);
            builder = builder.with_storage_backend(store.clone(), self.url.clone());
        }
        builder.build().map_err(|e| delta_error(e).at(place()))
    }

    /// Whether it is a folder of this machine that is not there: the library insists on one, and
    /// who only reads makes none.
    ///
    /// # Errors
    ///
    /// What kept us from looking: a folder that may not be seen is not one that is not there.
    fn is_nowhere(&self) -> Result<bool> {
        let Ok(path) = self.url.to_file_path() else { return Ok(false) };
        let there = path.try_exists().map_err(|e| {
            let what = format!("table {self}: folder {} cannot be seen: {e}", path.display());
            Error::invalid(what).with_source(e)
        })?;
        Ok(!there)
    }

    /// Makes the folder of a table that is to be created.
    pub(crate) fn make_folder(&self) -> Result<()> {
        if let Ok(path) = self.url.to_file_path() {
            std::fs::create_dir_all(&path).map_err(|e| {
                let what = format!("table {self}: folder {} cannot be made: {e}", path.display());
                Error::invalid(what).with_source(e)
            })?;
        }
        Ok(())
    }

    /// The log and data files of the table.
    ///
    /// # Errors
    ///
    /// `NotFound` if not even its folder is there; `Invalid` if it may not be seen.
    pub(crate) fn log_store(&self) -> Result<LogStoreRef> {
        if self.is_nowhere()? {
            return Err(no_table(self));
        }
        Ok(self.build()?.log_store())
    }

    /// The newest state of the table; `None` if there is no table.
    pub(crate) async fn load(&self) -> Result<Option<DeltaTable>> {
        let table = self.load_any().await?;
        if let Some(table) = &table {
            let log = Log::of(table.log_store().as_ref());
            let checked = log.check(table.version().unwrap_or_default()).await;
            checked.map_err(|e| e.at(format!("table {self}")))?;
        }
        Ok(table)
    }

    /// The same, also if there are versions among it that have nothing in them.
    pub(crate) async fn load_any(&self) -> Result<Option<DeltaTable>> {
        if self.is_nowhere()? {
            return Ok(None);
        }
        let mut table = self.build()?;
        match table.load().await {
            Ok(()) => Ok(Some(table)),
            Err(error) if is_missing(&error) => Ok(None),
            Err(error) => Err(delta_error(error).at(format!("table {self}"))),
        }
    }
}

impl fmt::Display for TableLocation {
    /// The URL without a user name or password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut url = self.url.clone();
        // Neither can fail for a URL with a host, and one without has nothing to hide.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_query(None);
        f.write_str(url.as_str().trim_end_matches('/'))
    }
}

impl fmt::Debug for TableLocation {
    /// Values of options may be secrets: names only.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableLocation")
            .field("url", &self.to_string())
            .field("store", &self.store)
            .field("storage_options", &self.storage_options.keys())
            .finish()
    }
}

/// Teaches the library a scheme that comes with a store of its own: every store that creates
/// atomically will do.
fn know_scheme(url: &Url) {
    if let Ok(scheme) = Url::parse(&format!("{}://", url.scheme())) {
        logstore_factories().entry(scheme).or_insert_with(|| Arc::new(ConditionalPut));
    }
}

struct ConditionalPut;

impl LogStoreFactory for ConditionalPut {
    fn with_options(
        &self,
        prefixed_store: ObjectStoreRef,
        root_store: ObjectStoreRef,
        location: &Url,
        options: &StorageConfig,
    ) -> DeltaResult<Arc<dyn LogStore>> {
        Ok(default_logstore(prefixed_store, root_store, location, options))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_urls_are_places() {
        let local = TableLocation::parse("/tmp/a table").unwrap();
        assert_eq!(local.url().as_str(), "file:///tmp/a%20table/");
        assert_eq!(local.to_string(), "file:///tmp/a%20table");
        assert_eq!(TableLocation::parse("s3://b/t").unwrap().to_string(), "s3://b/t");
        assert!(TableLocation::parse("mailto:x").is_err());
        assert!(TableLocation::parse("/tmp/a%20table").is_err(), "it would be that of \"a table\"");
        assert!(TableLocation::parse("/tmp/50%").is_ok());
    }

    /// A name that no file system takes stands for all that keeps one from looking.
    #[test]
    fn a_folder_that_cannot_be_seen_is_not_one_that_is_not_there() {
        let place = TableLocation::parse(&format!("/{}", "x".repeat(5000))).unwrap();
        let error = place.log_store().err().unwrap();
        assert!(error.message().contains("cannot be seen"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        let place = TableLocation::parse(folder.path().join("t").to_str().unwrap()).unwrap();
        let error = place.log_store().err().unwrap();
        assert_eq!(error.condition(), Some("DELTA_TABLE_NOT_FOUND"), "{error}");
    }

    #[test]
    fn secrets_are_not_shown() {
        let options = BTreeMap::from([("aws_secret_access_key".into(), "hush".into())]);
        let place = TableLocation::parse("s3://me:hush@b/t?sig=hush").unwrap();
        let shown = format!("{place} {:?}", place.clone().with_storage_options(options));
        assert!(!shown.contains("hush"), "{shown}");
    }
}
