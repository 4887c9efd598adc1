//! The arguments of table functions: literals, most of them with a name.

use crate::sql::place::Place;
use crate::sql::token::{Tokens, is_word, string};
use datafusion::sql::sqlparser::tokenizer::Token;
use fluvial_core::Result;
use std::fmt;

/// An argument: `format => 'json'`, or only a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// The name, as written; `None` if only the position says what it is.
    pub name: Option<String>,
    /// The value.
    pub value: Literal,
    /// Where it stands.
    pub place: Place,
}

/// A value that is known without running anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Literal {
    /// `'json'`.
    Text(String),
    /// `10`, `-1.5`, `1e6`: as written, without the letter of its type.
    Number(String),
    /// `true`.
    Boolean(bool),
    /// `null`.
    Null,
}

impl fmt::Display for Literal {
    /// The text of an option with this value.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) | Self::Number(text) => f.write_str(text),
            Self::Boolean(value) => value.fmt(f),
            Self::Null => f.write_str("null"),
        }
    }
}

/// Reads a literal. A dash and a number are one.
pub(super) fn literal(tokens: &mut Tokens<'_>, what: &str) -> Result<Literal> {
    if let Some(text) = string(tokens.peek()) {
        let text = text.to_owned();
        tokens.next();
        return Ok(Literal::Text(text));
    }
    for (word, value) in [
        ("true", Literal::Boolean(true)),
        ("false", Literal::Boolean(false)),
        ("null", Literal::Null),
    ] {
        if is_word(tokens.peek(), word) {
            tokens.next();
            return Ok(value);
        }
    }
    let is_number = |token: &Token| matches!(token, Token::Number(..));
    let sign = match tokens.peek() {
        Token::Minus if is_number(tokens.peek_at(1)) => {
            tokens.next();
            "-"
        }
        Token::Plus if is_number(tokens.peek_at(1)) => {
            tokens.next();
            ""
        }
        _ => "",
    };
    match tokens.peek() {
        Token::Number(text, _) => {
            let number = format!("{sign}{text}");
            tokens.next();
            Ok(Literal::Number(number))
        }
        _ => Err(tokens.expected(&format!("{what} (a string, number, true, false or null)"))),
    }
}

/// Reads the arguments of a call, without the parentheses around them.
pub(super) fn arguments(mut tokens: Tokens<'_>) -> Result<Vec<Argument>> {
    let mut arguments: Vec<Argument> = Vec::new();
    while !tokens.is_done() {
        let place = tokens.place();
        let name = option_name(&mut tokens)?;
        match &name {
            Some(name) => {
                let taken = arguments.iter().filter_map(|argument| argument.name.as_ref());
                if taken.into_iter().any(|other| other.eq_ignore_ascii_case(name)) {
                    return Err(tokens.source().error(place, format!("{name} is given twice")));
                }
            }
            None if arguments.last().is_some_and(|last| last.name.is_some()) => {
                let message = "an argument after one with a name needs a name too: name => value";
                return Err(tokens.source().error(place, message));
            }
            None => {}
        }
        let value = literal(&mut tokens, "a value")?;
        arguments.push(Argument { name, value, place });
        if !tokens.punctuation(&Token::Comma) {
            tokens.expect_done("the arguments")?;
        }
    }
    Ok(arguments)
}

/// Takes `name =>`, if it is next. Dots in a name need no quotes.
fn option_name(tokens: &mut Tokens<'_>) -> Result<Option<String>> {
    let mut ahead = tokens.clone();
    if !matches!(ahead.peek(), Token::Word(_)) {
        return Ok(None);
    }
    let name = ahead.dotted("the name of an option")?.join(".");
    if !ahead.punctuation(&Token::RArrow) {
        return Ok(None);
    }
    *tokens = ahead;
    Ok(Some(name))
}
