//! Streaming SQL: statements that DataFusion does not know.
//!
//! ```sql
//! CREATE STREAMING TABLE page_views_5m USING delta LOCATION 'out/page_views_5m' AS
//! SELECT window(event_time, '5 minutes') AS w, page, count(*) AS views
//! FROM STREAM read_files('landing/clicks', format => 'json')
//!      WATERMARK event_time DELAY OF INTERVAL 10 MINUTES
//! GROUP BY 1, 2;
//! ```
//!
//! [`parse_script`] turns text into [`Statement`]s. What is new, stands in typed values; queries
//! stay those of sqlparser, with every relation that DataFusion cannot plan set aside
//! ([`LoweredQuery`]). Nothing here knows tables, types or functions, and nothing here runs.

mod argument;
mod create;
mod format;
mod from;
mod limits;
mod lower;
mod maintain;
mod merge;
mod place;
mod properties;
mod relation;
mod script;
mod statement;
#[cfg(test)]
mod tests;
mod token;
mod watermark;

pub use argument::{Argument, Literal};
pub use format::TableFormat;
pub use maintain::{Maintain, Maintenance};
pub use merge::{MergeInto, MergeIntoAction, MergeIntoClause, MergeSource, RowMatch};
pub use place::Place;
pub use properties::TableProperties;
pub use relation::{
    Definition, LoweredQuery, Reading, Relation, SourceCall, TableName, WatermarkClause,
};
pub use script::parse_script;
pub use statement::{
    Command, CreateStreamingTable, CreateView, DropTable, Existing, Missing, RelationKind,
    SetOption, Statement,
};
