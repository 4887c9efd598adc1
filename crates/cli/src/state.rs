//! `fluvial state`: what queries remember, as tables, and whether it is whole.

mod verify;

pub(crate) use verify::verify;

use crate::args::{ListState, ReadState, Setting};
use crate::exit::{Exit, UsageError};
use crate::output;
use anyhow::Context;
use fluvial::Session;
use fluvial::arrow::array::{AsArray, RecordBatch};
use fluvial::datafusion::prelude::DataFrame;
use fluvial_sinks::TableStyle;
use std::sync::Arc;

/// A session that reads checkpoints.
fn session(settings: &[Setting]) -> anyhow::Result<Session> {
    let session = Session::new().context("cannot set up a session")?;
    for Setting { key, value } in settings {
        session
            .set(key, value)
            .map_err(|error| UsageError::of(format!("--set {key}={value}: {error}")))?;
    }
    Ok(session)
}

/// Prints the state of an operator.
pub(crate) async fn read(args: &ReadState) -> anyhow::Result<Exit> {
    let session = session(&args.settings)?;
    let mut reader = session.read_state(&args.checkpoint);
    let texts = [
        ("operator", &args.operator),
        ("store", &args.store),
        ("side", &args.side),
        ("variable", &args.variable),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            reader = reader.option(name, value);
        }
    }
    if let Some(batch) = args.batch {
        reader = reader.batch(batch);
    }
    for (name, flag) in [("timers", args.timers), ("bytes", args.bytes)] {
        if flag {
            reader = reader.option(name, true);
        }
    }
    print(reader.load().await?, style(&session, args.limit)?).await
}

/// Prints which state there is.
pub(crate) async fn list(args: &ListState) -> anyhow::Result<Exit> {
    let session = session(&[])?;
    print(session.read_state_metadata(&args.checkpoint).await?, style(&session, usize::MAX)?).await
}

fn style(session: &Session, rows_max: usize) -> fluvial_core::Result<TableStyle> {
    Ok(TableStyle { rows_max, width_max: None, zone: session.settings().zone()? })
}

/// Keys and values as columns of their own: `key.page`.
fn flat(rows: &RecordBatch) -> anyhow::Result<RecordBatch> {
    let mut columns = Vec::new();
    for (field, column) in rows.schema().fields().iter().zip(rows.columns()) {
        match column.as_struct_opt() {
            Some(parts) => {
                let each = parts.fields().iter().zip(parts.columns());
                columns.extend(each.map(|(part, column)| {
                    (format!("{}.{}", field.name(), part.name()), Arc::clone(column))
                }));
            }
            None => columns.push((field.name().clone(), Arc::clone(column))),
        }
    }
    Ok(RecordBatch::try_from_iter(columns)?)
}

/// Prints a table; one row more than it may have is read, to say that there are more.
async fn print(frame: DataFrame, style: TableStyle) -> anyhow::Result<Exit> {
    let schema = Arc::clone(frame.schema().inner());
    let frame = match style.rows_max {
        usize::MAX => frame,
        limit => frame.limit(0, Some(limit + 1)).map_err(fluvial::from_datafusion)?,
    };
    let rows = frame.collect().await.map_err(fluvial::from_datafusion)?;
    let heading = flat(&RecordBatch::new_empty(schema))?.schema();
    let rows: Vec<RecordBatch> = rows.iter().map(flat).collect::<anyhow::Result<_>>()?;
    let text = fluvial_sinks::draw(&heading, &rows, style)?;
    output::print(&text).map(|()| Exit::Done)
}
