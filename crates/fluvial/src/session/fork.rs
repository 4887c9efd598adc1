//! A session for one batch: settings, functions and tables of the session that it comes from, but
//! views of its own, so that batches of several queries do not meet.

use super::{Inner, Session, SessionLink};
use crate::catalog::{CATALOG, Catalog};
use crate::state_backend::Shared;
use async_trait::async_trait;
use datafusion::catalog::{
    CatalogProvider, MemoryCatalogProviderList, MemorySchemaProvider, SchemaProvider, TableProvider,
};
use datafusion::common::Result as DataFusionResult;
use datafusion::prelude::SessionContext;
use fluvial_core::{BatchId, Error, QueryId, Result};
use fluvial_datafusion::dialect;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};

/// The batch that a session is for.
pub(crate) struct BatchScope {
    query: QueryId,
    batch: BatchId,
    /// How often each name was given out.
    #[cfg_attr(
        not(all(feature = "sql", feature = "delta")),
        allow(dead_code, reason = "only MERGE in SQL takes it")
    )]
    names: Mutex<BTreeMap<String, u64>>,
}

impl BatchScope {
    /// What makes a write of this batch happen once: an application and a version.
    pub(crate) fn transaction(&self, name: &str) -> (String, u64) {
        (format!("{}/{name}", self.query), self.batch.0)
    }

    /// `name` when it is asked for first, then `name.1`, `name.2`.
    #[cfg_attr(
        not(all(feature = "sql", feature = "delta")),
        allow(dead_code, reason = "only MERGE in SQL takes it")
    )]
    pub(crate) fn numbered(&self, name: &str) -> String {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let times = names.entry(name.to_owned()).or_default();
        *times += 1;
        match *times {
            1 => name.to_owned(),
            more => format!("{name}.{}", more - 1),
        }
    }
}

impl Session {
    /// The batch that this session is for.
    ///
    /// # Errors
    ///
    /// `Invalid` outside of `foreach_batch`.
    pub(crate) fn batch(&self) -> Result<&BatchScope> {
        self.0.batch.as_ref().ok_or_else(|| {
            Error::invalid(
                "exactly_once(..) takes the batch from foreach_batch: use the session of its \
                 DataFrame, or the options txnAppId and txnVersion",
            )
        })
    }

    /// A session for a batch of a query.
    pub(crate) fn for_batch(&self, query: QueryId, batch: BatchId) -> Self {
        let parent = &self.0;
        let inner = Arc::new_cyclic(|link: &Weak<Inner>| {
            let mut builder = dialect::rebuilt(parent.context.state())
                .with_catalog_list(Arc::new(MemoryCatalogProviderList::new()));
            let config = builder.config().get_or_insert_default();
            config.set_extension(Arc::new(SessionLink(link.clone())));
            Inner {
                context: SessionContext::new_with_state(builder.build()),
                settings: RwLock::new(self.settings()),
                queries: parent.queries.clone(),
                clock: Arc::clone(&parent.clock),
                backend: parent.backend.clone(),
                state: Shared::default(),
                catalog: Catalog::new(link.clone(), parent.catalog.warehouse().to_owned()),
                base: parent.base.clone(),
                memory: Arc::clone(&parent.memory),
                stores: Arc::clone(&parent.stores),
                notifications: parent.notifications.clone(),
                names: Arc::clone(&parent.names),
                batch: Some(BatchScope { query, batch, names: Mutex::default() }),
                #[cfg(feature = "sql")]
                planning: tokio::sync::Mutex::default(),
            }
        });
        if let Some(tables) = parent.context.catalog(CATALOG) {
            let views = Views { below: tables, schemas: Mutex::default() };
            inner.context.register_catalog(CATALOG, Arc::new(views));
        }
        Self(inner)
    }
}

/// A catalog, and what was registered on top of it.
struct Views {
    below: Arc<dyn CatalogProvider>,
    schemas: Mutex<BTreeMap<String, Arc<ViewSchema>>>,
}

impl fmt::Debug for Views {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Views")
    }
}

impl CatalogProvider for Views {
    fn schema_names(&self) -> Vec<String> {
        self.below.schema_names()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let below = self.below.schema(name)?;
        let mut schemas = self.schemas.lock().unwrap_or_else(PoisonError::into_inner);
        let schema = schemas
            .entry(name.to_owned())
            .or_insert_with(|| Arc::new(ViewSchema { below, own: MemorySchemaProvider::new() }));
        let schema: Arc<dyn SchemaProvider> = schema.clone();
        Some(schema)
    }
}

#[derive(Debug)]
struct ViewSchema {
    below: Arc<dyn SchemaProvider>,
    own: MemorySchemaProvider,
}

#[async_trait]
impl SchemaProvider for ViewSchema {
    fn table_names(&self) -> Vec<String> {
        let mut names = self.own.table_names();
        names.extend(self.below.table_names());
        names.sort();
        names.dedup();
        names
    }

    async fn table(&self, name: &str) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
        match self.own.table(name).await? {
            Some(table) => Ok(Some(table)),
            None => self.below.table(name).await,
        }
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
        self.own.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> DataFusionResult<Option<Arc<dyn TableProvider>>> {
        self.own.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.own.table_exist(name) || self.below.table_exist(name)
    }
}
