//! One relation of a FROM clause.

use crate::sql::argument::{arguments, literal};
use crate::sql::lower::{Lowering, Scope};
use crate::sql::relation::{Definition, Reading, SourceCall, TableName, WatermarkClause};
use crate::sql::token::{Tokens, is_alias, is_word, keyword_token, name_token};
use crate::sql::{properties, watermark};
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};
use fluvial_core::Result;
use std::ops::Range;

/// Functions that can be read without STREAM.
const BATCH_SOURCES: [&str; 5] =
    ["read_files", "read_kafka", "read_state", "read_statestore", "read_state_metadata"];

/// Functions that only make sense as a stream.
const STREAM_SOURCES: [&str; 2] = ["rate", "rate_micro_batch"];

impl Lowering<'_> {
    /// Copies one relation and its watermark, without the alias; gives the place behind it.
    pub(super) fn relation(
        &mut self,
        range: Range<usize>,
        scope: &Scope,
        out: &mut Vec<TokenWithSpan>,
    ) -> Result<usize> {
        let (at, end) = (range.start, range.end);
        match self.token(at, end) {
            word if is_word(word, "STREAM") && self.marks_a_stream(at + 1, end) => {
                self.stream(range, scope, out)
            }
            word if is_word(word, "LATERAL") => self.lateral(range, scope, out),
            word if is_word(word, "VALUES") => self.values(range, scope, out),
            Token::LParen if self.is_query(at + 1..self.closing[at]) => {
                self.subquery(range, scope, out)
            }
            Token::LParen => {
                let close = self.closing[at];
                out.push(self.tokens[at].clone());
                self.nested_joins(at + 1..close, scope, out)?;
                out.push(self.tokens[close].clone());
                self.refuse_watermark(close + 1, end, "joined relations: write it behind one")?;
                Ok(close + 1)
            }
            Token::Word(_) => self.table_or_function(range, scope, out),
            _ => Err(self.cursor(range).expected("a relation")),
        }
    }

    /// Whether STREAM is a mark and not the name of a table.
    fn marks_a_stream(&self, at: usize, end: usize) -> bool {
        let token = self.token(at, end);
        *token == Token::LParen || (is_alias(token) && !is_word(token, "WATERMARK"))
    }

    /// `STREAM name`, `STREAM (name)`, `STREAM function(...)`.
    fn stream(
        &mut self,
        range: Range<usize>,
        scope: &Scope,
        out: &mut Vec<TokenWithSpan>,
    ) -> Result<usize> {
        let (start, end) = (range.start, range.end);
        let span = self.tokens[start].span;
        let mut at = start + 1;
        let (name, function) = if *self.token(at, end) == Token::LParen {
            let close = self.closing[at];
            if self.is_query(at + 1..close) {
                let message = "STREAM marks a table or a table function: write it in front of \
                               those inside of the query";
                return Err(self.source.error(span.start.into(), message));
            }
            let mut inner = self.cursor(at + 1..close);
            let name = inner.dotted("the name of a table")?;
            inner.expect_done("the name of the table")?;
            at = close + 1;
            (name, None)
        } else {
            let (name, after) = self.dotted(at, end)?;
            at = after;
            let call = (*self.token(at, end) == Token::LParen).then_some(at);
            (name, call)
        };
        if let Some(open) = function {
            return self.source_call(name, open, end, Reading::Stream, span, out);
        }
        if let [only] = name.as_slice()
            && scope.sees(only)
        {
            let message =
                format!("{only} is a WITH query: write STREAM in front of the tables inside of it");
            return Err(self.source.error(span.start.into(), message));
        }
        let (options, at) = self.options(at, end)?;
        let (watermark, at) = self.watermark(at, end)?;
        let name = TableName::new(name);
        let table = Definition::Table { name, reading: Reading::Stream, options };
        self.table(table, watermark, span, at, end, out);
        Ok(at)
    }

    /// Copies a table or a table function; sets it aside if it is a source or has a watermark.
    fn table_or_function(
        &mut self,
        range: Range<usize>,
        scope: &Scope,
        out: &mut Vec<TokenWithSpan>,
    ) -> Result<usize> {
        let (start, end) = (range.start, range.end);
        let span = self.tokens[start].span;
        let (name, at) = self.dotted(start, end)?;
        if *self.token(at, end) == Token::LParen {
            if let [only] = name.as_slice() {
                let is = |known: &&str| known.eq_ignore_ascii_case(only);
                if BATCH_SOURCES.iter().any(is) {
                    return self.source_call(name, at, end, Reading::Batch, span, out);
                }
                if STREAM_SOURCES.iter().any(is) {
                    let message = format!("{only} is a stream: write STREAM {only}(...)");
                    return Err(self.source.error(span.start.into(), message));
                }
            }
            let mut copied = self.tokens[start..at].to_vec();
            let after = self.parenthesis(at, scope, &mut copied)?;
            return self.with_watermark(copied, span, after, end, scope, out);
        }
        let (options, behind) = self.as_of(at, end)?;
        let (watermark, after) = self.watermark(behind, end)?;
        match (watermark, name.as_slice()) {
            (_, [only]) if !options.is_empty() && scope.sees(only) => {
                let message = format!("{only} is a WITH query, which has no versions");
                return Err(self.source.error(span.start.into(), message));
            }
            (None, _) if options.is_empty() => out.extend_from_slice(&self.tokens[start..at]),
            // Only a query can see a WITH query, so that it has to stand aside as one.
            (Some(watermark), [only]) if scope.sees(only) => {
                let copied = self.select_all(&self.tokens[start..at], span);
                let definition = self.derived(copied, self.place(at), scope)?;
                out.push(self.set_aside(definition, Some(watermark), span));
                self.default_alias(only, span, after, end, out);
            }
            (watermark, _) => {
                let name = TableName::new(name);
                let table = Definition::Table { name, reading: Reading::Batch, options };
                self.table(table, watermark, span, after, end, out);
            }
        }
        Ok(after)
    }

    /// `(query)`, set aside if it has a watermark.
    fn subquery(
        &mut self,
        range: Range<usize>,
        scope: &Scope,
        out: &mut Vec<TokenWithSpan>,
    ) -> Result<usize> {
        let (at, end) = (range.start, range.end);
        let close = self.closing[at];
        let mut query = Vec::with_capacity(close - at);
        self.query(at + 1..close, scope, &mut query)?;
        let (watermark, after) = self.watermark(close + 1, end)?;
        match watermark {
            None => {
                out.push(self.tokens[at].clone());
                out.append(&mut query);
                out.push(self.tokens[close].clone());
            }
            Some(watermark) => {
                let definition = self.derived(query, self.place(close), scope)?;
                out.push(self.set_aside(definition, Some(watermark), self.tokens[at].span));
            }
        }
        Ok(after)
    }

    /// `LATERAL (query)`, `LATERAL VIEW ...`: what they see of the row stays where it is.
    fn lateral(
        &mut self,
        range: Range<usize>,
        scope: &Scope,
        out: &mut Vec<TokenWithSpan>,
    ) -> Result<usize> {
        let mut at = range.start;
        out.push(self.tokens[at].clone());
        at += 1;
        if *self.token(at, range.end) == Token::LParen {
            at = self.parenthesis(at, scope, out)?;
            self.refuse_watermark(at, range.end, "a LATERAL query")?;
        }
        Ok(at)
    }

    /// `VALUES (...), (...)`: its commas do not start relations.
    fn values(
        &mut self,
        range: Range<usize>,
        scope: &Scope,
        out: &mut Vec<TokenWithSpan>,
    ) -> Result<usize> {
        let (start, end) = (range.start, range.end);
        let mut copied = vec![self.tokens[start].clone()];
        let mut at = start + 1;
        while *self.token(at, end) == Token::LParen {
            at = self.parenthesis(at, scope, &mut copied)?;
            let goes_on =
                *self.token(at, end) == Token::Comma && *self.token(at + 1, end) == Token::LParen;
            if goes_on {
                copied.push(self.tokens[at].clone());
                at += 1;
            }
        }
        self.with_watermark(copied, self.tokens[start].span, at, end, scope, out)
    }

    /// Copies a relation that sqlparser knows, or sets it aside as a query if it has a watermark.
    fn with_watermark(
        &mut self,
        copied: Vec<TokenWithSpan>,
        span: Span,
        at: usize,
        end: usize,
        scope: &Scope,
        out: &mut Vec<TokenWithSpan>,
    ) -> Result<usize> {
        let (watermark, after) = self.watermark(at, end)?;
        if let Some(watermark) = watermark {
            let query = self.select_all(&copied, span);
            let definition = self.derived(query, self.place(at), scope)?;
            out.push(self.set_aside(definition, Some(watermark), span));
        } else {
            out.extend(copied);
        }
        Ok(after)
    }

    /// A call of a source, which always stands aside.
    fn source_call(
        &mut self,
        name: Vec<String>,
        open: usize,
        end: usize,
        reading: Reading,
        span: Span,
        out: &mut Vec<TokenWithSpan>,
    ) -> Result<usize> {
        let [function] = name.as_slice() else {
            let message = "a table function has no schema in front of its name";
            return Err(self.source.error(span.start.into(), message));
        };
        let close = self.closing[open];
        let arguments = arguments(self.cursor(open + 1..close))?;
        let (watermark, after) = self.watermark(close + 1, end)?;
        let function = function.to_ascii_lowercase();
        let definition = Definition::Source(SourceCall { function, arguments, reading });
        out.push(self.set_aside(definition, watermark, span));
        Ok(after)
    }

    /// Sets a table aside. Columns may still be qualified with its name.
    fn table(
        &mut self,
        definition: Definition,
        watermark: Option<WatermarkClause>,
        span: Span,
        at: usize,
        end: usize,
        out: &mut Vec<TokenWithSpan>,
    ) {
        let table = match &definition {
            Definition::Table { name, .. } => name.table().to_owned(),
            Definition::Source(_) | Definition::Derived(_) => String::new(),
        };
        let token = self.set_aside(definition, watermark, span);
        out.push(token);
        self.default_alias(&table, span, at, end, out);
    }

    /// Takes `WITH (name = value, ...)`, if it is next: how a stream is read.
    fn options(&self, at: usize, end: usize) -> Result<(Vec<(String, String)>, usize)> {
        let mut tokens = self.cursor(at..end);
        if !tokens.word("WITH") {
            return Ok((Vec::new(), at));
        }
        let options = properties::options(&mut tokens)?;
        Ok((options, end - tokens.remaining()))
    }

    /// Takes `[FOR] VERSION AS OF n` or `[FOR] TIMESTAMP AS OF 'time'`, if it is next.
    fn as_of(&self, at: usize, end: usize) -> Result<(Vec<(String, String)>, usize)> {
        let mut tokens = self.cursor(at..end);
        tokens.word("FOR");
        let is = |tokens: &mut Tokens<'_>, word| tokens.words(&[word, "AS", "OF"]);
        let option = if is(&mut tokens, "VERSION") || is(&mut tokens, "SYSTEM_VERSION") {
            "versionAsOf"
        } else if is(&mut tokens, "TIMESTAMP") || is(&mut tokens, "SYSTEM_TIME") {
            // The type in front of the text says nothing new.
            let _ = tokens.word("TIMESTAMP") || tokens.word("DATE");
            "timestampAsOf"
        } else {
            return Ok((Vec::new(), at));
        };
        let value = literal(&mut tokens, "a version or a time")?.to_string();
        Ok((vec![(option.to_owned(), value)], end - tokens.remaining()))
    }

    /// Gives a relation that stands aside the name that it had, unless an alias follows.
    fn default_alias(
        &self,
        name: &str,
        span: Span,
        at: usize,
        end: usize,
        out: &mut Vec<TokenWithSpan>,
    ) {
        let next = self.token(at, end);
        if !is_word(next, "AS") && !is_alias(next) {
            out.push(keyword_token("AS", span));
            out.push(name_token(name, span));
        }
    }

    /// `SELECT * FROM` something.
    fn select_all(&self, relation: &[TokenWithSpan], span: Span) -> Vec<TokenWithSpan> {
        let mut query = vec![
            keyword_token("SELECT", span),
            TokenWithSpan::new(Token::Mul, span),
            keyword_token("FROM", span),
        ];
        query.extend_from_slice(relation);
        query
    }

    /// Takes a name with dots.
    fn dotted(&self, at: usize, end: usize) -> Result<(Vec<String>, usize)> {
        let mut tokens = self.cursor(at..end);
        let name = tokens.dotted("the name of a relation")?;
        Ok((name, end - tokens.remaining()))
    }

    /// Takes the watermark clause, if there is one.
    fn watermark(&self, at: usize, end: usize) -> Result<(Option<WatermarkClause>, usize)> {
        let mut tokens = self.cursor(at..end);
        if !watermark::starts(&tokens) {
            self.refuse_watermark_behind_alias(at, end)?;
            return Ok((None, at));
        }
        let clause = watermark::parse(&mut tokens, self.dialect)?;
        Ok((Some(clause), end - tokens.remaining()))
    }

    fn refuse_watermark_behind_alias(&self, at: usize, end: usize) -> Result<()> {
        let at = at + usize::from(is_word(self.token(at, end), "AS"));
        if is_alias(self.token(at, end)) && watermark::starts(&self.cursor(at + 1..end)) {
            let message = "the WATERMARK clause stands before the alias: \
                           t WATERMARK event_time DELAY OF INTERVAL 10 MINUTES AS alias";
            return Err(self.source.error(self.place(at + 1), message));
        }
        Ok(())
    }

    fn refuse_watermark(&self, at: usize, end: usize, what: &str) -> Result<()> {
        if watermark::starts(&self.cursor(at..end)) {
            let message = format!("a WATERMARK clause cannot stand behind {what}");
            return Err(self.source.error(self.place(at), message));
        }
        self.refuse_watermark_behind_alias(at, end)
    }
}
