//! Nodes of a syntax tree that sqlparser and DataFusion do not know.
//!
//! DataFusion hands a dictionary literal (`{'a': x}`, which Spark does not have) with its planned
//! values and their schema to the expression planners. A node of ours travels as one: every key is
//! the node's name, behind a mark that no text can contain.

use datafusion::sql::sqlparser::ast::{DictionaryField, Expr, Ident, Value};
use datafusion::sql::sqlparser::tokenizer::Span;

const MARK: &str = "\u{0}spark:";

/// The nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Node {
    /// Text of a number, then its suffix (`L`, `D`, ...) or nothing.
    Number,
    /// Text of an interval.
    Interval,
    /// An expression, then the name of a type.
    Cast,
    TryCast,
    /// Text, then the name of a type.
    TypedLiteral,
    Negate,
    /// Operands, and between two each the text of an operator.
    Chain,
    /// `when`, `then`, `when`, `then`, ..., and possibly `else`.
    Case,
    /// A value and the values it may be.
    In,
    /// A value, the least and the greatest.
    Between,
    /// Text, a pattern, and the character that escapes.
    Like,
    Ilike,
    /// Values of which the first that is not null counts.
    Coalesce,
    Greatest,
    Least,
    NullIf,
    /// A condition, a value if it holds, another if not.
    If,
    Array,
    Map,
    /// Texts or arrays.
    Concat,
    /// An array or a map, whose elements become rows.
    Explode,
    ExplodeOuter,
    /// An array; positions from 0 come first.
    PosExplode,
    PosExplodeOuter,
    /// An array of structs, whose fields become columns.
    Inline,
    InlineOuter,
    TypeOf,
}

const ALL: &[(Node, &str)] = &[
    (Node::Number, "number"),
    (Node::Interval, "interval"),
    (Node::Cast, "cast"),
    (Node::TryCast, "try_cast"),
    (Node::TypedLiteral, "literal"),
    (Node::Negate, "negate"),
    (Node::Chain, "chain"),
    (Node::Case, "case"),
    (Node::In, "in"),
    (Node::Between, "between"),
    (Node::Like, "like"),
    (Node::Ilike, "ilike"),
    (Node::Coalesce, "coalesce"),
    (Node::Greatest, "greatest"),
    (Node::Least, "least"),
    (Node::NullIf, "nullif"),
    (Node::If, "if"),
    (Node::Array, "array"),
    (Node::Map, "map"),
    (Node::Concat, "concat"),
    (Node::Explode, "explode"),
    (Node::ExplodeOuter, "explode_outer"),
    (Node::PosExplode, "posexplode"),
    (Node::PosExplodeOuter, "posexplode_outer"),
    (Node::Inline, "inline"),
    (Node::InlineOuter, "inline_outer"),
    (Node::TypeOf, "typeof"),
];

impl Node {
    /// As in SQL, where it is a function.
    pub(super) fn name(self) -> &'static str {
        ALL.iter().find(|(node, _)| *node == self).map_or("", |(_, name)| name)
    }

    fn key(self) -> String {
        format!("{MARK}{}", self.name())
    }

    /// The node of a dictionary key.
    pub(super) fn of_key(key: &str) -> Option<Self> {
        let name = key.strip_prefix(MARK)?;
        ALL.iter().find(|(_, n)| *n == name).map(|(node, _)| *node)
    }

    /// A syntax tree of this node. It has at least one argument.
    pub(super) fn of(self, arguments: impl IntoIterator<Item = Expr>) -> Expr {
        let key = self.key();
        let field = |value: Expr| DictionaryField {
            key: Ident { value: key.clone(), quote_style: Some('`'), span: Span::empty() },
            value: Box::new(value),
        };
        Expr::Dictionary(arguments.into_iter().map(field).collect())
    }

    /// The node and its arguments, if the tree is one.
    pub(super) fn read(expr: &Expr) -> Option<(Self, Vec<&Expr>)> {
        let Expr::Dictionary(fields) = expr else { return None };
        let node = Self::of_key(&fields.first()?.key.value)?;
        Some((node, fields.iter().map(|field| field.value.as_ref()).collect()))
    }
}

/// A string literal.
pub(super) fn text(value: impl Into<String>) -> Expr {
    Expr::Value(Value::SingleQuotedString(value.into()).into())
}

/// The string of a string literal.
pub(super) fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => Some(text),
            _ => None,
        },
        _ => None,
    }
}
