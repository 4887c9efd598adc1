//! `CREATE STREAMING TABLE` and `CREATE VIEW`.

use crate::sql::format::TableFormat;
use crate::sql::place::Place;
use crate::sql::properties;
use crate::sql::relation::{LoweredQuery, TableName};
use crate::sql::statement::{Command, CreateStreamingTable, CreateView, Existing};
use crate::sql::token::{Tokens, is_word, shown};
use arrow::datatypes::Schema;
use datafusion::sql::sqlparser::ast::SetExpr;
use datafusion::sql::sqlparser::tokenizer::Token;
use fluvial_core::ddl::{check_names, parse_ddl};
use fluvial_core::options::nearest;
use fluvial_core::{Error, NameCase, Result};

/// Reads what stands behind CREATE; `query` lowers what stands behind AS.
pub(super) fn parse(
    tokens: &mut Tokens<'_>,
    query: impl FnOnce(&mut Tokens<'_>) -> Result<LoweredQuery>,
) -> Result<Command> {
    let place = tokens.place();
    let refresh = tokens.words(&["OR", "REFRESH"]);
    if tokens.words(&["STREAMING", "TABLE"]) {
        let existing = existing(tokens, refresh)?;
        return streaming_table(tokens, existing, query);
    }
    let replace = !refresh && tokens.words(&["OR", "REPLACE"]);
    let temporary = tokens.word("TEMP") || tokens.word("TEMPORARY");
    if !refresh && tokens.word("VIEW") {
        let existing = existing(tokens, replace)?;
        return view(tokens, existing, query);
    }
    let what = if temporary { "VIEW" } else { "STREAMING TABLE or VIEW" };
    if is_word(tokens.peek(), "TABLE") {
        let message = "tables are created by the query that fills them: write CREATE STREAMING \
                       TABLE name AS SELECT ... FROM STREAM ...";
        return Err(tokens.source().error(place, message));
    }
    Err(tokens.expected(what))
}

fn existing(tokens: &mut Tokens<'_>, replace: bool) -> Result<Existing> {
    let place = tokens.place();
    match (replace, tokens.words(&["IF", "NOT", "EXISTS"])) {
        (false, false) => Ok(Existing::Refuse),
        (true, false) => Ok(Existing::Replace),
        (false, true) => Ok(Existing::Keep),
        (true, true) => {
            let message = "IF NOT EXISTS contradicts OR REFRESH and OR REPLACE";
            Err(tokens.source().error(place, message))
        }
    }
}

fn streaming_table(
    tokens: &mut Tokens<'_>,
    existing: Existing,
    query: impl FnOnce(&mut Tokens<'_>) -> Result<LoweredQuery>,
) -> Result<Command> {
    let name = new_name(tokens)?;
    let columns = if *tokens.peek() == Token::LParen { Some(columns(tokens)?) } else { None };
    let clauses = Clauses::parse(tokens)?;
    let format = clauses.format.map_or(TableFormat::Delta, |(format, _)| format);
    let properties = properties::typed(tokens, format, clauses.properties.unwrap_or_default())?;
    let location = match clauses.location {
        Some((_, place)) if !format.has_location() => {
            let message = format!("a table USING {format} has no LOCATION");
            return Err(tokens.source().error(place, message));
        }
        location => location.map(|(text, _)| text),
    };
    let partition_by = match clauses.partition_by {
        Some((_, place)) if !format.has_location() => {
            let message = format!("a table USING {format} has no partitions");
            return Err(tokens.source().error(place, message));
        }
        partition_by => partition_by.map_or_else(Vec::new, |(columns, _)| columns),
    };
    tokens.expect_word("AS")?;
    let place = tokens.place();
    let query = query(tokens)?;
    if !has_from(&query.query.body) {
        return Err(tokens.source().error(place, "the query of a streaming table needs a FROM"));
    }
    Ok(Command::CreateStreamingTable(Box::new(CreateStreamingTable {
        name,
        existing,
        columns,
        format,
        location,
        partition_by,
        comment: clauses.comment,
        properties,
        query,
    })))
}

/// Whether a query reads anything: a plain name may be a view of a stream, which only the catalog
/// knows.
fn has_from(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => !select.from.is_empty(),
        SetExpr::Query(query) => has_from(&query.body),
        SetExpr::SetOperation { left, right, .. } => has_from(left) || has_from(right),
        _ => false,
    }
}

fn view(
    tokens: &mut Tokens<'_>,
    existing: Existing,
    query: impl FnOnce(&mut Tokens<'_>) -> Result<LoweredQuery>,
) -> Result<Command> {
    let name = new_name(tokens)?;
    tokens.expect_word("AS")?;
    let query = query(tokens)?;
    Ok(Command::CreateView(Box::new(CreateView { name, existing, query })))
}

/// A name of one or two levels.
pub(super) fn new_name(tokens: &mut Tokens<'_>) -> Result<TableName> {
    let place = tokens.place();
    let parts = tokens.dotted("a name")?;
    if parts.len() > 2 {
        let message = "a name has at most two levels: schema.table";
        return Err(tokens.source().error(place, message));
    }
    if parts.iter().any(String::is_empty) {
        return Err(tokens.source().error(place, "a name is not empty"));
    }
    Ok(TableName::new(parts))
}

/// `(name type, ...)`.
fn columns(tokens: &mut Tokens<'_>) -> Result<Schema> {
    let place = tokens.place();
    let mut inner = tokens.parenthesized()?;
    // Token by token, so that comments between columns do not get in the way.
    let words: Vec<String> = inner.rest().iter().map(|token| token.token.to_string()).collect();
    let schema = parse_ddl(&words.join(" ")).and_then(|schema| {
        check_names(&schema, NameCase::Insensitive)?;
        Ok(schema)
    });
    schema.map_err(|error| tokens.source().point_at(place, &error))
}

/// The clauses between the name and AS, each at most once, in any order.
#[derive(Default)]
struct Clauses {
    format: Option<(TableFormat, Place)>,
    location: Option<(String, Place)>,
    partition_by: Option<(Vec<String>, Place)>,
    comment: Option<String>,
    properties: Option<Vec<properties::Property>>,
}

impl Clauses {
    fn parse(tokens: &mut Tokens<'_>) -> Result<Self> {
        let mut clauses = Self::default();
        loop {
            let place = tokens.place();
            let word = shown(tokens.peek());
            let again = if tokens.word("USING") {
                clauses.format.replace((format(tokens)?, place)).is_some()
            } else if tokens.word("LOCATION") {
                let path = tokens.string("the location, in quotes")?.to_owned();
                clauses.location.replace((path, place)).is_some()
            } else if tokens.words(&["PARTITIONED", "BY"]) {
                clauses.partition_by.replace((names(tokens)?, place)).is_some()
            } else if tokens.word("COMMENT") {
                let text = tokens.string("the comment, in quotes")?.to_owned();
                clauses.comment.replace(text).is_some()
            } else if tokens.word("TBLPROPERTIES") {
                clauses.properties.replace(properties::parse(tokens)?).is_some()
            } else if is_word(tokens.peek(), "AS") {
                return Ok(clauses);
            } else {
                return Err(not_a_clause(tokens));
            };
            if again {
                return Err(tokens.source().error(place, format!("{word} is given twice")));
            }
        }
    }
}

fn not_a_clause(tokens: &Tokens<'_>) -> Error {
    let known = ["USING", "LOCATION", "PARTITIONED BY", "COMMENT", "TBLPROPERTIES", "AS"];
    let found = shown(tokens.peek());
    match nearest(&found, &known) {
        Some(near) => {
            let message = format!("expected a clause, found {found}: did you mean {near}?");
            tokens.source().error(tokens.place(), message)
        }
        None => tokens.expected(&known.join(", ")),
    }
}

fn format(tokens: &mut Tokens<'_>) -> Result<TableFormat> {
    let place = tokens.place();
    let name = tokens.name("a format")?;
    TableFormat::by_name(&name).ok_or_else(|| {
        let known = TableFormat::ALL.map(TableFormat::as_str);
        let hint = match nearest(&name, &known) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("use one of {}", known.join(", ")),
        };
        let message = format!("there is no format {name}: {hint}");
        tokens.source().named_error("DATA_SOURCE_NOT_FOUND", place, message)
    })
}

/// `(a, b)`.
fn names(tokens: &mut Tokens<'_>) -> Result<Vec<String>> {
    let mut inner = tokens.parenthesized()?;
    let mut names = vec![inner.name("a column")?];
    while inner.punctuation(&Token::Comma) {
        names.push(inner.name("a column")?);
    }
    inner.expect_done("the columns")?;
    Ok(names)
}
