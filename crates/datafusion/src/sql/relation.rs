//! Queries that DataFusion can plan, and the relations that it cannot.

use crate::sql::argument::Argument;
use crate::sql::place::Place;
use datafusion::sql::sqlparser::ast::{Expr, ObjectNamePart, Query, visit_relations};
use fluvial_core::EventDuration;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

/// A query whose streaming relations stand aside.
///
/// In `query` and in each [`Definition::Derived`], every relation that DataFusion's planner does
/// not know is the name of an entry of `relations`. An entry names only entries before it, so
/// that planning them in order finds everything planned.
#[derive(Debug, Clone, PartialEq)]
pub struct LoweredQuery {
    /// The query.
    pub query: Query,
    /// What the unknown names in it mean.
    pub relations: Vec<Relation>,
}

impl LoweredQuery {
    /// The relation with a name.
    pub fn relation(&self, name: &str) -> Option<&Relation> {
        self.relations.iter().find(|relation| relation.name == name)
    }

    /// The tables and views that it names, in lower case and without their schemas. A name may
    /// also be that of a WITH query.
    pub fn table_names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        let mut collect = |query: &Query| {
            let _: ControlFlow<()> = visit_relations(query, |name| {
                if let Some(ident) = name.0.last().and_then(ObjectNamePart::as_ident) {
                    names.insert(ident.value.to_lowercase());
                }
                ControlFlow::Continue(())
            });
        };
        collect(&self.query);
        for relation in &self.relations {
            if let Definition::Derived(query) = &relation.definition {
                collect(query);
            }
        }
        for relation in &self.relations {
            names.remove(&relation.name);
            if let Definition::Table { name, .. } = &relation.definition {
                names.insert(name.table().to_lowercase());
            }
        }
        names
    }

    /// Whether the text itself names a stream. A table in it may still be a view of one.
    pub fn names_a_stream(&self) -> bool {
        self.relations.iter().any(|relation| match &relation.definition {
            Definition::Source(call) => call.reading == Reading::Stream,
            Definition::Table { reading, .. } => *reading == Reading::Stream,
            Definition::Derived(_) => false,
        })
    }
}

/// One relation that stands aside.
#[derive(Debug, Clone, PartialEq)]
pub struct Relation {
    /// Its name in the query: unique, and reserved for this.
    pub name: String,
    /// What it is.
    pub definition: Definition,
    /// The watermark that is defined on it.
    pub watermark: Option<WatermarkClause>,
    /// Where it stands.
    pub place: Place,
}

/// What a [`Relation`] is.
#[derive(Debug, Clone, PartialEq)]
pub enum Definition {
    /// `read_files(...)`, `STREAM rate(...)`: a source with options.
    Source(SourceCall),
    /// `STREAM name`, a table with a watermark on it, or one of its older versions.
    Table {
        /// Its name.
        name: TableName,
        /// Whether the text says that it is a stream.
        reading: Reading,
        /// How it is read: what WITH says behind a stream, `versionAsOf` or `timestampAsOf` of a
        /// table.
        options: Vec<(String, String)>,
    },
    /// A query with a watermark on it.
    Derived(Box<Query>),
}

/// Whether a relation is read once, or for as long as there are new rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// What is there now.
    Batch,
    /// `STREAM`: everything that comes.
    Stream,
}

/// A call of a table function that is a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceCall {
    /// The function, in lower case: `read_files`, `rate`.
    pub function: String,
    /// Its arguments, in the order of the text.
    pub arguments: Vec<Argument>,
    /// Whether it is a stream.
    pub reading: Reading,
}

/// `WATERMARK expr [AS name] DELAY OF interval`.
#[derive(Debug, Clone, PartialEq)]
pub struct WatermarkClause {
    /// The event time.
    pub expr: Expr,
    /// The name of the column that it becomes; without one `expr` is a column.
    pub name: Option<String>,
    /// How late events may come.
    pub delay: EventDuration,
    /// After how long a silence of its source the other inputs go on without it.
    pub idle_after: Option<Duration>,
    /// Where it stands.
    pub place: Place,
}

/// The name of a table: `clicks`, `schema.clicks`, `catalog.schema.clicks`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableName {
    parts: Vec<String>,
}

impl TableName {
    /// From its parts, the table last.
    pub(super) fn new(parts: Vec<String>) -> Self {
        Self { parts }
    }

    /// The table itself.
    pub fn table(&self) -> &str {
        self.parts.last().map_or("", String::as_str)
    }

    /// The schema that it is in, if the text says so.
    pub fn schema(&self) -> Option<&str> {
        self.parts.len().checked_sub(2).map(|at| self.parts[at].as_str())
    }

    /// All parts, the table last.
    pub fn parts(&self) -> &[String] {
        &self.parts
    }
}

impl fmt::Display for TableName {
    /// As SQL reads it: parts that are not plain words stand in backticks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, part) in self.parts.iter().enumerate() {
            let dot = if i == 0 { "" } else { "." };
            let plain = part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
                && !part.starts_with(|c: char| c.is_ascii_digit())
                && !part.is_empty();
            if plain {
                write!(f, "{dot}{part}")?;
            } else {
                write!(f, "{dot}`{}`", part.replace('`', "``"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_print_as_sql_reads_them() {
        let name = |parts: &[&str]| TableName::new(parts.iter().map(|p| (*p).to_owned()).collect());
        assert_eq!(name(&["clicks"]).to_string(), "clicks");
        assert_eq!(name(&["web", "5m clicks"]).to_string(), "web.`5m clicks`");
        assert_eq!(name(&["a`b"]).to_string(), "`a``b`");
        assert_eq!(name(&["c", "s", "t"]).schema(), Some("s"));
        assert_eq!(name(&["t"]).schema(), None);
    }
}
