//! From streaming SQL to a query that DataFusion can plan.
//!
//! The parser of sqlparser cannot be told of new relations, so they are taken out of its way: the
//! walk below follows the structure of a query as far as its FROM clauses, gives each relation
//! that is not plain SQL a name, and lets sqlparser read everything else, and the parts of what it
//! took out. Tokens keep their places, so errors of either point into the script.

use crate::sql::limits::RESERVED_PREFIX;
use crate::sql::place::{Place, Source};
use crate::sql::relation::{Definition, LoweredQuery, Relation, WatermarkClause};
use crate::sql::token::{Tokens, bare, is_word, name_token, parse_all};
use datafusion::sql::sqlparser::ast::{Cte, Query, SetExpr, With};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Span, Token, TokenWithSpan};
use fluvial_core::Result;
use std::ops::Range;
use std::sync::Arc;

/// Lowers the query that is the tokens of `range`.
pub(super) fn lower(
    source: &Source<'_>,
    dialect: &dyn Dialect,
    tokens: &[TokenWithSpan],
    closing: &[usize],
    range: Range<usize>,
    end: Place,
) -> Result<LoweredQuery> {
    let mut lowering = Lowering { source, dialect, tokens, closing, end, relations: Vec::new() };
    let mut out = Vec::with_capacity(range.len());
    lowering.query(range, &Scope::default(), &mut out)?;
    let query = lowering.parse_query(out, end)?;
    Ok(LoweredQuery { query, relations: lowering.relations })
}

/// The WITH queries that a place can see, outermost first.
#[derive(Clone, Default)]
pub(super) struct Scope(Vec<ScopeEntry>);

#[derive(Clone)]
struct ScopeEntry {
    name: String,
    cte: Arc<Cte>,
}

impl Scope {
    pub(super) fn sees(&self, name: &str) -> bool {
        self.0.iter().any(|entry| entry.name.eq_ignore_ascii_case(name))
    }
}

/// What a comma or JOIN at this depth means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Clause {
    /// Another relation follows.
    From,
    /// Something else.
    Other,
}

/// One walk over one query.
pub(super) struct Lowering<'a> {
    pub(super) source: &'a Source<'a>,
    pub(super) dialect: &'a dyn Dialect,
    pub(super) tokens: &'a [TokenWithSpan],
    /// For each opening parenthesis its other half.
    pub(super) closing: &'a [usize],
    end: Place,
    relations: Vec<Relation>,
}

impl<'a> Lowering<'a> {
    pub(super) fn token(&self, at: usize, end: usize) -> &'a Token {
        if at < end { &self.tokens[at].token } else { &Token::EOF }
    }

    /// A cursor over a part.
    pub(super) fn cursor(&self, range: Range<usize>) -> Tokens<'a> {
        let end = self.place(range.end);
        Tokens::new(self.source, &self.tokens[range], end)
    }

    pub(super) fn place(&self, at: usize) -> Place {
        self.tokens.get(at).map_or(self.end, |token| token.span.start.into())
    }

    /// Walks a query: WITH, then whatever follows, with all its set operations.
    pub(super) fn query(
        &mut self,
        range: Range<usize>,
        scope: &Scope,
        out: &mut Vec<TokenWithSpan>,
    ) -> Result<()> {
        let mut scope = scope.clone();
        let mut at = range.start;
        if is_word(self.token(at, range.end), "WITH") {
            at = self.with(range.clone(), &mut scope, out)?;
        }
        self.clauses(at..range.end, Clause::Other, &scope, out)
    }

    /// Walks a list of relations that stands in parentheses.
    pub(super) fn nested_joins(
        &mut self,
        range: Range<usize>,
        scope: &Scope,
        out: &mut Vec<TokenWithSpan>,
    ) -> Result<()> {
        let at = self.relation(range.clone(), scope, out)?;
        self.clauses(at..range.end, Clause::From, scope, out)
    }

    fn clauses(
        &mut self,
        range: Range<usize>,
        mut clause: Clause,
        scope: &Scope,
        out: &mut Vec<TokenWithSpan>,
    ) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            let token = &self.tokens[at].token;
            if *token == Token::LParen {
                at = self.parenthesis(at, scope, out)?;
                continue;
            }
            out.push(self.tokens[at].clone());
            let starts_relation = match bare(token).map(|word| word.keyword) {
                // `a IS DISTINCT FROM b` has no relation.
                Some(Keyword::FROM) => !(at > 0 && is_word(&self.tokens[at - 1].token, "DISTINCT")),
                Some(Keyword::JOIN) => clause == Clause::From,
                _ => *token == Token::Comma && clause == Clause::From,
            };
            at += 1;
            if starts_relation {
                clause = Clause::From;
                at = self.relation(at..range.end, scope, out)?;
            } else if ends_from(token) {
                clause = Clause::Other;
            }
        }
        Ok(())
    }

    /// Copies what stands in parentheses, and lowers it if it is a query.
    pub(super) fn parenthesis(
        &mut self,
        at: usize,
        scope: &Scope,
        out: &mut Vec<TokenWithSpan>,
    ) -> Result<usize> {
        let close = self.closing[at];
        out.push(self.tokens[at].clone());
        if self.is_query(at + 1..close) {
            self.query(at + 1..close, scope, out)?;
        } else {
            self.expression(at + 1..close, scope, out)?;
        }
        out.push(self.tokens[close].clone());
        Ok(close + 1)
    }

    /// Copies an expression, in which only parentheses can hold a query: the FROM of
    /// `extract(year FROM ts)` is none.
    pub(super) fn expression(
        &mut self,
        range: Range<usize>,
        scope: &Scope,
        out: &mut Vec<TokenWithSpan>,
    ) -> Result<()> {
        let mut at = range.start;
        while at < range.end {
            if self.tokens[at].token == Token::LParen {
                at = self.parenthesis(at, scope, out)?;
            } else {
                out.push(self.tokens[at].clone());
                at += 1;
            }
        }
        Ok(())
    }

    /// Whether what stands in parentheses is a query: it starts with one, and what follows a
    /// query in parentheses can only follow a query.
    pub(super) fn is_query(&self, range: Range<usize>) -> bool {
        match self.token(range.start, range.end) {
            Token::LParen => {
                let close = self.closing[range.start];
                let after = self.token(close + 1, range.end);
                let goes_on = ["UNION", "EXCEPT", "INTERSECT", "MINUS", "ORDER", "LIMIT", "OFFSET"];
                (*after == Token::EOF || goes_on.iter().any(|word| is_word(after, word)))
                    && self.is_query(range.start + 1..close)
            }
            token => ["SELECT", "WITH", "VALUES"].iter().any(|word| is_word(token, word)),
        }
    }

    /// Walks `WITH name [(columns)] AS (query), ...` and adds the names to the scope.
    fn with(
        &mut self,
        range: Range<usize>,
        scope: &mut Scope,
        out: &mut Vec<TokenWithSpan>,
    ) -> Result<usize> {
        let end = range.end;
        let mut at = range.start;
        out.push(self.tokens[at].clone());
        at += 1;
        if is_word(self.token(at, end), "RECURSIVE") {
            let message = "a recursive query cannot be run incrementally: WITH RECURSIVE";
            return Err(self.source.error(self.place(at), message));
        }
        loop {
            let start = out.len();
            let Token::Word(name) = self.token(at, end) else {
                return Err(self.cursor(at..end).expected("the name of a WITH query"));
            };
            out.push(self.tokens[at].clone());
            at += 1;
            // Column names, and then the query; the query may stand alone.
            while at < end && self.tokens[at].token != Token::LParen {
                out.push(self.tokens[at].clone());
                at += 1;
            }
            while *self.token(at, end) == Token::LParen {
                at = self.parenthesis(at, scope, out)?;
                if is_word(self.token(at, end), "AS") {
                    out.push(self.tokens[at].clone());
                    at += 1;
                }
            }
            let cte = parse_all(
                self.source,
                self.dialect,
                out[start..].to_vec(),
                self.place(at),
                "the WITH query",
                |parser| parser.parse_cte(),
            )?;
            scope.0.push(ScopeEntry { name: name.value.clone(), cte: Arc::new(cte) });
            if *self.token(at, end) != Token::Comma {
                return Ok(at);
            }
            out.push(self.tokens[at].clone());
            at += 1;
        }
    }

    /// Sets a relation aside; gives the name that stands for it.
    pub(super) fn set_aside(
        &mut self,
        definition: Definition,
        watermark: Option<WatermarkClause>,
        span: Span,
    ) -> TokenWithSpan {
        let name = format!("{RESERVED_PREFIX}relation_{}", self.relations.len());
        let token = name_token(&name, span);
        let place = span.start.into();
        self.relations.push(Relation { name, definition, watermark, place });
        token
    }

    /// A query that stands aside: it brings the WITH queries along that it can see.
    pub(super) fn derived(
        &mut self,
        tokens: Vec<TokenWithSpan>,
        end: Place,
        scope: &Scope,
    ) -> Result<Definition> {
        let mut query = self.parse_query(tokens, end)?;
        if scope.0.is_empty() {
            return Ok(Definition::Derived(Box::new(query)));
        }
        let with = query.with.get_or_insert_with(|| With {
            with_token: name_token("with", Span::empty()).into(),
            recursive: false,
            cte_tables: Vec::new(),
        });
        let own = std::mem::take(&mut with.cte_tables);
        if let Some(cte) = own.iter().find(|cte| scope.sees(&cte.alias.name.value)) {
            let name = &cte.alias.name;
            let message = format!("a WITH query further out has the name {name} too: rename one");
            return Err(self.source.error(name.span.start.into(), message));
        }
        let seen = scope.0.iter().map(|entry| Cte::clone(&entry.cte));
        with.cte_tables = seen.chain(own).collect();
        Ok(Definition::Derived(Box::new(query)))
    }

    pub(super) fn parse_query(&self, tokens: Vec<TokenWithSpan>, end: Place) -> Result<Query> {
        let start = tokens.first().map_or(end, |token| token.span.start.into());
        let query = parse_all(self.source, self.dialect, tokens, end, "the query", |parser| {
            parser.parse_query()
        })?;
        if !reads_only(&query.body) {
            return Err(self.source.error(start, "a query reads: use SELECT"));
        }
        Ok(*query)
    }
}

/// Whether a query has no statement that writes in it.
fn reads_only(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(_) | SetExpr::Values(_) | SetExpr::Table(_) => true,
        SetExpr::Query(query) => reads_only(&query.body),
        SetExpr::SetOperation { left, right, .. } => reads_only(left) && reads_only(right),
        _ => false,
    }
}

/// Whether a word ends the FROM clause that it may stand in.
fn ends_from(token: &Token) -> bool {
    bare(token).is_some_and(|word| {
        matches!(
            word.keyword,
            Keyword::SELECT
                | Keyword::WHERE
                | Keyword::GROUP
                | Keyword::HAVING
                | Keyword::QUALIFY
                | Keyword::WINDOW
                | Keyword::ORDER
                | Keyword::SORT
                | Keyword::CLUSTER
                | Keyword::DISTRIBUTE
                | Keyword::LIMIT
                | Keyword::OFFSET
                | Keyword::FETCH
                | Keyword::UNION
                | Keyword::EXCEPT
                | Keyword::INTERSECT
                | Keyword::MINUS
                // The names that a LATERAL VIEW gives have commas between them.
                | Keyword::VIEW
        )
    })
}
