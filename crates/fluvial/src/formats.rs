//! Formats by name: which source or sink a word like `json` or `delta` means.

use crate::memory_table::MemorySinkTable;
use crate::session::Session;
use crate::settings::SchemaInference;
use arrow::datatypes::SchemaRef;
use chrono_tz::Tz;
use fluvial_core::options::{Options, nearest};
use fluvial_core::{Error, OutputMode, Result, Sink};
use fluvial_datafusion::from_datafusion;
use fluvial_datafusion::plan::{OpenSource, StreamDefinition};
#[cfg(feature = "delta")]
use fluvial_local_store::{Durability, DurableLocal};
use fluvial_sinks::{ConsoleSink, FileOptions, FileSink, MemorySink, NoopSink, Truncate};
use fluvial_sources::{RateMicroBatchSource, RateSource, SocketSource};
use std::sync::Arc;

const STREAM_FORMATS: &[&str] = &[
    "json",
    "csv",
    "text",
    "parquet",
    "avro",
    "orc",
    "cloudFiles",
    "delta",
    "kafka",
    "rate",
    "rate-micro-batch",
    "socket",
];
const SINK_FORMATS: &[&str] = &[
    "delta", "parquet", "json", "csv", "text", "avro", "orc", "kafka", "memory", "console", "noop",
];

/// Describes a stream of a format.
pub(crate) async fn stream(
    session: &Session,
    format: &str,
    schema: Option<SchemaRef>,
    options: Options,
) -> Result<Arc<dyn StreamDefinition>> {
    let infer = session.settings().schema_inference;
    stream_inferring(session, format, schema, options, infer).await
}

/// The same, with a word on whether the schema may be found in the files.
pub(crate) async fn stream_inferring(
    session: &Session,
    format: &str,
    schema: Option<SchemaRef>,
    mut options: Options,
    infer: SchemaInference,
) -> Result<Arc<dyn StreamDefinition>> {
    let name = format.to_ascii_lowercase();
    match name.as_str() {
        "rate" => {
            refuse_schema(format, schema.as_ref())?;
            let source = RateSource::new(session.clock(), options)?;
            Ok(Arc::new(OpenSource(Arc::new(source))))
        }
        "rate-micro-batch" | "rate_micro_batch" => {
            refuse_schema(format, schema.as_ref())?;
            Ok(Arc::new(OpenSource(Arc::new(RateMicroBatchSource::new(options)?))))
        }
        "socket" => {
            refuse_schema(format, schema.as_ref())?;
            Ok(Arc::new(OpenSource(Arc::new(SocketSource::new(session.clock(), options)?))))
        }
        #[cfg(feature = "delta")]
        "delta" => crate::delta_stream::stream(session, schema, options).await,
        "kafka" => {
            refuse_schema(format, schema.as_ref())?;
            crate::kafka::stream(session, options)
        }
        _ => {
            if !crate::files::FORMATS.contains(&name.as_str()) {
                return Err(unknown("source", format, STREAM_FORMATS));
            }
            let Some(path) = options.take("path") else {
                return Err(Error::invalid("a path is needed: load(path), or option \"path\"")
                    .with_condition("PATH_NOT_SPECIFIED"));
            };
            crate::files::stream(session, &name, &path, schema, options, infer).await
        }
    }
}

/// Topics to read once.
pub(crate) fn kafka_table(
    session: &Session,
    schema: Option<SchemaRef>,
    options: Options,
) -> Result<Arc<dyn StreamDefinition>> {
    refuse_schema("kafka", schema.as_ref())?;
    crate::kafka::table(session, options)
}

fn refuse_schema(format: &str, schema: Option<&SchemaRef>) -> Result<()> {
    match schema {
        None => Ok(()),
        Some(_) => Err(Error::invalid(format!("{format} has its own schema: give none"))),
    }
}

fn unknown(what: &str, format: &str, known: &[&str]) -> Error {
    let hint = match nearest(format, known) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("there are {}", known.join(", ")),
    };
    Error::invalid(format!("unknown {what} format {format:?}: {hint}"))
        .with_condition("DATA_SOURCE_NOT_FOUND")
}

/// A sink, and what it means for the query.
pub(crate) struct Output {
    pub(crate) sink: Arc<dyn Sink>,
    /// How long what it wrote lasts.
    pub(crate) lasting: Lasting,
    /// Whether it keeps rows that somebody may read later.
    pub(crate) keeps_rows: bool,
}

/// How long the output of a sink lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lasting {
    /// It outlives the process: the query needs a checkpoint that does too.
    BeyondTheProcess,
    /// It goes with the process.
    WithTheProcess,
}

impl Output {
    /// A sink of the user's: it is taken at its word.
    pub(crate) fn durable(sink: Arc<dyn Sink>) -> Self {
        Self { sink, lasting: Lasting::BeyondTheProcess, keeps_rows: true }
    }
}

/// What a sink is asked for.
pub(crate) struct SinkRequest<'a> {
    pub(crate) session: &'a Session,
    pub(crate) format: &'a str,
    pub(crate) name: Option<&'a str>,
    pub(crate) partition_by: Vec<String>,
    #[cfg_attr(not(feature = "delta"), allow(dead_code, reason = "only Delta tables take it"))]
    pub(crate) comment: Option<String>,
    pub(crate) mode: OutputMode,
    pub(crate) schema: &'a SchemaRef,
    /// Whether only some of the batches are published.
    pub(crate) gaps: bool,
    /// The name by which a Delta table remembers what was written, if it is not the query's.
    #[cfg_attr(not(feature = "delta"), allow(dead_code, reason = "only Delta tables take it"))]
    pub(crate) app: Option<String>,
}

/// Makes the sink of a format.
pub(crate) async fn sink(request: SinkRequest<'_>, options: Options) -> Result<Output> {
    let output = match request.format.to_ascii_lowercase().as_str() {
        "memory" => memory(&request, options)?,
        "console" => console(options, request.session.settings().zone()?)?,
        "noop" => {
            options.finish(&[])?;
            let sink = Arc::new(NoopSink::new());
            Output { sink, lasting: Lasting::WithTheProcess, keeps_rows: false }
        }
        "parquet" | "json" | "csv" | "text" | "avro" | "orc" => files(&request, options)?,
        "kafka" => Output::durable(crate::kafka::sink(options)?),
        #[cfg(feature = "delta")]
        "delta" => delta(&request, options)?,
        _ => return Err(unknown("sink", request.format, SINK_FORMATS)),
    };
    if !output.sink.modes().contains(&request.mode) {
        let modes: Vec<&str> = output.sink.modes().iter().map(|mode| mode.as_str()).collect();
        return Err(Error::invalid(format!(
            "output mode {} is not supported by the sink {}: use {}",
            request.mode,
            request.format,
            modes.join(" or ")
        ))
        .with_condition("STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE"));
    }
    Ok(output)
}

fn memory(request: &SinkRequest<'_>, options: Options) -> Result<Output> {
    options.finish(&[])?;
    let Some(name) = request.name else {
        return Err(Error::invalid(
            "a memory sink needs a query name: its table has that name; use query_name(...)",
        )
        .with_condition("QUERY_NAME_NOT_SPECIFIED"));
    };
    let sink = MemorySink::new(name);
    let sink = Arc::new(if request.gaps { sink.with_gaps() } else { sink });
    let table = MemorySinkTable::new(Arc::clone(&sink), Arc::clone(request.schema));
    let context = request.session.context();
    context.deregister_table(name).map_err(from_datafusion)?;
    context.register_table(name, Arc::new(table)).map_err(from_datafusion)?;
    Ok(Output { sink, lasting: Lasting::WithTheProcess, keeps_rows: true })
}

fn console(mut options: Options, zone: Tz) -> Result<Output> {
    let mut sink = ConsoleSink::stdout().with_zone(zone);
    if let Some(rows) = options.take_positive("numRows")? {
        sink = sink.with_rows_max(usize::try_from(rows.get()).unwrap_or(usize::MAX));
    }
    if let Some(truncate) = options.take_bool("truncate")? {
        sink = sink.with_truncate(if truncate { Truncate::At(20) } else { Truncate::Never });
    }
    options.finish(&["numRows", "truncate"])?;
    Ok(Output { sink: Arc::new(sink), lasting: Lasting::WithTheProcess, keeps_rows: false })
}

fn path(options: &mut Options) -> Result<String> {
    options.take("path").ok_or_else(|| {
        Error::invalid("a path is needed: option(\"path\", ...), or start_at(path)")
            .with_condition("PATH_NOT_SPECIFIED")
    })
}

fn files(request: &SinkRequest<'_>, mut options: Options) -> Result<Output> {
    let place = request.session.storage().open(&path(&mut options)?)?;
    // As in Spark, what a user describes is in the session's zone, and so are names of folders.
    if options.peek("timeZone").is_none() {
        options.set("timeZone", request.session.settings().timezone);
    }
    let options = FileOptions::parse(request.format, options, request.partition_by.clone())?;
    let shown = place.shown();
    let sink = FileSink::new(place.store, place.path, options).shown_as(shown);
    Ok(Output::durable(Arc::new(sink)))
}

#[cfg(feature = "delta")]
fn delta(request: &SinkRequest<'_>, mut options: Options) -> Result<Output> {
    use fluvial_delta::{DeltaOptions, DeltaSink};
    let path = path(&mut options)?;
    let location = delta_location(request.session, &path)?;
    let mut options = DeltaOptions::parse(options, request.partition_by.clone())?;
    options.comment.clone_from(&request.comment);
    options.app.clone_from(&request.app);
    let compile = crate::expressions::compile(request.session.state());
    let sink = DeltaSink::new(location, options).with_expressions(compile);
    Ok(Output::durable(Arc::new(sink)))
}

/// A Delta table's place, with the session's store for local paths, which syncs what it writes.
#[cfg(feature = "delta")]
pub(crate) fn delta_location(
    session: &Session,
    path: &str,
) -> Result<fluvial_delta::TableLocation> {
    let storage = session.storage();
    let url = storage.url(path)?;
    let location = fluvial_delta::TableLocation::parse(url.as_str())?;
    if url.scheme() == "file" {
        let root = DurableLocal::open("/", Durability::Synced)?
            .with_offload(Arc::new(|work| drop(tokio::task::spawn_blocking(work))));
        return Ok(location.with_store(Arc::new(root)));
    }
    // The same store as the checkpoint's: one set of options, and its create-if-absent elects.
    Ok(location.with_store(storage.root(&url)?))
}

/// A Delta table to read once.
#[cfg(feature = "delta")]
pub(crate) async fn delta_table(
    session: &Session,
    path: &str,
    version: fluvial_delta::TableVersion,
) -> Result<Arc<dyn datafusion::catalog::TableProvider>> {
    fluvial_delta::table_provider(&delta_location(session, path)?, version).await
}
