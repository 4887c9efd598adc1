//! The command line.

use clap::{Args as ClapArgs, Parser, Subcommand};
use fluvial::Trigger;
use std::path::PathBuf;

/// Structured streaming in SQL: exactly-once pipelines from one file.
#[derive(Debug, Parser)]
#[command(name = "fluvial", version, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the statements of a file of streaming SQL.
    #[command(long_about = RUN, after_help = RUN_EXAMPLES)]
    Run(Run),
    /// Look into checkpoints.
    Checkpoint {
        #[command(subcommand)]
        command: CheckpointCommand,
    },
    /// Look into what queries remember.
    State {
        #[command(subcommand)]
        command: StateCommand,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum CheckpointCommand {
    /// Show batches, offsets, watermarks and state, and what the next run will do.
    #[command(long_about = SHOW)]
    Show(Show),
}

#[derive(Debug, Subcommand)]
pub(crate) enum StateCommand {
    /// Show which stores a checkpoint has, and what can be read of them.
    List(ListState),
    /// Print the state of an operator as a table.
    #[command(long_about = READ, after_help = READ_EXAMPLES)]
    Read(ReadState),
    /// Read and check every byte that a checkpoint references.
    #[command(long_about = VERIFY)]
    Verify(VerifyState),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ListState {
    /// The checkpoint's folder: a path or a URL (s3://, gs://, az://).
    pub(crate) checkpoint: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ReadState {
    /// The checkpoint's folder: a path or a URL (s3://, gs://, az://).
    pub(crate) checkpoint: String,
    /// The operator, by its name or position; needed if there are several.
    #[arg(long, value_name = "NAME")]
    pub(crate) operator: Option<String>,
    /// The store of the operator [default: its first].
    #[arg(long, value_name = "NAME")]
    pub(crate) store: Option<String>,
    /// The state after this batch [default: the newest].
    #[arg(long, value_name = "N")]
    pub(crate) batch: Option<u64>,
    /// The side of a join: left or right.
    #[arg(long, value_name = "SIDE")]
    pub(crate) side: Option<String>,
    /// A variable of a processor.
    #[arg(long, value_name = "NAME")]
    pub(crate) variable: Option<String>,
    /// The timers of a processor.
    #[arg(long)]
    pub(crate) timers: bool,
    /// Keys and values as they are stored.
    #[arg(long)]
    pub(crate) bytes: bool,
    /// The most rows to print.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) limit: usize,
    /// Set a setting, such as storage.aws_region; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
    pub(crate) settings: Vec<Setting>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct VerifyState {
    /// The checkpoint's folder, or one that holds several: a path or a URL (s3://, gs://, az://).
    pub(crate) checkpoint: String,
    /// Set a setting, such as storage.aws_region; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
    pub(crate) settings: Vec<Setting>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Run {
    /// The file. Paths in it are relative to its folder.
    pub(crate) file: PathBuf,
    /// Keep each table's checkpoint in DIR/<table> [default: .fluvial/checkpoints beside FILE].
    #[arg(long, value_name = "DIR")]
    pub(crate) checkpoint: Option<String>,
    /// When batches run: available-now, once, default, or an interval such as 30s. Overrides what
    /// the file says; where neither says anything it is available-now.
    #[arg(long, value_name = "TRIGGER")]
    pub(crate) trigger: Option<Trigger>,
    /// Go on with a table whose source has found new columns, with the new schema, instead of
    /// ending with an error.
    #[arg(long)]
    pub(crate) evolve: bool,
    /// Set a setting, as SET does in the file; may be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = setting)]
    pub(crate) settings: Vec<Setting>,
}

/// A setting from the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) key: String,
    pub(crate) value: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Show {
    /// The checkpoint's folder, or one that holds several: a path or a URL (s3://, gs://, az://).
    pub(crate) dir: String,
    /// How many batches to show, the newest ones.
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) batches: usize,
}

fn setting(text: &str) -> Result<Setting, String> {
    let (key, value) =
        text.split_once('=').ok_or("write it as KEY=VALUE, for example state.partitions=4")?;
    let (key, value) = (key.trim(), value.trim());
    if key.is_empty() {
        return Err("the name of the setting is missing".to_owned());
    }
    Ok(Setting { key: key.to_owned(), value: value.to_owned() })
}

const EXAMPLES: &str = "\
Examples:
  fluvial run pipeline.sql                  process what has arrived, then end
  fluvial run pipeline.sql --trigger 30s    go on every 30 seconds until Ctrl-C
  fluvial checkpoint show .fluvial/checkpoints/page_views
                                            where a pipeline stands, and what runs next

A pipeline is a file of SQL:

  CREATE STREAMING TABLE page_views USING delta LOCATION 'out/page_views' AS
  SELECT window(event_time, '5 minutes') AS w, page, count(*) AS views
  FROM STREAM read_files('landing/clicks', format => 'json',
         schema => 'page string, event_time timestamp')
  WATERMARK event_time DELAY OF INTERVAL 10 MINUTES
  GROUP BY 1, 2;

  SELECT * FROM page_views;

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 another run has taken over.";

const RUN: &str = "\
Run the statements of a file of streaming SQL.

Every CREATE STREAMING TABLE starts a query; they run side by side. A SELECT, and everything else \
that reads tables, runs when the queries above it have ended, and its rows are printed.

Each query remembers in its checkpoint what it has done. Stop it at any moment, by Ctrl-C or by \
pulling the plug: the next run goes on where this one was, and every row counts exactly once. \
When nothing new has arrived it says so.

On a terminal the progress is shown live; elsewhere each batch is a line of JSON on the standard \
output, with the fields of Spark's StreamingQueryProgress.";

const RUN_EXAMPLES: &str = "\
Examples:
  fluvial run pipeline.sql
  fluvial run pipeline.sql --checkpoint s3://bucket/checkpoints
  fluvial run pipeline.sql --trigger '1 minute' --set state.partitions=8
  fluvial run pipeline.sql | grep '^{' | jq .numInputRows

TBLPROPERTIES of a table: 'outputMode' = 'append' | 'update' | 'complete',
'trigger' = 'available-now' | 'once' | '30 seconds', 'queryName', 'checkpointLocation'.
Formats after USING: delta (the default), parquet, json, csv, text, memory, console, noop,
and avro, orc and kafka in a program that is built with them.

To start over, remove the checkpoint and the table's location, both.";

const SHOW: &str = "\
Show batches, offsets, watermarks and state, and what the next run will do.

Only reads, so it is safe while a query runs. Entries that are damaged are named, and then the \
exit code is 1.";

const READ: &str = "\
Print the state of an operator as a table.

A row for each key, with the columns key and value, the partition and the key group. Of a join \
the rows of one side are shown (--side), of a processor a variable (--variable) or its timers \
(--timers). Any batch that is still retained can be read (--batch). Only reads, so it is safe \
while a query runs.";

const READ_EXAMPLES: &str = "\
Examples:
  fluvial state list .fluvial/checkpoints/page_views
  fluvial state read .fluvial/checkpoints/page_views
  fluvial state read s3://bucket/cp --operator join --side left --batch 41

In SQL:
  SELECT key.page, value FROM read_state('cp', operator => 'aggregate', batch => 3)";

const VERIFY: &str = "\
Read and check every byte that a checkpoint references.

Plans, commits, what sources wrote beside them, and the state of every retained batch are read \
again and compared with their checksums. What is damaged or missing is named, with its place in \
the file, and then the exit code is 1. Only reads. While a query runs, old state may go away under \
it and be called missing: then verify again.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use clap::error::ErrorKind;
    use std::time::Duration;

    fn run(args: &[&str]) -> Result<Run, clap::Error> {
        let all = ["fluvial", "run"].iter().chain(args);
        Args::try_parse_from(all).map(|args| match args.command {
            Command::Run(run) => run,
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_file_is_enough() {
        let run = run(&["dir/pipeline.sql"]).unwrap();
        assert_eq!(run.file, PathBuf::from("dir/pipeline.sql"));
        assert_eq!((run.checkpoint, run.trigger, run.settings), (None, None, Vec::new()));
    }

    #[test]
    fn options_are_typed() {
        let args = ["p.sql", "--checkpoint", "cp", "--trigger", "30s", "--set", "a.b=c=d"];
        let run = run(&[&args[..], &["--set", " timezone = UTC "]].concat()).unwrap();
        assert_eq!(run.checkpoint.as_deref(), Some("cp"));
        assert_eq!(run.trigger, Some(Trigger::ProcessingTime(Duration::from_secs(30))));
        let setting = |key: &str, value: &str| Setting { key: key.into(), value: value.into() };
        assert_eq!(run.settings, [setting("a.b", "c=d"), setting("timezone", "UTC")]);
        for text in ["available-now", "once", "default"] {
            assert!(super::tests::run(&["p.sql", "--trigger", text]).is_ok(), "{text}");
        }
    }

    #[test]
    fn mistakes_are_usage_errors() {
        for (args, expected) in [
            (vec![], "FILE"),
            (vec!["p.sql", "--trigger", "continuous"], "not supported"),
            (vec!["p.sql", "--trigger", "soon"], "none of default, once, available-now"),
            (vec!["p.sql", "--set", "a"], "write it as KEY=VALUE"),
            (vec!["p.sql", "--set", "=a"], "the name of the setting is missing"),
            (vec!["p.sql", "--chekpoint", "x"], "'--checkpoint'"),
        ] {
            let error = run(&args).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{args:?}");
            assert!(error.to_string().contains(expected), "{args:?}\n{error}");
        }
    }

    #[test]
    fn help_teaches() {
        let error = Args::try_parse_from(["fluvial", "--help"]).unwrap_err();
        assert_eq!((error.kind(), error.exit_code()), (ErrorKind::DisplayHelp, 0));
        let help = error.to_string();
        for part in ["CREATE STREAMING TABLE", "fluvial run pipeline.sql", "Exit codes: 0 done"] {
            assert!(help.contains(part), "{part}");
        }
    }

    #[test]
    fn a_checkpoint_is_shown_by_its_folder() {
        let args = Args::try_parse_from(["fluvial", "checkpoint", "show", "dir"]).unwrap();
        let Command::Checkpoint { command: CheckpointCommand::Show(show) } = args.command else {
            panic!("{args:?}");
        };
        assert_eq!((show.dir.as_str(), show.batches), ("dir", 10));
    }
}
