//! What the program asks of the library.

use crate::args::Setting;
use crate::exit::UsageError;
use crate::progress::Pace;
use crate::scope::{Above, Scope};
use anyhow::Context;
use fluvial::sql::{Command, Existing, Statement};
use fluvial::{
    Executed, ScriptOptions, Session, SessionSettings, StreamingQuery, StreamingQueryListener,
    Trigger,
};
use fluvial_sinks::TableStyle;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    statement: Statement,
    /// Where in the script.
    above: Above,
    /// Why it was started again, if it was.
    cause: Option<String>,
}

impl Running {
    /// Whether others can read its table: one that ends by itself leaves the list when it is full.
    pub(crate) fn has_written(&self) -> bool {
        self.pace == Pace::Endless && self.query.last_progress().is_some()
    }

    /// Whether it ended because its source has other columns now, and being started again helps:
    /// not if it was for the same reason, and got no further.
    pub(crate) fn is_outgrown(&self, error: &fluvial_core::Error) -> bool {
        let stuck =
            self.query.last_progress().is_none() && self.cause.as_deref() == Some(error.message());
        is_grown(error) && !stuck
    }
}

/// Whether a query ended because it has to be described anew: its source has other columns.
fn is_grown(error: &fluvial_core::Error) -> bool {
    const GROWN: [&str; 3] = [
        "UNKNOWN_FIELD_EXCEPTION.NEW_FIELDS_IN_FILE",
        "DELTA_STREAMING_METADATA_EVOLUTION",
        "DELTA_SCHEMA_CHANGED_WITH_VERSION",
    ];
    error.condition().is_some_and(|condition| GROWN.contains(&condition))
}

/// A session that runs the statements of one script.
pub(crate) struct Library {
    session: Session,
    options: ScriptOptions,
    /// From the command line: goes before what the script says.
    trigger: Option<Trigger>,
    /// As they are before the first statement.
    settings: SessionSettings,
    scope: Mutex<Scope>,
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
        let settings = session.settings();
        Ok(Self { session, options, trigger, settings, scope: Mutex::default() })
    }

    fn scope(&self) -> MutexGuard<'_, Scope> {
        self.scope.lock().unwrap_or_else(PoisonError::into_inner)
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
        let above = self.scope().here();
        let executed = self.session.execute(&statement, &self.options).await?;
        self.scope().executed(&statement);
        match executed {
            Executed::Query(name, query) => {
                let cause = None;
                let running = Running { name, table, pace, query, statement, above, cause };
                Ok(Step::Started(Box::new(running)))
            }
            Executed::Rows(frame) => {
                let schema = Arc::clone(frame.schema().inner());
                let rows = frame.collect().await.map_err(fluvial_datafusion::from_datafusion)?;
                let zone = self.session.settings().zone()?;
                let style = TableStyle { rows_max: ROWS_SHOWN, width_max: None, zone };
                Ok(Step::Said(fluvial_sinks::draw(&schema, &rows, style)?))
            }
            Executed::Done(text) => Ok(Step::Said(text)),
        }
    }

    /// Starts a query that has ended once more, as the statements above it have it: not its table,
    /// which is there, and not what the statements below have changed since.
    pub(crate) async fn start_again(
        &self,
        running: Running,
        cause: &fluvial_core::Error,
    ) -> anyhow::Result<Step> {
        let Running { mut statement, above: place, .. } = running;
        if let Command::CreateStreamingTable(create) = &mut statement.command
            && create.existing == Existing::Keep
        {
            create.existing = Existing::Refuse;
        }
        let (above, below) = self.scope().around(place);
        for view in self.scope().views() {
            let context = self.session.context();
            context.deregister_table(view.as_str()).map_err(fluvial_datafusion::from_datafusion)?;
        }
        self.session.set_all(self.settings.clone())?;
        for statement in &above {
            self.session.execute(statement, &self.options).await?;
        }
        let mut step = self.execute(statement).await?;
        for statement in &below {
            self.session.execute(statement, &self.options).await?;
        }
        if let Step::Started(running) = &mut step {
            running.above = place;
            running.cause = Some(cause.message().to_owned());
        }
        Ok(step)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_whose_source_has_other_columns_is_to_be_described_anew() {
        let is = |condition| is_grown(&fluvial_core::Error::invalid("").with_condition(condition));
        assert!(is("UNKNOWN_FIELD_EXCEPTION.NEW_FIELDS_IN_FILE"));
        assert!(is("DELTA_STREAMING_METADATA_EVOLUTION"));
        assert!(is("DELTA_SCHEMA_CHANGED_WITH_VERSION"));
        assert!(!is("UNKNOWN_FIELD_EXCEPTION.NO_NEW_FIELDS"));
    }
}
