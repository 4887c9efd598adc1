//! What the program asks of the library.

use crate::args::Setting;
use crate::exit::UsageError;
use crate::progress::Pace;
use anyhow::Context;
use fluvial::sql::{Command, Statement};
use fluvial::{Executed, ScriptOptions, Session, StreamingQuery, StreamingQueryListener, Trigger};
use std::path::Path;
use std::sync::Arc;

/// The most rows of a SELECT that are printed. A table of more is for another tool.
const ROWS_SHOWN: usize = 1000;

/// What a statement led to.
pub(crate) enum Step {
    /// A query that runs now.
    Started(Box<Running>),
    /// Text to print; there may be none.
    Said(String),
}

/// A query that was started.
pub(crate) struct Running {
    pub(crate) name: String,
    /// The table that it fills.
    pub(crate) table: String,
    pub(crate) pace: Pace,
    pub(crate) query: StreamingQuery,
    /// What started it.
    pub(crate) statement: Statement,
}

impl Running {
    /// Whether others can read its table: one that ends by itself leaves the list when it is full.
    pub(crate) fn has_written(&self) -> bool {
        self.pace == Pace::Endless && self.query.last_progress().is_some()
    }
}

/// A session that runs the statements of one script.
pub(crate) struct Library {
    session: Session,
    options: ScriptOptions,
    /// From the command line: goes before what the script says.
    trigger: Option<Trigger>,
}

impl Library {
    /// A session in which relative paths start at `base`.
    pub(crate) fn open(
        base: &Path,
        checkpoints: String,
        trigger: Option<Trigger>,
        settings: &[Setting],
    ) -> anyhow::Result<Self> {
        let session =
            Session::builder().base_dir(base).build().context("cannot set up a session")?;
        for Setting { key, value } in settings {
            session
                .set(key, value)
                .map_err(|error| UsageError::of(format!("--set {key}={value}: {error}")))?;
        }
        let default = Some(trigger.unwrap_or(Trigger::AvailableNow));
        let options = ScriptOptions { checkpoints: Some(checkpoints), trigger: default };
        Ok(Self { session, options, trigger })
    }

    pub(crate) fn listen(&self, listener: Arc<dyn StreamingQueryListener>) {
        self.session.streams().add_listener(listener);
    }

    /// Runs one statement.
    pub(crate) async fn execute(&self, mut statement: Statement) -> anyhow::Result<Step> {
        let mut pace = self.pace(self.options.trigger);
        let mut table = String::new();
        if let Command::CreateStreamingTable(create) = &mut statement.command {
            create.name.table().clone_into(&mut table);
            if self.trigger.is_some() {
                create.properties.trigger = None;
            } else if let Some(text) = &create.properties.trigger {
                pace = self.pace(text.parse().ok());
            }
        }
        match self.session.execute(&statement, &self.options).await? {
            Executed::Query(name, query) => {
                Ok(Step::Started(Box::new(Running { name, table, pace, query, statement })))
            }
            Executed::Rows(frame) => {
                let schema = Arc::clone(frame.schema().inner());
                let rows = frame.collect().await.map_err(fluvial_datafusion::from_datafusion)?;
                Ok(Step::Said(fluvial_sinks::draw(&schema, &rows, ROWS_SHOWN, None)?))
            }
            Executed::Done(text) => Ok(Step::Said(text)),
        }
    }

    fn pace(&self, trigger: Option<Trigger>) -> Pace {
        match trigger {
            Some(Trigger::Once | Trigger::AvailableNow) => Pace::Finite,
            _ => Pace::Endless,
        }
    }

    /// Stops all queries; each ends cleanly.
    pub(crate) async fn stop(&self) -> anyhow::Result<()> {
        Ok(self.session.stop().await?)
    }
}
