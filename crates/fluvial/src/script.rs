//! Streaming SQL: runs the statements that [`fluvial_datafusion::sql`] parses.

use crate::dataframe::StreamingDataFrame;
use crate::hidden_sql;
use crate::input_file_name;
use crate::late_rows::LateRows;
use crate::relation_sql;
use crate::session::Session;
use crate::stream_writer::DataStreamWriter;
use arrow::datatypes::Schema;
use datafusion::dataframe::DataFrame;
use datafusion::sql::sqlparser::ast::Query;
use fluvial_core::ddl::ddl_name;
use fluvial_core::{Error, NameCase, OutputMode, Result};
use fluvial_datafusion::sql::{
    Command, CreateStreamingTable, CreateView, DropTable, Existing, LoweredQuery, Maintain,
    MergeInto, Missing, RelationKind, Statement, TableName, parse_script,
};
use fluvial_datafusion::{dialect, from_datafusion};
use fluvial_engine::{StreamingQuery, Trigger};

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
                relation_sql::frame(session, relation).await.map_err(|e| e.at(relation.place))?;
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

pub(crate) async fn query_frame(session: &Session, query: &Query) -> Result<DataFrame> {
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
