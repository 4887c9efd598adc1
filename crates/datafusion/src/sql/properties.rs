//! `TBLPROPERTIES`: how the query of a streaming table runs, and options of its sink.

use crate::sql::argument::literal;
use crate::sql::format::TableFormat;
use crate::sql::place::Place;
use crate::sql::token::{Tokens, string};
use datafusion::sql::sqlparser::tokenizer::Token;
use fluvial_core::options::nearest;
use fluvial_core::{OutputMode, Result};
use std::collections::BTreeMap;

/// How a query runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableProperties {
    /// `outputMode`; append if the text does not say.
    pub output_mode: Option<OutputMode>,
    /// `trigger`, as written: `available-now`, `30 seconds`.
    pub trigger: Option<String>,
    /// `queryName`; the table's name if the text does not say.
    pub query_name: Option<String>,
    /// `checkpointLocation`, as written: relative to the script.
    pub checkpoint_location: Option<String>,
    /// `lateRowsTable`: where rows go that come too late.
    pub late_rows_table: Option<String>,
    /// `lateRowsFormat`: what that table is made of; `delta` if the text does not say.
    pub late_rows_format: Option<String>,
    /// Options of the sink, by name: `mergeSchema`, and all that start with `delta.` or `kafka.`.
    pub options: BTreeMap<String, String>,
}

/// The names that every format takes.
const COMMON: [&str; 6] =
    ["outputMode", "trigger", "queryName", "checkpointLocation", "lateRowsTable", "lateRowsFormat"];

/// A property and where it stands.
pub(super) struct Property {
    name: String,
    value: String,
    place: Place,
}

/// Reads `('name' = 'value', ...)`. What the names mean depends on the format, which may follow.
pub(super) fn parse(tokens: &mut Tokens<'_>) -> Result<Vec<Property>> {
    let mut inner = tokens.parenthesized()?;
    let mut properties: Vec<Property> = Vec::new();
    while !inner.is_done() {
        let place = inner.place();
        let name = match string(inner.peek()) {
            Some(text) => {
                let name = text.to_owned();
                inner.next();
                name
            }
            None => inner.dotted("the name of a property")?.join("."),
        };
        if properties.iter().any(|other| other.name.eq_ignore_ascii_case(&name)) {
            return Err(inner.source().error(place, format!("{name} is given twice")));
        }
        inner.expect(&Token::Eq)?;
        let value = literal(&mut inner, "the value of the property")?.to_string();
        properties.push(Property { name, value, place });
        if !inner.punctuation(&Token::Comma) {
            inner.expect_done("the properties")?;
        }
    }
    Ok(properties)
}

/// Reads `('name' = 'value', ...)` as options, whose names somebody else knows.
pub(super) fn options(tokens: &mut Tokens<'_>) -> Result<Vec<(String, String)>> {
    let properties = parse(tokens)?;
    Ok(properties.into_iter().map(|property| (property.name, property.value)).collect())
}

/// Sorts properties by what they mean.
///
/// # Errors
///
/// A name that the format does not know, with the nearest that it knows; a bad output mode.
pub(super) fn typed(
    tokens: &Tokens<'_>,
    format: TableFormat,
    properties: Vec<Property>,
) -> Result<TableProperties> {
    let mut typed = TableProperties::default();
    for Property { name, value, place } in properties {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        if is("outputMode") {
            let mode = value.parse().map_err(|error| tokens.source().point_at(place, &error))?;
            typed.output_mode = Some(mode);
        } else if is("trigger") {
            typed.trigger = Some(value);
        } else if is("queryName") {
            typed.query_name = Some(value);
        } else if is("checkpointLocation") {
            typed.checkpoint_location = Some(value);
        } else if is("lateRowsTable") {
            typed.late_rows_table = Some(value);
        } else if is("lateRowsFormat") {
            typed.late_rows_format = Some(value);
        } else if let Some(option) = format.options().iter().find(|option| is(option)) {
            typed.options.insert((*option).to_owned(), value);
        } else if format.option_prefix().is_some_and(|prefix| starts_with(&name, prefix)) {
            typed.options.insert(name, value);
        } else {
            let known = [&COMMON, format.options()].concat();
            let hint = match nearest(&name, &known) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("a table USING {format} has {}", known.join(", ")),
            };
            let message = format!("unknown property '{name}': {hint}");
            return Err(tokens.source().named_error("UNKNOWN_OPTION", place, message));
        }
    }
    Ok(typed)
}

fn starts_with(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}
