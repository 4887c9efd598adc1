//! `Session`: where everything starts.

mod fork;
mod memory;

use crate::batch_reader::DataFrameReader;
use crate::catalog::{CATALOG, Catalog, DEFAULT_SCHEMA};
use crate::clock::{Names, SystemClock, TokioSpawn, unique_name};
use crate::dataframe::StreamingDataFrame;
use crate::hidden::{names_metadata, with_metadata};
use crate::settings::{SessionSettings, StateBackendKind};
use crate::state_backend::{OpenBackend, Shared, StatePlace};
use crate::storage::{OwnStores, Storage, root_of};
use crate::stream_reader::DataStreamReader;
use arrow::array::RecordBatch;
use datafusion::common::UnnestOptions;
use datafusion::dataframe::DataFrame;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::Expr;
use datafusion::prelude::{SessionConfig, SessionContext};
use fluvial_core::{Clock, Error, Result, StateBackend};
use fluvial_datafusion::dialect;
use fluvial_datafusion::from_datafusion;
use fluvial_engine::Queries;
use fluvial_sources::{FileNotifications, METADATA};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, Weak};
use url::Url;

/// A session: settings, tables, functions and the queries that run. Cheap to clone; all clones
/// are the same session.
#[derive(Clone)]
pub struct Session(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    context: SessionContext,
    settings: RwLock<SessionSettings>,
    queries: Queries,
    clock: Arc<dyn Clock>,
    backend: Option<Arc<OpenBackend>>,
    state: Shared,
    catalog: Catalog,
    base: PathBuf,
    memory: Arc<InMemory>,
    stores: Arc<OwnStores>,
    notifications: Vec<(String, Arc<dyn FileNotifications>)>,
    names: Arc<Names>,
    /// The batch that the session is for, in `foreach_batch`.
    batch: Option<fork::BatchScope>,
    /// Held while reserved names are in use.
    #[cfg(feature = "sql")]
    planning: tokio::sync::Mutex<()>,
}

/// How a DataFrame finds its session again.
pub(crate) struct SessionLink(Weak<Inner>);

impl Session {
    /// A session with default settings.
    ///
    /// # Errors
    ///
    /// As [`SessionBuilder::build`].
    pub fn new() -> Result<Self> {
        Self::builder().build()
    }

    /// A session to be set up.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    /// Reads a stream.
    pub fn read_stream(&self) -> DataStreamReader {
        DataStreamReader::new(self.clone())
    }

    /// Reads files once.
    pub fn read(&self) -> DataFrameReader {
        DataFrameReader::new(self.clone())
    }

    /// Plans a SELECT over tables and views: Spark's SQL.
    ///
    /// # Errors
    ///
    /// `Invalid` if it does not parse or names what is not there.
    pub async fn sql(&self, query: &str) -> Result<DataFrame> {
        #[cfg(feature = "sql")]
        {
            crate::script::query(self, query).await
        }
        #[cfg(not(feature = "sql"))]
        {
            self.0.context.sql(query).await.map_err(from_datafusion)
        }
    }

    /// A table by name: one level, or two.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is none.
    pub async fn table(&self, name: &str) -> Result<DataFrame> {
        self.0.context.table(name).await.map_err(from_datafusion)
    }

    /// A DataFrame over rows in memory.
    ///
    /// # Errors
    ///
    /// `Invalid` if there is no batch, or their schemas differ.
    pub fn create_dataframe(&self, rows: Vec<RecordBatch>) -> Result<DataFrame> {
        self.0.context.read_batches(rows).map_err(from_datafusion)
    }

    /// Parses an expression over the columns of a DataFrame: `"price * 2 AS double_price"`.
    ///
    /// # Errors
    ///
    /// `Invalid` if it does not parse or names what is not there.
    pub fn expr(&self, sql: &str, frame: &DataFrame) -> Result<Expr> {
        let state = self.state();
        // A union of DataFrames still has the types of its first one.
        let known = dialect::widened(frame.logical_plan().clone()).map_err(from_datafusion)?;
        let parsed = dialect::parse_expression(&state, sql, known.schema());
        // A hidden column is there for who names it.
        let Err(error) = parsed else { return parsed.map_err(from_datafusion) };
        let hidden = sql.to_ascii_lowercase().contains(METADATA);
        let plan = if hidden { with_metadata(frame.logical_plan()).ok().flatten() } else { None };
        match plan {
            Some(plan) => dialect::parse_expression(&state, sql, plan.schema()),
            None => Err(error),
        }
        .map_err(from_datafusion)
    }

    /// Selects expressions; `explode(...)` and other generators become rows.
    ///
    /// # Errors
    ///
    /// `Invalid` if an expression does not fit the columns.
    pub fn select(&self, frame: DataFrame, exprs: Vec<Expr>) -> Result<DataFrame> {
        let frame = match exprs.iter().any(names_metadata) {
            true => frame.with_file_metadata()?,
            false => frame,
        };
        let unnested = |e: &Expr| match e.clone().unalias() {
            Expr::Unnest(unnest) => Some(*unnest.expr),
            _ => None,
        };
        let mut generated = Vec::new();
        let mut first = Vec::new();
        for expr in exprs {
            let name = expr.schema_name().to_string();
            match unnested(&expr) {
                None => first.push(expr),
                Some(list) => {
                    first.push(list.alias(&name));
                    generated.push(name);
                }
            }
        }
        let frame = frame.select(first).map_err(from_datafusion)?;
        if generated.is_empty() {
            return Ok(frame);
        }
        // As Spark's explode: a row without elements goes.
        let options = UnnestOptions::new().with_preserve_nulls(false);
        let names: Vec<&str> = generated.iter().map(String::as_str).collect();
        frame.unnest_columns_with_options(&names, options).map_err(from_datafusion)
    }

    /// The running queries, and those that ended since the last reset.
    pub fn streams(&self) -> &Queries {
        &self.0.queries
    }

    /// DataFusion's context: register functions and tables here.
    pub fn context(&self) -> &SessionContext {
        &self.0.context
    }

    /// Sets one setting, for everything that starts from now on.
    ///
    /// # Errors
    ///
    /// `Invalid`: an unknown name, with the nearest known one, or a value that does not fit.
    pub fn set(&self, name: &str, value: &str) -> Result<()> {
        let mut settings = self.0.settings.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = settings.clone();
        next.set(name, value)?;
        self.apply(&mut settings, next)
    }

    /// Sets all settings, for everything that starts from now on: those that [`Self::settings`]
    /// gave before, say.
    ///
    /// # Errors
    ///
    /// `Invalid` for what cannot be set up.
    pub fn set_all(&self, settings: SessionSettings) -> Result<()> {
        let mut now = self.0.settings.write().unwrap_or_else(PoisonError::into_inner);
        self.apply(&mut now, settings)
    }

    fn apply(&self, now: &mut SessionSettings, next: SessionSettings) -> Result<()> {
        // What is planned from now on is planned with it.
        let state = self.0.context.state_ref();
        let mut state = state.write();
        let mut applied = dialect::with_name_case(state.clone(), next.case);
        if next.batch_memory != now.batch_memory {
            applied = memory::with_batch_memory(applied, next.batch_memory)?;
        }
        *state = applied;
        let options = state.config_mut().options_mut();
        options.execution.time_zone = Some(next.timezone.clone());
        *now = next;
        Ok(())
    }

    /// The settings as they are now.
    pub fn settings(&self) -> SessionSettings {
        self.0.settings.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops every query, each after its batch at most, and waits for them.
    ///
    /// # Errors
    ///
    /// The first error of a query that failed while stopping.
    pub async fn stop(&self) -> Result<()> {
        self.0.queries.stop_all().await
    }

    /// One query at a time is planned whose relations have reserved names.
    #[cfg(feature = "sql")]
    pub(crate) fn planning(&self) -> &tokio::sync::Mutex<()> {
        &self.0.planning
    }

    pub(crate) fn state(&self) -> SessionState {
        self.0.context.state()
    }

    pub(crate) fn clock(&self) -> Arc<dyn Clock> {
        Arc::clone(&self.0.clock)
    }

    /// The state backend of the user's, if there is one.
    pub(crate) fn own_backend(&self) -> Option<&OpenBackend> {
        self.0.backend.as_deref()
    }

    /// Who tells of new files below a location, if somebody does: of several, the nearest.
    pub(crate) fn file_notifications(&self, location: &Url) -> Option<Arc<dyn FileNotifications>> {
        let location = format!("{}/", location.as_str().trim_end_matches('/'));
        let above =
            self.0.notifications.iter().filter(|(root, _)| {
                location.starts_with(&format!("{}/", root.trim_end_matches('/')))
            });
        above.max_by_key(|(root, _)| root.len()).map(|(_, news)| Arc::clone(news))
    }

    /// What the state backends of its queries share.
    pub(crate) fn state_shared(&self) -> &Shared {
        &self.0.state
    }

    pub(crate) fn catalog(&self) -> &Catalog {
        &self.0.catalog
    }

    /// Finds object stores with the settings as they are now.
    pub(crate) fn storage(&self) -> Storage {
        Storage::new(self.0.base.clone(), self.settings().storage)
            .with_memory(Arc::clone(&self.0.memory))
            .with_own(Arc::clone(&self.0.stores))
    }

    /// A name that was never used before.
    pub(crate) fn unique_name(&self) -> String {
        (self.0.names)()
    }

    /// The session that a DataFrame came from.
    pub(crate) fn of(frame: &DataFrame) -> Result<Self> {
        let state = frame.clone().into_parts().0;
        let link = state.config().get_extension::<SessionLink>();
        link.and_then(|link| link.0.upgrade()).map(Self).ok_or_else(|| {
            Error::invalid("this DataFrame belongs to no Fluvial session, or the session is gone")
        })
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("settings", &self.settings()).finish_non_exhaustive()
    }
}

/// Sets up a [`Session`].
#[derive(Default)]
pub struct SessionBuilder {
    config: Vec<(String, String)>,
    warehouse: Option<String>,
    base: Option<PathBuf>,
    clock: Option<Arc<dyn Clock>>,
    backend: Option<Arc<OpenBackend>>,
    stores: Vec<(String, Arc<dyn ObjectStore>)>,
    notifications: Vec<(String, Arc<dyn FileNotifications>)>,
    names: Option<Arc<Names>>,
}

impl SessionBuilder {
    /// Sets a setting, by our name or Spark's.
    #[must_use]
    pub fn config(mut self, name: impl Into<String>, value: impl ToString) -> Self {
        self.config.push((name.into(), value.to_string()));
        self
    }

    /// Where tables without a location lie; `warehouse` if not given.
    #[must_use]
    pub fn warehouse(mut self, location: impl Into<String>) -> Self {
        self.warehouse = Some(location.into());
        self
    }

    /// Where relative paths start; the working folder if not given.
    #[must_use]
    pub fn base_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.base = Some(folder.into());
        self
    }

    /// Below it queries without a checkpoint location have theirs, each under its name.
    #[must_use]
    pub fn default_checkpoint(self, location: impl ToString) -> Self {
        self.config("checkpoint.location", location)
    }

    /// Another clock than the machine's: for tests.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The object store of all locations below `root`, a URL of a scheme and a host such as
    /// `mine://bucket`: checkpoints, state, files and tables. The location `mine://bucket/a/b` is
    /// the path `a/b` in it. For stores that Fluvial does not know, and for ones that it would
    /// open otherwise.
    #[must_use]
    pub fn object_store(mut self, root: impl Into<String>, store: Arc<dyn ObjectStore>) -> Self {
        self.stores.push((root.into(), store));
        self
    }

    /// Who tells of new files below `location`, a URL such as `s3://bucket/landing` or
    /// `file:///landing`: for Auto Loaders with `cloudFiles.useNotifications`.
    #[must_use]
    pub fn file_notifications(
        mut self,
        location: impl Into<String>,
        notifications: Arc<dyn FileNotifications>,
    ) -> Self {
        self.notifications.push((location.into(), notifications));
        self
    }

    /// Where the names of queries and of runs come from: for tests that must be the same each
    /// time. Each call must give a name that was never given before, on any machine: two runs
    /// with one name on one checkpoint damage it.
    #[must_use]
    pub fn unique_names(mut self, next: impl Fn() -> String + Send + Sync + 'static) -> Self {
        self.names = Some(Arc::new(next));
        self
    }

    /// A state backend of your own: `open` is called once for every run of a stateful query. The
    /// setting `state.backend` = `memory` goes back to ours.
    #[must_use]
    pub fn state_backend<F>(mut self, open: F) -> Self
    where
        F: Fn(StatePlace) -> Result<Arc<dyn StateBackend>> + Send + Sync + 'static,
    {
        self.backend = Some(Arc::new(open));
        self
    }

    /// The session.
    ///
    /// # Errors
    ///
    /// `Invalid` for a setting that is unknown or does not fit, a root of an object store that is
    /// no scheme with a host, or outside of a tokio runtime.
    pub fn build(self) -> Result<Session> {
        let mut settings = SessionSettings::default();
        if self.backend.is_some() {
            settings.state_backend = StateBackendKind::Own;
        }
        for (name, value) in &self.config {
            settings.set(name, value)?;
        }
        let runtime = tokio::runtime::Handle::try_current().map_err(|e| {
            Error::invalid("a session must be built inside a tokio runtime: use #[tokio::main]")
                .with_source(e)
        })?;
        let base = match self.base {
            Some(base) => std::path::absolute(base),
            None => std::env::current_dir(),
        };
        let base =
            base.map_err(|e| Error::invalid("the working folder cannot be found").with_source(e))?;
        let clock = self.clock.unwrap_or_else(|| Arc::new(SystemClock::new()));
        let warehouse = self.warehouse.unwrap_or_else(|| "warehouse".into());
        let queries = Queries::new(Arc::new(TokioSpawn(runtime)), Arc::clone(&clock));
        let backend = self.backend;
        let stores = Arc::new(own_stores(self.stores)?);
        let names = self.names.unwrap_or_else(|| Arc::new(unique_name));
        let state = memory::with_batch_memory(state(&settings), settings.batch_memory)?;
        let inner = Arc::new_cyclic(|link: &Weak<Inner>| {
            let mut state = state;
            state.config_mut().set_extension(Arc::new(SessionLink(link.clone())));
            let context = SessionContext::new_with_state(state);
            let catalog = Catalog::new(link.clone(), warehouse);
            let memory = Arc::new(InMemory::new());
            let settings = RwLock::new(settings);
            Inner {
                context,
                settings,
                queries,
                clock,
                backend,
                state: Shared::default(),
                catalog,
                base,
                memory,
                stores,
                notifications: self.notifications,
                names,
                batch: None,
                #[cfg(feature = "sql")]
                planning: tokio::sync::Mutex::default(),
            }
        });
        let session = Session(inner);
        session.catalog().register(&session);
        Ok(session)
    }
}

fn own_stores(given: Vec<(String, Arc<dyn ObjectStore>)>) -> Result<OwnStores> {
    let each = given.into_iter().map(|(root, store)| match Url::parse(&root) {
        Ok(url) if !url.authority().is_empty() && matches!(url.path(), "" | "/") => {
            Ok((root_of(&url), store))
        }
        _ => Err(Error::invalid(format!(
            "the root of an object store is {root:?}, but must be a scheme and a host, such as \
             mine://bucket"
        ))),
    });
    each.collect()
}

fn state(settings: &SessionSettings) -> SessionState {
    let mut config = SessionConfig::new();
    let options = config.options_mut();
    options.execution.time_zone = Some(settings.timezone.clone());
    // As Spark: a row that cannot match does not move the watermark.
    options.optimizer.filter_null_join_keys = true;
    options.catalog.default_catalog = CATALOG.into();
    options.catalog.default_schema = DEFAULT_SCHEMA.into();
    let builder = SessionStateBuilder::new().with_default_features();
    dialect::with_name_case(dialect::configure(config, builder).build(), settings.case)
}
