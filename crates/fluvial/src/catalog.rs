//! Tables by name that outlive a session: `<warehouse>/_catalog/<schema>.<table>.json` says what
//! and where each is.

use crate::session::{Inner, Session};
use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, MemorySchemaProvider, SchemaProvider, TableProvider};
use datafusion::common::{DataFusionError, Result as DataFusionResult};
use fluvial_core::options::Options;
use fluvial_core::{Error, Result, frame};
#[cfg(feature = "sql")]
use futures::TryStreamExt;
use object_store::{ObjectStoreExt, PutMode, PutOptions, PutPayload};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The catalog's name in DataFusion.
pub(crate) const CATALOG: &str = "fluvial";
/// The schema of names of one level.
pub(crate) const DEFAULT_SCHEMA: &str = "default";
const ENTRY: &str = "table";
const FORMAT: u32 = 1;

/// The tables of a warehouse.
pub(crate) struct Catalog {
    session: Weak<Inner>,
    warehouse: String,
}

/// One table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    format: String,
    /// As given: a relative path stays relative, so that a folder may be moved as a whole.
    location: String,
    /// What somebody says about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    comment: Option<String>,
    /// The options that read what was written with them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    reading: Reading,
}

/// The options by which the files of a sink are read as they are written.
pub(crate) fn reading_options(format: &str, options: &Options) -> Reading {
    if !format.eq_ignore_ascii_case("csv") {
        return Reading::new();
    }
    let given = |name: &&str| Some(((*name).to_owned(), options.peek(name)?.to_owned()));
    let signs = ["header", "sep", "delimiter", "quote", "escape"];
    let mut reading: Reading = signs.iter().filter_map(given).collect();
    // The sink doubles quotes unless told otherwise, and a value may have ends of lines.
    let quote = reading.get("quote").map_or("\"", String::as_str).to_owned();
    reading.entry("escape".to_owned()).or_insert(quote);
    reading.insert("multiLine".to_owned(), "true".to_owned());
    reading
}

/// Options by which files are read.
pub(crate) type Reading = BTreeMap<String, String>;

/// The same by one name each, without those that say what is so anyway.
fn plain_reading(reading: &Reading) -> Reading {
    let quote = reading.get("quote").map_or("\"", String::as_str);
    let plain = |(name, value): (&String, &String)| {
        let (name, value, default) = match name.as_str() {
            "header" => ("header", value.to_lowercase(), "false"),
            "sep" | "delimiter" => ("sep", value.clone(), ","),
            "quote" => ("quote", value.clone(), "\""),
            // Tables of before doubled quotes without saying so, and had no ends of lines.
            "escape" => ("escape", value.clone(), quote),
            "multiLine" => ("multiLine", value.clone(), "true"),
            other => (other, value.clone(), ""),
        };
        (value != default).then(|| (name.to_owned(), value))
    };
    reading.iter().filter_map(plain).collect()
}

impl Entry {
    fn new(format: &str, location: &str, comment: Option<&str>) -> Self {
        let (format, comment) = (format.to_ascii_lowercase(), comment.map(str::to_owned));
        Self { format, location: location.to_owned(), comment, reading: Reading::new() }
    }

    /// Whether both are about the same table, whatever is said about it.
    fn is_same(&self, other: &Self) -> bool {
        (&self.format, &self.location) == (&other.format, &other.location)
    }
}

impl Catalog {
    pub(crate) fn new(session: Weak<Inner>, warehouse: String) -> Self {
        Self { session, warehouse }
    }

    /// Where tables without a location lie.
    pub(crate) fn warehouse(&self) -> &str {
        &self.warehouse
    }

    fn session(&self) -> Result<Session> {
        let inner = self.session.upgrade().ok_or_else(|| Error::invalid("the session is gone"))?;
        Ok(Session(inner))
    }

    /// Puts the catalog where DataFusion looks for names.
    pub(crate) fn register(&self, session: &Session) {
        let provider =
            WarehouseCatalog { session: self.session.clone(), schemas: Mutex::default() };
        session.context().register_catalog(CATALOG, Arc::new(provider));
    }

    /// Where a table without a location of its own lies.
    pub(crate) fn location_of(&self, name: &str) -> Result<String> {
        let (schema, table) = levels(name)?;
        Ok(format!("{}/{schema}/{table}", self.warehouse))
    }

    /// Remembers a table and the options by which it is read.
    ///
    /// # Errors
    ///
    /// As [`Self::check`].
    pub(crate) async fn create(
        &self,
        name: &str,
        format: &str,
        location: &str,
        comment: Option<&str>,
        reading: Reading,
    ) -> Result<()> {
        let session = self.session()?;
        let entry = Entry { reading, ..Entry::new(format, location, comment) };
        let body = serde_json::to_vec(&entry)
            .map_err(|e| Error::invalid("a table has no JSON form").with_source(e))?;
        let place = self.entry_place(&session, name)?;
        let payload = PutPayload::from(frame::seal(ENTRY, FORMAT, &body));
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match place.store.put_opts(&place.path, payload, options).await {
            Ok(_) => Ok(()),
            Err(object_store::Error::AlreadyExists { .. }) => {
                self.check(name, format, location, &entry.reading).await
            }
            Err(error) => Err(Error::from(error).at(format!("table {name}"))),
        }
    }

    /// Whether a name is free, or belongs to this very table.
    ///
    /// # Errors
    ///
    /// `Invalid` (`TABLE_OR_VIEW_ALREADY_EXISTS`) if the name is taken by a table of another format
    /// or place, or by one whose files are read otherwise than these would have to be.
    pub(crate) async fn check(
        &self,
        name: &str,
        format: &str,
        location: &str,
        reading: &Reading,
    ) -> Result<()> {
        let Some(found) = self.find(name).await? else { return Ok(()) };
        let taken =
            |what: String| Err(Error::invalid(what).with_condition("TABLE_OR_VIEW_ALREADY_EXISTS"));
        if !found.is_same(&Entry::new(format, location, None)) {
            return taken(format!(
                "there is a table {name} already, {} at {}: drop it first, or take another name",
                found.format, found.location
            ));
        }
        let (ours, theirs) = (plain_reading(reading), plain_reading(&found.reading));
        if ours != theirs {
            return taken(format!(
                "the files of table {name} are read with {theirs:?}, and these would be written \
                 with {ours:?}: give the same options, or drop the table first"
            ));
        }
        Ok(())
    }

    /// Whether there is a table of that name.
    #[cfg(feature = "sql")]
    pub(crate) async fn exists(&self, name: &str) -> Result<bool> {
        Ok(self.find(name).await?.is_some())
    }

    /// The format and the place of a table.
    #[cfg(feature = "delta")]
    pub(crate) async fn place(&self, name: &str) -> Result<Option<(String, String)>> {
        Ok(self.find(name).await?.map(|entry| (entry.format, entry.location)))
    }

    /// What was said about a table when it was made.
    #[cfg(feature = "sql")]
    pub(crate) async fn comment(&self, name: &str) -> Result<Option<String>> {
        match levels(name) {
            Ok(_) => Ok(self.find(name).await?.and_then(|entry| entry.comment)),
            Err(_) => Ok(None),
        }
    }

    /// Forgets a table; its files stay.
    #[cfg(feature = "sql")]
    pub(crate) async fn drop_table(&self, name: &str) -> Result<bool> {
        let session = self.session()?;
        let place = self.entry_place(&session, name)?;
        if self.find(name).await?.is_none() {
            return Ok(false);
        }
        place.store.delete(&place.path).await?;
        Ok(true)
    }

    /// The names of all tables: `schema.table`.
    #[cfg(feature = "sql")]
    pub(crate) async fn names(&self) -> Result<Vec<String>> {
        let folder = self.session()?.storage().open(&self.warehouse)?.join("_catalog");
        let objects: Vec<_> = folder.store.list(Some(&folder.path)).try_collect().await?;
        let mut names: Vec<String> = objects
            .iter()
            .filter_map(|o| o.location.filename()?.strip_suffix(".json").map(str::to_owned))
            .collect();
        names.sort();
        Ok(names)
    }

    fn entry_place(&self, session: &Session, name: &str) -> Result<crate::storage::Place> {
        let (schema, table) = levels(name)?;
        let warehouse = session.storage().open(&self.warehouse)?;
        Ok(warehouse.join(&format!("_catalog/{schema}.{table}.json")))
    }

    async fn find(&self, name: &str) -> Result<Option<Entry>> {
        let session = self.session()?;
        let place = self.entry_place(&session, name)?;
        let bytes = match place.store.get(&place.path).await {
            Ok(found) => found.bytes().await?,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let damaged = |e: Error| e.at(format!("the entry of table {name}, {}", place.url));
        let body = frame::open(ENTRY, FORMAT, &bytes).map_err(damaged)?;
        let entry = serde_json::from_slice(body).map_err(|e| {
            damaged(Error::corrupt("it is not what a catalog writes").with_source(e))
        })?;
        Ok(Some(entry))
    }

    /// A table to read.
    async fn provider(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(entry) = self.find(name).await? else { return Ok(None) };
        let session = self.session()?;
        match entry.format.as_str() {
            #[cfg(feature = "delta")]
            "delta" => crate::formats::delta_table(&session, &entry.location, Default::default())
                .await
                .map(Some),
            other => {
                let mut reader = session.read().format(other);
                if other == "csv" {
                    // A query that gets a column more writes files with one more.
                    reader = reader.option("mergeSchema", true);
                }
                for (name, value) in &entry.reading {
                    reader = reader.option(name, value);
                }
                Ok(Some(reader.load(&entry.location).await?.into_view()))
            }
        }
    }
}

/// Schema and table of a name of one or two levels.
fn levels(name: &str) -> Result<(String, String)> {
    let parts: Vec<&str> = name.split('.').collect();
    let fits = |part: &&str| {
        !part.is_empty() && part.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-')
    };
    match parts.as_slice() {
        [table] if fits(table) => Ok((DEFAULT_SCHEMA.to_owned(), (*table).to_owned())),
        [schema, table] if fits(schema) && fits(table) => {
            Ok(((*schema).to_owned(), (*table).to_owned()))
        }
        _ => Err(Error::invalid(format!(
            "{name:?} is no table name: use letters, digits and '_', in one level or two"
        ))),
    }
}

/// DataFusion's view of the catalog.
struct WarehouseCatalog {
    session: Weak<Inner>,
    schemas: Mutex<BTreeMap<String, Arc<WarehouseSchema>>>,
}

impl fmt::Debug for WarehouseCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WarehouseCatalog")
    }
}

impl CatalogProvider for WarehouseCatalog {
    fn schema_names(&self) -> Vec<String> {
        self.schemas.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let mut schemas = self.schemas.lock().unwrap_or_else(PoisonError::into_inner);
        let schema = schemas.entry(name.to_owned()).or_insert_with(|| {
            Arc::new(WarehouseSchema {
                name: name.to_owned(),
                session: self.session.clone(),
                registered: MemorySchemaProvider::new(),
            })
        });
        let schema: Arc<dyn SchemaProvider> = schema.clone();
        Some(schema)
    }
}

/// One schema: what was registered in this session, then what the warehouse has.
struct WarehouseSchema {
    name: String,
    session: Weak<Inner>,
    registered: MemorySchemaProvider,
}

impl fmt::Debug for WarehouseSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WarehouseSchema({})", self.name)
    }
}

#[async_trait]
impl SchemaProvider for WarehouseSchema {
    fn table_names(&self) -> Vec<String> {
        self.registered.table_names()
    }

    async fn table(&self, name: &str) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.registered.table(name).await? {
            return Ok(Some(table));
        }
        let whole = format!("{}.{name}", self.name);
        let Some(inner) = self.session.upgrade() else { return Ok(None) };
        let session = Session(inner);
        #[cfg(feature = "delta")]
        if let Some(path) = crate::delta_stream::path_of(&[self.name.clone(), name.to_owned()]) {
            let found = crate::formats::delta_table(&session, path, Default::default()).await;
            return found.map(Some).map_err(|e| DataFusionError::External(Box::new(e)));
        }
        if levels(&whole).is_err() {
            return Ok(None);
        }
        let found = Box::pin(session.catalog().provider(&whole)).await;
        found.map_err(|e| DataFusionError::External(Box::new(e)))
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
        self.registered.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
        self.registered.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.registered.table_exist(name)
    }
}
