//! Streaming SQL: runs the statements that [`fluvial_datafusion::sql`] parses.

use crate::dataframe::StreamingDataFrame;
use crate::formats;
use crate::hidden_sql;
use crate::input_file_name;
use crate::late_rows::LateRows;
use crate::session::Session;
use crate::settings::SchemaInference;
use crate::stream_writer::DataStreamWriter;
use arrow::datatypes::Schema;
use datafusion::dataframe::DataFrame;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::LogicalPlanBuilder;
use datafusion::sql::sqlparser::ast::Query;
use fluvial_core::ddl::{ddl_name, parse_ddl};
use fluvial_core::options::Options;
use fluvial_core::{Error, NameCase, OutputMode, Result};
use fluvial_datafusion::plan::StreamTable;
use fluvial_datafusion::sql::{
    Command, CreateStreamingTable, CreateView, Definition, DropTable, Existing, LoweredQuery,
    Maintain, MergeInto, Missing, Reading, Relation, RelationKind, SourceCall, Statement,
    TableName, WatermarkClause, parse_script,
};
use fluvial_datafusion::{dialect, from_datafusion};
use fluvial_engine::{StreamingQuery, Trigger};
use std::sync::Arc;

/// What executing a statement gave.
pub enum Executed {
    /// A query that runs now, under this name.
    Query(String, StreamingQuery),
    /// Rows to read.
    Rows(DataFrame),
    /// Something was done; one line about it.
    Done(String),
}

/// How the streaming queries of a script run, where it does not say itself.
#[derive(Debug, Clone, Default)]
pub struct ScriptOptions {
    /// Below it each query has its checkpoint, under its table's name.
    pub checkpoints: Option<String>,
    /// The trigger.
    pub trigger: Option<Trigger>,
}

impl Session {
    /// Runs one statement of a script.
    ///
    /// # Errors
    ///
    /// `Invalid` for what does not plan, with the place in the script.
    pub async fn execute(
        &self,
        statement: &Statement,
        options: &ScriptOptions,
    ) -> Result<Executed> {
        let run = self.command(&statement.command, options).await;
        // A part of the statement says where it is more exactly.
        run.map_err(|e| if e.message().starts_with("line ") { e } else { e.at(statement.place) })
    }

    async fn command(&self, command: &Command, options: &ScriptOptions) -> Result<Executed> {
        match command {
            Command::CreateStreamingTable(create) => {
                create_streaming_table(self, create, options).await
            }
            Command::CreateView(view) => create_view(self, view).await,
            Command::Query(query) => plan(self, query).await.map(Executed::Rows),
            Command::Merge(merge) => merge_into(self, merge).await.map(Executed::Rows),
            Command::Maintain(work) => maintain(self, work).await,
            Command::Set(option) => {
                self.set(&option.key, &option.value)?;
                Ok(Executed::Done(format!("{} = {}", option.key, option.value)))
            }
            Command::ShowTables => Ok(Executed::Done(self.catalog().names().await?.join("\n"))),
            Command::DescribeTable(name) => describe(self, name).await,
            Command::Drop(drop) => drop_table(self, drop).await,
        }
    }
}

/// Plans one SELECT given as text.
pub(crate) async fn query(session: &Session, text: &str) -> Result<DataFrame> {
    let mut statements = parse_script(text)?;
    match (statements.pop(), statements.is_empty()) {
        (Some(Statement { command: Command::Query(query), .. }), true) => {
            plan(session, &query).await
        }
        (Some(Statement { command: Command::Merge(merge), .. }), true) => {
            merge_into(session, &merge).await
        }
        (Some(statement), true) => Err(Error::invalid(format!(
            "sql() takes a SELECT or a MERGE; run {} with execute()",
            statement.command.name()
        ))),
        _ => Err(Error::invalid("sql() takes one statement")),
    }
}

async fn merge_into(session: &Session, merge: &MergeInto) -> Result<DataFrame> {
    #[cfg(feature = "delta")]
    {
        crate::merge_sql::merge_into(session, merge).await
    }
    #[cfg(not(feature = "delta"))]
    {
        let _ = (session, merge);
        Err(Error::invalid("MERGE changes Delta tables: build with the feature delta"))
    }
}

async fn maintain(session: &Session, maintain: &Maintain) -> Result<Executed> {
    #[cfg(feature = "delta")]
    {
        crate::maintain_sql::maintain(session, maintain).await
    }
    #[cfg(not(feature = "delta"))]
    {
        let _ = (session, maintain);
        Err(Error::invalid("this is about Delta tables: build with the feature delta"))
    }
}

async fn create_streaming_table(
    session: &Session,
    create: &CreateStreamingTable,
    options: &ScriptOptions,
) -> Result<Executed> {
    let table = create.name.to_string();
    if create.existing == Existing::Keep && exists(session, create).await? {
        return Ok(Executed::Done(format!("table {table} is there")));
    }
    let frame = plan(session, &create.query).await?;
    if let Some(columns) = &create.columns {
        check_columns(columns, &frame, session.settings().case)?;
    }
    let properties = &create.properties;
    let name = properties.query_name.clone().unwrap_or_else(|| create.name.parts().join("."));
    let trigger = match &properties.trigger {
        Some(text) => text.parse()?,
        None => options.trigger.unwrap_or_default(),
    };
    let mut writer: DataStreamWriter = frame
        .write_stream()?
        .format(create.format.as_str())
        .output_mode(properties.output_mode.unwrap_or(OutputMode::Append))
        .trigger(trigger)
        .query_name(&name)
        .partition_by(create.partition_by.clone());
    for (option, value) in &properties.options {
        writer = writer.option(option, value);
    }
    let checkpoint = match (&properties.checkpoint_location, &options.checkpoints) {
        (Some(location), _) => Some(location.clone()),
        (None, Some(root)) if create.format.outlives_the_program() => {
            Some(format!("{}/{}", root.trim_end_matches('/'), create.name.parts().join(".")))
        }
        _ => None,
    };
    if let Some(checkpoint) = checkpoint {
        writer = writer.option("checkpointLocation", checkpoint);
    }
    if let Some(location) = &create.location {
        writer = writer.option("path", location);
    }
    if let Some(late) = &properties.late_rows_table {
        let format = properties.late_rows_format.as_deref().unwrap_or("delta");
        writer = writer.late_rows(LateRows::of(late, format));
    }
    if let Some(comment) = &create.comment {
        writer = writer.comment(comment);
    }
    let query = match create.format.has_location() {
        true => writer.to_table(&table).await?,
        false => writer.start().await?,
    };
    Ok(Executed::Query(name, query))
}

/// Whether there is a table of that name.
async fn exists(session: &Session, create: &CreateStreamingTable) -> Result<bool> {
    let name = create.name.to_string();
    match create.format.has_location() {
        true => session.catalog().exists(&name).await,
        false => session.context().table_exist(name.as_str()).map_err(from_datafusion),
    }
}

/// A list of columns says what the query must give.
fn check_columns(columns: &Schema, frame: &DataFrame, case: NameCase) -> Result<()> {
    let line = |name: &str, data_type| format!("{name} {}", ddl_name(data_type));
    let given: Vec<String> =
        frame.schema().fields().iter().map(|f| line(f.name(), f.data_type())).collect();
    let wanted: Vec<String> =
        columns.fields().iter().map(|f| line(f.name(), f.data_type())).collect();
    let same = given.len() == wanted.len()
        && frame.schema().fields().iter().zip(columns.fields()).all(|(given, wanted)| {
            case.same(given.name(), wanted.name())
                && ddl_name(given.data_type()) == ddl_name(wanted.data_type())
        });
    match same {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "the table has the columns ({}), but the query gives ({}): name and cast them in the \
             query, or correct the list",
            wanted.join(", "),
            given.join(", ")
        ))
        .with_condition("STREAMING_TABLE_COLUMNS_MISMATCH")),
    }
}

async fn create_view(session: &Session, view: &CreateView) -> Result<Executed> {
    let frame = plan(session, &view.query).await?;
    let name = view.name.to_string();
    let context = session.context();
    let exists = context.table_exist(name.as_str()).map_err(from_datafusion)?;
    match (exists, view.existing) {
        (true, Existing::Refuse) => {
            return Err(Error::invalid(format!("there is a view or table {name} already"))
                .with_condition("TABLE_OR_VIEW_ALREADY_EXISTS"));
        }
        (true, Existing::Keep) => return Ok(Executed::Done(format!("view {name} is there"))),
        (true, Existing::Replace) => {
            context.deregister_table(name.as_str()).map_err(from_datafusion)?;
        }
        (false, _) => {}
    }
    context.register_table(name.as_str(), frame.into_view()).map_err(from_datafusion)?;
    Ok(Executed::Done(format!("view {name}")))
}

async fn describe(session: &Session, name: &TableName) -> Result<Executed> {
    let frame = session.table(&name.to_string()).await?;
    let lines = frame.schema().fields().iter();
    let lines = lines.map(|field| format!("{} {}", field.name(), ddl_name(field.data_type())));
    let comment = session.catalog().comment(&name.to_string()).await?;
    let comment = comment.map(|comment| format!("-- {comment}"));
    Ok(Executed::Done(comment.into_iter().chain(lines).collect::<Vec<_>>().join("\n")))
}

async fn drop_table(session: &Session, drop: &DropTable) -> Result<Executed> {
    let name = drop.name.to_string();
    let removed = session.context().deregister_table(name.as_str()).map_err(from_datafusion)?;
    if removed.is_some() {
        return Ok(Executed::Done(format!("dropped {name}")));
    }
    let stored = match drop.kind {
        RelationKind::Table => session.catalog().drop_table(&name).await?,
        RelationKind::View if session.catalog().exists(&name).await? => {
            return Err(Error::invalid(format!("{name} is a table: use DROP TABLE"))
                .with_condition("EXPECT_VIEW_NOT_TABLE"));
        }
        RelationKind::View => false,
    };
    match (stored, drop.missing) {
        (true, _) => Ok(Executed::Done(format!("dropped {name}; its files stay"))),
        (false, Missing::Ignore) => Ok(Executed::Done(format!("there is no {name}"))),
        (false, Missing::Refuse) => Err(Error::not_found(format!("there is no table {name}"))
            .with_condition("TABLE_OR_VIEW_NOT_FOUND")),
    }
}

/// Plans a query whose streaming relations stand aside.
///
/// Each relation is planned and given its reserved name for as long as the planning takes; the
/// planner puts the plan in place of the name.
pub(crate) async fn plan(session: &Session, lowered: &LoweredQuery) -> Result<DataFrame> {
    let _alone = session.planning().lock().await;
    let context = session.context();
    let mut registered: Vec<&str> = Vec::new();
    let planned = async {
        for relation in &lowered.relations {
            let frame =
                relation_frame(session, relation).await.map_err(|e| e.at(relation.place))?;
            context
                .register_table(relation.name.as_str(), frame.into_view())
                .map_err(from_datafusion)?;
            registered.push(&relation.name);
        }
        query_frame(session, &lowered.query).await
    }
    .await;
    for name in registered {
        context.deregister_table(name).map_err(from_datafusion)?;
    }
    planned
}

async fn query_frame(session: &Session, query: &Query) -> Result<DataFrame> {
    let mut query = query.clone();
    input_file_name::replace(&mut query);
    let exposed = hidden_sql::expose(session, &mut query).await?;
    let state = session.state();
    let plan = dialect::plan_query(&state, query).await.map_err(from_datafusion);
    for name in exposed {
        session.context().deregister_table(name.as_str()).map_err(from_datafusion)?;
    }
    Ok(DataFrame::new(state, plan?))
}

async fn relation_frame(session: &Session, relation: &Relation) -> Result<DataFrame> {
    let frame = match &relation.definition {
        Definition::Source(call) => source_frame(session, call).await?,
        Definition::Table { name, reading: Reading::Batch } => {
            session.table(&name.to_string()).await?
        }
        Definition::Table { name, reading: Reading::Stream } => stream_frame(session, name).await?,
        Definition::Derived(query) => query_frame(session, query).await?,
    };
    match &relation.watermark {
        None => Ok(frame),
        Some(clause) => watermarked(session, frame, clause),
    }
}

/// `STREAM name`: a view of a stream, or a table that is read as one.
async fn stream_frame(session: &Session, name: &TableName) -> Result<DataFrame> {
    #[cfg(feature = "delta")]
    {
        let by_path = crate::delta_stream::path_of(name.parts()).is_some();
        if !by_path && session.context().table_exist(name.to_string()).map_err(from_datafusion)? {
            let frame = session.table(&name.to_string()).await?;
            if frame.is_streaming() {
                return Ok(frame);
            }
        }
        let definition =
            crate::delta_stream::table(session, name.parts(), Options::default()).await?;
        crate::stream_reader::dataframe(session, None, definition)
    }
    #[cfg(not(feature = "delta"))]
    {
        let frame = session.table(&name.to_string()).await?;
        match frame.is_streaming() {
            true => Ok(frame),
            false => Err(Error::invalid(format!("{name} is no stream"))
                .with_condition("STREAMING_TABLE_READ_NOT_SUPPORTED_YET")),
        }
    }
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
    let (name, table): (_, Arc<dyn datafusion::catalog::TableProvider>) = match call.reading {
        Reading::Stream => ("stream", Arc::new(StreamTable::new(None, definition))),
        Reading::Batch => ("files", Arc::new(crate::batch_table::BatchTable::new(definition))),
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
        (None, datafusion::logical_expr::Expr::Column(column)) => (frame, column.name),
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
        Some(silence) => crate::dataframe::with_idle_after(frame, silence),
        None => Ok(frame),
    }
}
