//! `fluvial run`.

use crate::args;
use crate::exit::{Exit, UsageError};
use crate::interrupt::Interrupt;
use crate::progress::{End, Output, Reporter, Style};
use crate::session::{Library, Running, Step};
use anyhow::Context;
use fluvial::sql::{Command, LoweredQuery, Statement, TableFormat, parse_script};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often the lines of a terminal are brought up to date between batches.
const LOOK: Duration = Duration::from_millis(250);

/// Where checkpoints are, beside the script.
const CHECKPOINTS: &str = ".fluvial/checkpoints";

/// Why a run in which all queries ended well is none.
const LOST: &str = "the queries have ended, but not all that they had to show could be printed";

/// The exit code of a program that a second Ctrl-C ended, as shells have it.
const INTERRUPTED: i32 = 130;

/// Runs a script until all that it started has ended, or somebody stops it.
pub(crate) async fn run(args: args::Run) -> anyhow::Result<Exit> {
    let script = Script::read(&args.file)?;
    let checkpoints = match &args.checkpoint {
        // On the command line paths are relative to where it is typed.
        Some(location) => absolute(location)?,
        None => CHECKPOINTS.to_owned(),
    };
    let library = Library::open(&script.base, checkpoints, args.trigger, &args.settings)?;
    let output = Output::of_stdout(script.style());
    let reporter = Arc::new(Reporter::new(output, Box::new(std::io::stdout())));
    library.listen(reporter.clone());

    let checkpoint_given = args.checkpoint.is_some();
    let evolve = args.evolve;
    let Script { name: script, statements, .. } = script;
    let running = Mutex::default();
    let run = Run { script, library, reporter, checkpoint_given, evolve, running };
    let mut interrupt = Interrupt::new()?;
    let result = tokio::select! {
        result = run.statements(statements) => result,
        () = interrupt.next() => {
            tokio::select! {
                result = run.stop() => return result.map(|()| Exit::Done),
                // Whoever asks twice does not want to wait. Nothing is lost by that either.
                () = interrupt.next() => std::process::exit(INTERRUPTED),
            }
        }
    };
    match result {
        Ok(()) => match run.reporter.lost() {
            None => Ok(Exit::Done),
            Some(error) => Err(anyhow::Error::new(error).context(LOST)),
        },
        Err(error) => {
            // The first error is the one to tell; the others end with it.
            let _ = run.stop().await;
            Err(error)
        }
    }
}

/// A script and where it is.
struct Script {
    name: String,
    base: PathBuf,
    statements: Vec<Statement>,
}

impl Script {
    fn read(file: &Path) -> anyhow::Result<Self> {
        let name = file.display().to_string();
        let text = match std::fs::read(file) {
            Ok(bytes) => String::from_utf8(bytes)
                .map_err(|_| anyhow::anyhow!("{name} is not a file of SQL: it is not UTF-8"))?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(UsageError::of(format!("there is no file {name}")));
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read {name}")),
        };
        let statements = parse_script(&text).map_err(|error| error.at(&name))?;
        let path = std::path::absolute(file).with_context(|| format!("cannot find {name}"))?;
        let base = path.parent().map_or_else(|| PathBuf::from("/"), Path::to_path_buf);
        Ok(Self { name, base, statements })
    }

    /// Tables on the console print rows between the lines of progress.
    fn style(&self) -> Style {
        let prints = |statement: &Statement| {
            matches!(&statement.command, Command::CreateStreamingTable(create)
                if create.format == TableFormat::Console)
        };
        if self.statements.iter().any(prints) { Style::Appended } else { Style::InPlace }
    }
}

/// A path relative to the working folder; URLs stay.
fn absolute(location: &str) -> anyhow::Result<String> {
    if location.contains("://") {
        return Ok(location.to_owned());
    }
    let path = std::path::absolute(location)
        .map_err(|error| UsageError::of(format!("--checkpoint {location}: {error}")))?;
    match path.into_os_string().into_string() {
        Ok(path) => Ok(path),
        Err(_) => Err(UsageError::of(format!("--checkpoint {location}: not UTF-8"))),
    }
}

/// Says which script an error is about; the place in it is in the message.
fn in_script(error: anyhow::Error, name: &str) -> anyhow::Error {
    match error.downcast::<fluvial_core::Error>() {
        Ok(error) => error.at(name).into(),
        Err(error) => error.context(name.to_owned()),
    }
}

/// What to say of a table that keeps no checkpoint although the command line has a place for it.
fn without_checkpoint(command: &Command) -> Option<String> {
    let Command::CreateStreamingTable(create) = command else { return None };
    let passing =
        matches!(create.format, TableFormat::Memory | TableFormat::Console | TableFormat::Noop);
    let unused = passing && create.properties.checkpoint_location.is_none();
    unused.then(|| {
        format!(
            "{}: warning: --checkpoint is not used: the output goes with the program, and so does \
             what it has read; to go on next time set 'checkpointLocation' in TBLPROPERTIES",
            create.name
        )
    })
}

struct Run {
    /// The script's name.
    script: String,
    library: Library,
    reporter: Arc<Reporter>,
    /// Whether the command line says where checkpoints are.
    checkpoint_given: bool,
    /// Whether a query whose schema has grown is started again.
    evolve: bool,
    /// The queries that have not been seen to end.
    running: Mutex<Vec<Running>>,
}

impl Run {
    fn running<T>(&self, f: impl FnOnce(&mut Vec<Running>) -> T) -> T {
        f(&mut self.running.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn statements(&self, statements: Vec<Statement>) -> anyhow::Result<()> {
        for statement in statements {
            match &statement.command {
                Command::CreateStreamingTable(create) => self.until_written(&create.query).await?,
                command if self.waits(command) => self.until_ended().await?,
                _ => {}
            }
            if self.checkpoint_given
                && let Some(warning) = without_checkpoint(&statement.command)
            {
                self.reporter.print(&warning);
            }
            let step = self.library.execute(statement).await;
            self.follow(step.map_err(|error| in_script(error, &self.script))?);
        }
        self.until_ended().await
    }

    /// Follows what a statement led to.
    fn follow(&self, step: Step) {
        match step {
            Step::Started(running) => {
                self.reporter.watch(&running.name, running.pace, &running.query);
                self.running(|all| all.push(*running));
            }
            Step::Said(text) if text.is_empty() => {}
            Step::Said(text) => self.reporter.print(&text),
        }
    }

    /// Whether a statement has to see what the queries above it have written.
    fn waits(&self, command: &Command) -> bool {
        match command {
            Command::CreateStreamingTable(_) | Command::Set(_) => false,
            // A view of a stream, or of something else, must not hold up the queries below it.
            Command::CreateView(view) => self.reads_what_is_written(&view.query),
            Command::Query(_)
            | Command::Merge(_)
            | Command::Maintain(_)
            | Command::ShowTables
            | Command::DescribeTable(_)
            | Command::Drop(_) => true,
        }
    }

    fn reads_what_is_written(&self, query: &LoweredQuery) -> bool {
        let names = query.table_names();
        self.running(|all| all.iter().any(|running| names.contains(&running.table.to_lowercase())))
    }

    /// Waits for the tables that a streaming table reads: until a query that ends by itself has
    /// filled its own, or another has written its first batch.
    async fn until_written(&self, query: &LoweredQuery) -> anyhow::Result<()> {
        let names = query.table_names();
        let waits = |running: &Running| {
            names.contains(&running.table.to_lowercase()) && !running.has_written()
        };
        while self.running(|all| all.iter().any(waits)) {
            self.look().await?;
        }
        Ok(())
    }

    /// Waits for all queries that run. The first error ends the waiting.
    async fn until_ended(&self) -> anyhow::Result<()> {
        while self.running(|all| !all.is_empty()) {
            self.look().await?;
        }
        Ok(())
    }

    /// Waits a moment, or until one of the queries ends.
    async fn look(&self) -> anyhow::Result<()> {
        let queries: Vec<_> = self.running(|all| all.iter().map(|r| r.query.clone()).collect());
        self.reporter.look(queries.iter());
        let ends = queries.iter().map(|query| Box::pin(query.await_termination()));
        tokio::select! {
            (result, at, _) = futures::future::select_all(ends) => {
                let running = self.running(|all| all.remove(at));
                let end = if result.is_ok() { End::Done } else { End::Failed };
                self.reporter.ended(&running.query, end).await;
                match result {
                    Err(error) if self.evolve && running.is_outgrown(&error) => {
                        // The batch that failed is planned: it runs again, with more columns.
                        let step = self.library.start_again(running, &error).await;
                        self.follow(step.map_err(|error| in_script(error, &self.script))?);
                    }
                    // The error says which query it is about.
                    result => result?,
                }
            }
            () = tokio::time::sleep(LOOK) => {}
        }
        Ok(())
    }

    /// Stops everything that still runs.
    async fn stop(&self) -> anyhow::Result<()> {
        let stopped = self.library.stop().await;
        for running in self.running(std::mem::take) {
            let end = if running.query.exception().is_none() { End::Stopped } else { End::Failed };
            self.reporter.ended(&running.query, end).await;
        }
        stopped
    }
}
