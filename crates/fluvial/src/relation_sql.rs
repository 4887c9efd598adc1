//! One relation of a query in SQL: a source, a table as a stream, an older version of a table.

use crate::batch_table::BatchTable;
use crate::dataframe::{StreamingDataFrame, with_idle_after};
#[cfg(feature = "delta")]
use crate::delta_table::DeltaTable;
use crate::session::Session;
use crate::settings::SchemaInference;
#[cfg(feature = "delta")]
use crate::stream_reader;
use crate::{formats, script};
use datafusion::catalog::TableProvider;
use datafusion::dataframe::DataFrame;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use fluvial_core::ddl::parse_ddl;
use fluvial_core::options::Options;
use fluvial_core::{Error, Result};
use fluvial_datafusion::from_datafusion;
use fluvial_datafusion::plan::StreamTable;
use fluvial_datafusion::sql::{
    Definition, Reading, Relation, SourceCall, TableName, WatermarkClause,
};
use std::sync::Arc;

/// Plans it, with its watermark.
///
/// # Errors
///
/// `Invalid` or `NotFound` for what it names and is not there.
pub(crate) async fn frame(session: &Session, relation: &Relation) -> Result<DataFrame> {
    let frame = match &relation.definition {
        Definition::Source(call) => source_frame(session, call).await?,
        Definition::Table { name, reading: Reading::Batch, options } if options.is_empty() => {
            session.table(&name.to_string()).await?
        }
        Definition::Table { name, reading: Reading::Batch, options } => {
            older_frame(session, name, options).await?
        }
        Definition::Table { name, reading: Reading::Stream, options } => {
            stream_frame(session, name, options).await?
        }
        Definition::Derived(query) => script::query_frame(session, query).await?,
    };
    match &relation.watermark {
        None => Ok(frame),
        Some(clause) => watermarked(session, frame, clause),
    }
}

/// `name VERSION AS OF n`: a table as it was.
async fn older_frame(
    session: &Session,
    name: &TableName,
    options: &[(String, String)],
) -> Result<DataFrame> {
    #[cfg(feature = "delta")]
    {
        let options = Options::new(options.iter().cloned());
        DeltaTable::for_parts(session, name.parts()).await?.as_of(options).await
    }
    #[cfg(not(feature = "delta"))]
    {
        let _ = (session, options);
        Err(Error::invalid(format!("{name} has no versions: build with the feature delta")))
    }
}

/// `STREAM name`: a view of a stream, or a table that is read as one.
async fn stream_frame(
    session: &Session,
    name: &TableName,
    options: &[(String, String)],
) -> Result<DataFrame> {
    #[cfg(feature = "delta")]
    {
        let by_path = crate::delta_stream::path_of(name.parts()).is_some();
        if !by_path && session.context().table_exist(name.to_string()).map_err(from_datafusion)? {
            let frame = session.table(&name.to_string()).await?;
            if frame.is_streaming() {
                return if options.is_empty() { Ok(frame) } else { Err(view_with_options(name)) };
            }
        }
        let options = Options::new(options.iter().cloned());
        let definition = crate::delta_stream::table(session, name.parts(), options).await?;
        stream_reader::dataframe(session, None, definition)
    }
    #[cfg(not(feature = "delta"))]
    {
        let frame = session.table(&name.to_string()).await?;
        match frame.is_streaming() {
            true if options.is_empty() => Ok(frame),
            true => Err(view_with_options(name)),
            false => Err(Error::invalid(format!("{name} is no stream"))
                .with_condition("STREAMING_TABLE_READ_NOT_SUPPORTED_YET")),
        }
    }
}

fn view_with_options(name: &TableName) -> Error {
    Error::invalid(format!(
        "{name} is a view, and how its stream is read is said inside of it: leave WITH (..) out"
    ))
    .with_condition("OPTION_NOT_SUPPORTED")
}

async fn source_frame(session: &Session, call: &SourceCall) -> Result<DataFrame> {
    let mut options = Options::new(Vec::<(String, String)>::new());
    for (position, argument) in call.arguments.iter().enumerate() {
        let value = argument.value.to_string();
        match &argument.name {
            Some(name) => options.set(name.as_str(), value),
            None if position == 0 => options.set("path", value),
            None => return Err(Error::invalid("only the path may stand without a name")),
        }
    }
    if call.function.starts_with("read_state") {
        return state_frame(session, call, options).await;
    }
    let (format, infer) = match call.function.as_str() {
        "read_files" => {
            let format = options.take("format").unwrap_or_else(|| "parquet".into());
            (format, SchemaInference::Allowed)
        }
        "read_kafka" => ("kafka".into(), SchemaInference::Refused),
        "rate" => ("rate".into(), SchemaInference::Refused),
        _ => ("rate-micro-batch".into(), SchemaInference::Refused),
    };
    let schema = options.take("schema").map(|ddl| parse_ddl(&ddl).map(Arc::new)).transpose()?;
    let definition = match call.reading {
        Reading::Batch if format == "kafka" => formats::kafka_table(session, schema, options)?,
        _ => formats::stream_inferring(session, &format, schema, options, infer).await?,
    };
    let (name, table): (_, Arc<dyn TableProvider>) = match call.reading {
        Reading::Stream => ("stream", Arc::new(StreamTable::new(None, definition))),
        Reading::Batch => ("files", Arc::new(BatchTable::new(definition))),
    };
    let plan = LogicalPlanBuilder::scan(name, provider_as_source(table), None)
        .and_then(LogicalPlanBuilder::build)
        .map_err(from_datafusion)?;
    Ok(DataFrame::new(session.state(), plan))
}

/// `read_state('checkpoint', operator => 'count', batch => 3)`, and `read_state_metadata`.
async fn state_frame(
    session: &Session,
    call: &SourceCall,
    mut options: Options,
) -> Result<DataFrame> {
    let function = &call.function;
    if call.reading == Reading::Stream {
        let message = format!("state does not stream: write {function}(...) without STREAM");
        return Err(Error::invalid(message).with_condition("UNSUPPORTED_STREAMING_TVF"));
    }
    let checkpoint = options.take("path").ok_or_else(|| {
        Error::invalid(format!("{function} needs a checkpoint: {function}('checkpoint')"))
            .with_condition("STDS_REQUIRED_OPTION_UNSPECIFIED")
    })?;
    if function == "read_state_metadata" {
        options.finish(&["path"])?;
        return session.read_state_metadata(&checkpoint).await;
    }
    let all = options.take_prefixed("");
    let reader = session.read_state(checkpoint);
    all.into_iter().fold(reader, |reader, (name, value)| reader.option(&name, value)).load().await
}

/// The relation with its watermark. An expression with a name becomes a new column first.
fn watermarked(session: &Session, frame: DataFrame, clause: &WatermarkClause) -> Result<DataFrame> {
    let delay = clause.delay;
    let expr = session.expr(&clause.expr.to_string(), &frame)?;
    let (frame, column) = match (&clause.name, expr) {
        (None, Expr::Column(column)) => (frame, column.name),
        (Some(name), expr) => {
            (frame.with_column(name, expr).map_err(from_datafusion)?, name.clone())
        }
        (None, expr) => {
            return Err(Error::invalid(format!(
                "the event time {expr} needs a name: WATERMARK {expr} AS name DELAY OF ..."
            ))
            .with_condition("REQUIRES_EXPLICIT_NAME_IN_WATERMARK_CLAUSE"));
        }
    };
    let frame = frame.with_watermark_delay(&column, delay)?;
    match clause.idle_after {
        Some(silence) => with_idle_after(frame, silence),
        None => Ok(frame),
    }
}
