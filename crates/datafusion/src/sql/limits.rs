//! Bounds on what a statement may be, so that no text can exhaust the stack.
//!
//! The parser grows its stack where it descends into expressions and queries, but not where it
//! reads types, and the tree that it makes is dropped recursively. These bounds guard that, and
//! they are far above what people and generators write.

use crate::sql::place::Source;
use crate::sql::token::{bare, is_word};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use fluvial_core::Result;

/// Open parentheses, brackets and braces at one place.
const NESTING_MAX: usize = 48;

/// Operators and keywords of a statement: each may make the tree one level deeper.
const OPERATORS_MAX: usize = 4000;

/// Keywords in a row.
const KEYWORDS_IN_A_ROW_MAX: usize = 32;

/// Types inside of types: `array<map<...`.
const TYPES_MAX: usize = 32;

/// Names that belong to this module.
pub(super) const RESERVED_PREFIX: &str = "__fluvial_";

/// Checks one statement and finds the closing parenthesis of each opening one.
///
/// # Errors
///
/// A parenthesis without its other half, a bound that is exceeded, a name that is reserved.
pub(super) fn check(source: &Source<'_>, tokens: &[TokenWithSpan]) -> Result<Vec<usize>> {
    let mut closing = vec![0; tokens.len()];
    let mut open: Vec<(usize, Token)> = Vec::new();
    let (mut operators, mut keywords, mut types) = (0, 0, 0);
    for (at, token) in tokens.iter().enumerate() {
        let error = |message: &str| Err(source.error(token.span.start.into(), message));
        match &token.token {
            Token::LParen => open.push((at, Token::RParen)),
            Token::LBracket => open.push((at, Token::RBracket)),
            Token::LBrace => open.push((at, Token::RBrace)),
            Token::RParen | Token::RBracket | Token::RBrace => match open.pop() {
                Some((start, expected)) if expected == token.token => closing[start] = at,
                Some((_, expected)) => {
                    return error(&format!("expected {expected}, found {}", token.token));
                }
                None => return error(&format!("this {} closes nothing", token.token)),
            },
            Token::Lt if at > 0 && is_nested_type(&tokens[at - 1].token) => types += 1,
            _ => {}
        }
        let is_keyword = bare(&token.token).is_some_and(|word| word.keyword != Keyword::NoKeyword);
        keywords = if is_keyword { keywords + 1 } else { 0 };
        operators += usize::from(is_keyword || deepens(&token.token));
        if open.len() > NESTING_MAX || types > TYPES_MAX || keywords > KEYWORDS_IN_A_ROW_MAX {
            return error("this is nested too deeply");
        }
        if operators > OPERATORS_MAX {
            return error(&format!("a statement has at most {OPERATORS_MAX} operators"));
        }
        if let Token::Word(word) = &token.token
            && word
                .value
                .get(..RESERVED_PREFIX.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(RESERVED_PREFIX))
        {
            return error(&format!("names that start with {RESERVED_PREFIX} are reserved"));
        }
    }
    match open.first() {
        None => Ok(closing),
        Some((start, _)) => {
            let token = &tokens[*start];
            let message = format!("this {} is never closed", token.token);
            Err(source.error(token.span.start.into(), message))
        }
    }
}

fn is_nested_type(token: &Token) -> bool {
    ["ARRAY", "MAP", "STRUCT", "NULLABLE"].iter().any(|name| is_word(token, name))
}

/// Whether a symbol may make the tree deeper: all that neither separate nor stand for a value.
fn deepens(token: &Token) -> bool {
    !matches!(
        token,
        Token::Word(_)
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::Comma
            | Token::Period
            | Token::LParen
            | Token::RParen
            | Token::RArrow
    )
}
