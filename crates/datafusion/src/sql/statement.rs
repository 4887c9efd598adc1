//! Statements as values.

use crate::sql::format::TableFormat;
use crate::sql::maintain::{Maintain, Maintenance};
use crate::sql::merge::MergeInto;
use crate::sql::place::Place;
use crate::sql::properties::TableProperties;
use crate::sql::relation::{LoweredQuery, TableName};
use arrow::datatypes::Schema;

/// One statement of a script.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// What to do.
    pub command: Command,
    /// The text, without the semicolon.
    pub text: String,
    /// Where it starts.
    pub place: Place,
}

/// What a [`Statement`] does.
#[derive(Debug, Clone, PartialEq)]
pub enum Command {
    /// `CREATE STREAMING TABLE ... AS SELECT ...`: starts a query.
    CreateStreamingTable(Box<CreateStreamingTable>),
    /// `CREATE VIEW ... AS SELECT ...`: names a query, of streams or of tables.
    CreateView(Box<CreateView>),
    /// `SELECT ...`: reads once and shows the rows.
    Query(Box<LoweredQuery>),
    /// `MERGE INTO ...`: changes a table.
    Merge(Box<MergeInto>),
    /// `OPTIMIZE`, `VACUUM`, `DESCRIBE HISTORY`.
    Maintain(Maintain),
    /// `SET key = value`.
    Set(SetOption),
    /// `SHOW TABLES`.
    ShowTables,
    /// `DESCRIBE [TABLE] name`.
    DescribeTable(TableName),
    /// `DROP TABLE` or `DROP VIEW`.
    Drop(DropTable),
}

impl Command {
    /// The words that it starts with, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::CreateStreamingTable(_) => "CREATE STREAMING TABLE",
            Self::CreateView(_) => "CREATE VIEW",
            Self::Query(_) => "SELECT",
            Self::Merge(_) => "MERGE",
            Self::Maintain(maintain) => match maintain.work {
                Maintenance::Optimize => "OPTIMIZE",
                Maintenance::Vacuum { .. } => "VACUUM",
                Maintenance::History { .. } => "DESCRIBE HISTORY",
            },
            Self::Set(_) => "SET",
            Self::ShowTables => "SHOW TABLES",
            Self::DescribeTable(_) => "DESCRIBE TABLE",
            Self::Drop(drop) => match drop.kind {
                RelationKind::Table => "DROP TABLE",
                RelationKind::View => "DROP VIEW",
            },
        }
    }
}

/// `CREATE STREAMING TABLE`: a query and where its rows go.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateStreamingTable {
    /// The table: one or two levels.
    pub name: TableName,
    /// What happens if it exists.
    pub existing: Existing,
    /// The columns, if the text lists them: the query must give the same.
    pub columns: Option<Schema>,
    /// The kind of sink; delta without USING.
    pub format: TableFormat,
    /// Where the rows lie, as written: relative to the script.
    pub location: Option<String>,
    /// The columns that name folders.
    pub partition_by: Vec<String>,
    /// The description.
    pub comment: Option<String>,
    /// How the query runs.
    pub properties: TableProperties,
    /// The query.
    pub query: LoweredQuery,
}

/// What CREATE does if there is one already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// A table that another query made is an error; one's own goes on.
    Refuse,
    /// `OR REFRESH`, `OR REPLACE`: goes on with it, or takes its place.
    Replace,
    /// `IF NOT EXISTS`: nothing happens.
    Keep,
}

/// `CREATE VIEW`.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateView {
    /// The view: one or two levels.
    pub name: TableName,
    /// What happens if it exists.
    pub existing: Existing,
    /// The query, planned anew wherever the view is read.
    pub query: LoweredQuery,
}

/// `SET key = value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetOption {
    /// The setting.
    pub key: String,
    /// Its new value.
    pub value: String,
}

/// `DROP TABLE [IF EXISTS] name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropTable {
    /// What is dropped.
    pub name: TableName,
    /// Whether it is a table or a view.
    pub kind: RelationKind,
    /// What happens if there is none.
    pub missing: Missing,
}

/// What DROP drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelationKind {
    /// A table.
    Table,
    /// A view.
    View,
}

/// What DROP does if there is nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// It is an error.
    Refuse,
    /// `IF EXISTS`: nothing happens.
    Ignore,
}
