//! The query under test.

use crate::backend::Backend;
use crate::output::Output;
use crate::parts::{Ground, Parts};
use crate::world::World;
use fluvial::{
    DataStreamWriter, MemorySource, OutputMode, Result, Session, SessionBuilder, StreamingDataFrame,
};
use fluvial_sim::Process;
use futures::future::BoxFuture;
use object_store::ObjectStore;
use std::sync::Arc;

/// Whether the rows of the whole output depend on how the input is cut into batches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// They do not: restarts take batches of other sizes. So it is in append and complete mode
    /// where no row is late.
    Free,
    /// They do: batches are cut in the same way each time. So it is in update mode, and where rows
    /// are late.
    Fixed,
}

/// One start of the query: what it may use.
#[derive(Clone)]
pub struct Start {
    pub(crate) session: Session,
    pub(crate) world: World,
    pub(crate) process: Process,
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) limit: u64,
}

impl Start {
    /// The session, whose locations are below `sim://world`.
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The store of the world as this process sees it, for parts of your own: all that must
    /// outlive the process lies there.
    pub fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.store)
    }

    /// How many files a batch shall take; other at each start, unless the cut is fixed.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The rows of [`Input::rows`](crate::Input::rows) with this name, as a source that outlives
    /// the process.
    ///
    /// # Errors
    ///
    /// `NotFound` if the input has none.
    pub fn rows(&self, name: &str) -> Result<Arc<MemorySource>> {
        self.world.needed_rows(name)
    }
}

pub(crate) type Write = dyn Fn(Start) -> BoxFuture<'static, Result<DataStreamWriter>> + Send + Sync;
pub(crate) type Join = dyn Fn(Ground) -> BoxFuture<'static, Result<Parts>> + Send + Sync;
type SetUp = dyn Fn(SessionBuilder) -> SessionBuilder + Send + Sync;
type Around = dyn Fn(Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> + Send + Sync;

/// How a start of a query is made.
#[derive(Clone)]
pub(crate) enum Build {
    /// By a session, as users do.
    Session(Arc<Write>),
    /// From parts.
    Parts(Arc<Join>),
}

/// A query: what it computes, where its output goes, and what is known about it.
#[derive(Clone)]
pub struct Query {
    name: String,
    build: Build,
    set_up: Arc<SetUp>,
    around: Arc<Around>,
    mode: OutputMode,
    output: Output,
    cut: Option<Cut>,
    batch: Option<String>,
    state: Option<Backend>,
    changed: Option<Arc<Query>>,
}

impl Query {
    /// A query built in Rust. `build` gets one start of it and gives the writer, without output,
    /// output mode, trigger and checkpoint: those are the simulator's.
    pub fn new<F, Fut>(name: impl Into<String>, build: F) -> Self
    where
        F: Fn(Start) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<DataStreamWriter>> + Send + 'static,
    {
        Self::built(
            name.into(),
            Build::Session(Arc::new(move |start| -> BoxFuture<'static, _> {
                Box::pin(build(start))
            })),
        )
    }

    /// A query of parts: a runner over sources, without SQL and without DataFusion's planning,
    /// for operators and sources of your own, and where many schedules are wanted. Its
    /// output is files or each batch.
    pub fn of_parts<F, Fut>(name: impl Into<String>, build: F) -> Self
    where
        F: Fn(Ground) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Parts>> + Send + 'static,
    {
        Self::built(
            name.into(),
            Build::Parts(Arc::new(move |ground| -> BoxFuture<'static, _> {
                Box::pin(build(ground))
            })),
        )
    }

    fn built(name: String, build: Build) -> Self {
        Self {
            name,
            build,
            set_up: Arc::new(|builder: SessionBuilder| builder),
            around: Arc::new(|store: Arc<dyn ObjectStore>| store),
            mode: OutputMode::Append,
            output: Output::Files,
            cut: None,
            batch: None,
            state: None,
            changed: None,
        }
    }

    /// A SELECT over streams. `{limit}` in the text stands for [`Start::limit`].
    pub fn sql(name: impl Into<String>, text: impl Into<String>) -> Self {
        let text: String = text.into();
        Self::new(name, move |start| {
            let text = text.replace("{limit}", &start.limit.to_string());
            async move { start.session.sql(&text).await?.write_stream() }
        })
    }

    /// The output mode; append if not given.
    #[must_use]
    pub fn mode(mut self, mode: OutputMode) -> Self {
        self.mode = mode;
        self
    }

    /// Where the output goes; files of JSON if not given.
    #[must_use]
    pub fn output(mut self, output: Output) -> Self {
        self.output = output;
        self
    }

    /// Whether batches may be cut otherwise after a restart. Free if not given, in update mode
    /// fixed.
    #[must_use]
    pub fn cut(mut self, cut: Cut) -> Self {
        self.cut = Some(cut);
        self
    }

    /// The same result as a query over the whole input as a table, which the output must equal
    /// too: SQL, with `read_files` instead of `STREAM read_files`. An output of your own must give
    /// rows as JSON for it, as files have them.
    #[must_use]
    pub fn equals_batch(mut self, sql: impl Into<String>) -> Self {
        self.batch = Some(sql.into());
        self
    }

    /// Which of our backends has the state, with settings that make it work hard. Without it a
    /// session's own settings say it.
    #[must_use]
    pub fn backend(mut self, backend: Backend) -> Self {
        self.state = Some(backend);
        self
    }

    /// A query that must not go on from the checkpoint of this one: schedules try it, and it has to
    /// be refused with `Invalid`, and to change nothing.
    #[must_use]
    pub fn refuses(mut self, changed: Query) -> Self {
        self.changed = Some(Arc::new(changed));
        self
    }

    /// Sets up each session of the query: settings, functions, a state backend of your own.
    #[must_use]
    pub fn session<F>(mut self, set_up: F) -> Self
    where
        F: Fn(SessionBuilder) -> SessionBuilder + Send + Sync + 'static,
    {
        self.set_up = Arc::new(set_up);
        self
    }

    /// Puts something between the query and its store: to watch it, or to break it.
    #[must_use]
    pub fn store_around<F>(mut self, around: F) -> Self
    where
        F: Fn(Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> + Send + Sync + 'static,
    {
        self.around = Arc::new(around);
        self
    }

    /// The same under another name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// What it is called in reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn output_mode(&self) -> OutputMode {
        self.mode
    }

    pub(crate) fn out(&self) -> &Output {
        &self.output
    }

    pub(crate) fn batch_text(&self) -> Option<&str> {
        self.batch.as_deref()
    }

    pub(crate) fn is_free(&self) -> bool {
        let usual = if self.mode == OutputMode::Update { Cut::Fixed } else { Cut::Free };
        self.cut.unwrap_or(usual) == Cut::Free
    }

    pub(crate) fn wrapped(&self, store: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        (self.around)(store)
    }

    pub(crate) fn set_up(&self, builder: SessionBuilder) -> SessionBuilder {
        let builder = match self.state {
            Some(backend) => builder
                .state_backend(move |place| backend.open(place.store, place.folder, place.run)),
            None => builder,
        };
        (self.set_up)(builder)
    }

    pub(crate) fn build(&self) -> &Build {
        &self.build
    }

    pub(crate) fn state(&self) -> Option<Backend> {
        self.state
    }

    pub(crate) fn changed(&self) -> Option<&Query> {
        self.changed.as_deref()
    }

    /// The writer of a query that a session builds, with its output.
    pub(crate) async fn writer(&self, build: &Write, start: Start) -> Result<DataStreamWriter> {
        let writer = build(start.clone()).await?.output_mode(self.mode);
        Ok(self.output.attach(writer, &start))
    }
}
