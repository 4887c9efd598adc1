//! How Spark writes expressions: literals, types, operators and names.
//!
//! Text becomes a plan in four steps, each of which this module supplies:
//!
//! 1. [`SparkDialect`] lets sqlparser read what only Spark writes (`1.5D`, `interval 1 hour 30
//!    minutes`, `cast(x as array<string>)`, `a div b`).
//! 2. [`lower_query`] and [`lower_expression`] rewrite the syntax tree: every literal gets Spark's
//!    type, every column of a SELECT Spark's name.
//! 3. An expression planner gives operators Spark's types and ANSI behaviour.
//! 4. Analyzer rules do the same for expressions that were not written in SQL. What the optimizer
//!    merges is put in order after it.
//!
//! [`plan_query`] and [`parse_expression`] do all of it. They need a session made by
//! [`session_state_builder`] or [`configure`].

mod analyzer;
pub(crate) mod chains;
mod compare;
mod extension;
mod fields;
mod frames;
mod generators;
mod grouping_id;
mod guard;
mod guarded_filters;
mod lateral_alias;
mod like;
mod literal;
mod lower;
mod named_windows;
mod names;
mod operators;
mod parse;
mod planner;
mod pretty;
mod raw_string;
mod refusal;
mod session;
mod set_operations;
mod star_arguments;
mod struct_star;
mod syntax;
mod table_names;
mod types;
mod unescape;
mod union_types;
mod unread;
mod value_types;
mod window_names;
mod within_group;

pub(crate) use set_operations::is_except_all;

pub(crate) use guarded_filters::guard_filters;
pub use lower::{lower_expression, lower_query};
pub use parse::{parse_expression, parse_projection, plan_query, plan_sql};
pub(crate) use raw_string::tokenize;
pub use session::{configure, rebuilt, session_state_builder, with_name_case};
pub use syntax::SparkDialect;
pub use union_types::widened;
