//! The words of a statement and a cursor over them.

use crate::dialect::chains;
use crate::sql::place::{Place, Source};
use datafusion::sql::sqlparser::ast::VisitMut;
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::{Keyword, RESERVED_FOR_TABLE_ALIAS};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Word};
use fluvial_core::{Error, Result};

impl From<Location> for Place {
    fn from(location: Location) -> Self {
        Self { line: location.line, column: location.column }
    }
}

/// Cuts a script into tokens, without white space and comments.
pub(super) fn tokenize(source: &Source<'_>, dialect: &dyn Dialect) -> Result<Vec<TokenWithSpan>> {
    let mut tokens = crate::dialect::tokenize(source.text(), dialect)
        .map_err(|error| source.error(error.location.into(), lower_first(&error.message)))?;
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_)));
    Ok(tokens)
}

/// The word, unless it is quoted: quoted words are never keywords.
pub(super) fn bare(token: &Token) -> Option<&Word> {
    match token {
        Token::Word(word) if word.quote_style.is_none() => Some(word),
        _ => None,
    }
}

/// Whether a token is this keyword of ours, whatever the parser thinks of it.
pub(super) fn is_word(token: &Token, keyword: &str) -> bool {
    bare(token).is_some_and(|word| word.value.eq_ignore_ascii_case(keyword))
}

/// Whether a token may be a name where an alias may stand.
pub(super) fn is_alias(token: &Token) -> bool {
    match token {
        Token::Word(word) => {
            word.quote_style.is_some()
                || (word.keyword != Keyword::AS
                    && !RESERVED_FOR_TABLE_ALIAS.contains(&word.keyword))
        }
        _ => false,
    }
}

/// The text of a string literal, in any quotes that may stand around one.
pub(super) fn string(token: &Token) -> Option<&str> {
    match token {
        Token::SingleQuotedString(text)
        | Token::DoubleQuotedString(text)
        | Token::SingleQuotedRawStringLiteral(text)
        | Token::DoubleQuotedRawStringLiteral(text) => Some(text),
        Token::Word(word) if word.quote_style == Some('"') => Some(&word.value),
        _ => None,
    }
}

/// A token for messages.
pub(super) fn shown(token: &Token) -> String {
    match token {
        Token::EOF => "the end of the statement".to_owned(),
        token => format!("{token}").chars().take(60).collect(),
    }
}

/// A cursor over some of the tokens of a statement.
#[derive(Clone)]
pub(super) struct Tokens<'a> {
    source: &'a Source<'a>,
    tokens: &'a [TokenWithSpan],
    /// Where the part ends, for errors about what is missing.
    end: Place,
    at: usize,
}

impl<'a> Tokens<'a> {
    pub(super) fn new(source: &'a Source<'a>, tokens: &'a [TokenWithSpan], end: Place) -> Self {
        Self { source, tokens, end, at: 0 }
    }

    pub(super) fn source(&self) -> &'a Source<'a> {
        self.source
    }

    /// The next token; the end of the file behind the last one.
    pub(super) fn peek(&self) -> &'a Token {
        self.peek_at(0)
    }

    /// The token after `skip` others.
    pub(super) fn peek_at(&self, skip: usize) -> &'a Token {
        self.tokens.get(self.at + skip).map_or(&Token::EOF, |token| &token.token)
    }

    /// Where the next token stands.
    pub(super) fn place(&self) -> Place {
        self.tokens.get(self.at).map_or(self.end, |token| token.span.start.into())
    }

    pub(super) fn end(&self) -> Place {
        self.end
    }

    pub(super) fn is_done(&self) -> bool {
        self.at >= self.tokens.len()
    }

    /// How many tokens are left.
    pub(super) fn remaining(&self) -> usize {
        self.tokens.len().saturating_sub(self.at)
    }

    /// Takes a token.
    pub(super) fn next(&mut self) -> &'a Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    /// Takes the tokens that are left.
    pub(super) fn rest(&mut self) -> &'a [TokenWithSpan] {
        let rest = self.tokens.get(self.at..).unwrap_or(&[]);
        self.at = self.tokens.len();
        rest
    }

    /// Takes as many tokens.
    pub(super) fn take(&mut self, count: usize) -> &'a [TokenWithSpan] {
        let end = self.tokens.len().min(self.at.saturating_add(count));
        let taken = self.tokens.get(self.at..end).unwrap_or(&[]);
        self.at = end;
        taken
    }

    /// Takes the word if it is next.
    pub(super) fn word(&mut self, keyword: &str) -> bool {
        let found = is_word(self.peek(), keyword);
        self.at += usize::from(found);
        found
    }

    /// Takes the words if all of them are next.
    pub(super) fn words(&mut self, keywords: &[&str]) -> bool {
        let found = keywords.iter().enumerate().all(|(i, word)| is_word(self.peek_at(i), word));
        self.at += if found { keywords.len() } else { 0 };
        found
    }

    /// Takes the token if it is next.
    pub(super) fn punctuation(&mut self, token: &Token) -> bool {
        let found = self.peek() == token;
        self.at += usize::from(found);
        found
    }

    pub(super) fn expect_word(&mut self, keyword: &str) -> Result<()> {
        if self.word(keyword) { Ok(()) } else { Err(self.expected(keyword)) }
    }

    pub(super) fn expect(&mut self, token: &Token) -> Result<()> {
        if self.punctuation(token) { Ok(()) } else { Err(self.expected(&token.to_string())) }
    }

    pub(super) fn expect_done(&self, what: &str) -> Result<()> {
        if self.is_done() { Ok(()) } else { Err(self.expected(&format!("the end of {what}"))) }
    }

    /// Takes a name, quoted or not.
    pub(super) fn name(&mut self, what: &str) -> Result<String> {
        match self.peek() {
            Token::Word(word) => {
                self.at += 1;
                Ok(word.value.clone())
            }
            _ => Err(self.expected(what)),
        }
    }

    /// Takes names with dots between them.
    pub(super) fn dotted(&mut self, what: &str) -> Result<Vec<String>> {
        let mut parts = vec![self.name(what)?];
        while self.punctuation(&Token::Period) {
            parts.push(self.name(what)?);
        }
        Ok(parts)
    }

    /// Takes a string literal.
    pub(super) fn string(&mut self, what: &str) -> Result<&'a str> {
        let text = string(self.peek()).ok_or_else(|| self.expected(what))?;
        self.at += 1;
        Ok(text)
    }

    /// Takes everything inside the parenthesis that is next.
    pub(super) fn parenthesized(&mut self) -> Result<Tokens<'a>> {
        self.expect(&Token::LParen)?;
        let start = self.at;
        let mut depth = 1_usize;
        while let Some(token) = self.tokens.get(self.at) {
            match token.token {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                let inner = &self.tokens[start..self.at - 1];
                return Ok(Self::new(self.source, inner, token.span.start.into()));
            }
        }
        Err(self.expected(")"))
    }

    /// An error about the next token.
    pub(super) fn expected(&self, what: &str) -> Error {
        let found = shown(self.peek());
        self.source.error(self.place(), format!("expected {what}, found {found}"))
    }
}

/// Lets the parser of sqlparser read all of `tokens`.
///
/// # Errors
///
/// What the parser says, at the place that it means; `end` if it ran out of tokens.
pub(super) fn parse_all<T: VisitMut>(
    source: &Source<'_>,
    dialect: &dyn Dialect,
    tokens: Vec<TokenWithSpan>,
    end: Place,
    what: &str,
    parse: impl FnOnce(&mut Parser<'_>) -> Result<T, ParserError>,
) -> Result<T> {
    let mut parser = Parser::new(dialect).with_tokens_with_locations(tokens);
    let parsed =
        chains::read(|| parse(&mut parser)).map_err(|error| syntax_error(source, end, &error))?;
    let next = parser.peek_token_ref();
    if next.token == Token::EOF {
        return Ok(parsed);
    }
    let found = shown(&next.token);
    let message = format!("expected the end of {what}, found {found}");
    Err(source.error(next.span.start.into(), message))
}

/// What the parser of sqlparser says, with a place that points into the script.
fn syntax_error(source: &Source<'_>, end: Place, error: &ParserError) -> Error {
    let text = match error {
        ParserError::ParserError(text) | ParserError::TokenizerError(text) => text.as_str(),
        ParserError::RecursionLimitExceeded => {
            return source.error(end, "this is nested too deeply");
        }
    };
    let (message, place) = split_place(text).unwrap_or((text, end));
    let message = message
        .replace("Expected: ", "expected ")
        .replace(", found: ", ", found ")
        .replace("found EOF", "found the end of the statement");
    source.error(place, lower_first(&message))
}

/// Splits ` at Line: 3, Column: 12` off a message.
fn split_place(text: &str) -> Option<(&str, Place)> {
    let (message, place) = text.rsplit_once(" at Line: ")?;
    let (line, column) = place.split_once(", Column: ")?;
    Some((message, Place { line: line.parse().ok()?, column: column.trim().parse().ok()? }))
}

fn lower_first(text: &str) -> String {
    let mut chars = text.chars();
    // Words such as INTERVAL stay: only a single capital is lowered.
    match (chars.next(), chars.clone().next()) {
        (Some(first), Some(second)) if first.is_uppercase() && !second.is_uppercase() => {
            first.to_lowercase().chain(chars).collect()
        }
        _ => text.to_owned(),
    }
}

/// A name that stands where `span` is in the script.
pub(super) fn name_token(name: &str, span: Span) -> TokenWithSpan {
    TokenWithSpan::new(Token::make_word(name, Some('`')), span)
}

/// A keyword that stands where `span` is in the script.
pub(super) fn keyword_token(keyword: &str, span: Span) -> TokenWithSpan {
    TokenWithSpan::new(Token::make_word(keyword, None), span)
}
