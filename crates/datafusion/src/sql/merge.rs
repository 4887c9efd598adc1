//! `MERGE INTO`: rows of a source change a table.

use crate::sql::place::Place;
use crate::sql::relation::{LoweredQuery, TableName};
use crate::sql::token::{Tokens, is_alias, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use fluvial_core::Result;
use std::ops::Range;

/// `MERGE INTO table USING source ON condition WHEN ...`. Expressions are text, as written.
#[derive(Debug, Clone, PartialEq)]
pub struct MergeInto {
    /// The table that changes.
    pub target: TableName,
    /// What it is called in expressions.
    pub target_alias: String,
    /// Where the rows come from.
    pub source: MergeSource,
    /// What they are called in expressions.
    pub source_alias: String,
    /// Which rows belong together.
    pub condition: String,
    /// What happens, the first that fits.
    pub clauses: Vec<MergeIntoClause>,
    /// `WITH SCHEMA EVOLUTION`.
    pub evolve_schema: bool,
}

/// What stands behind USING.
#[derive(Debug, Clone, PartialEq)]
pub enum MergeSource {
    /// A table or view.
    Table(TableName),
    /// A query in parentheses.
    Query(Box<LoweredQuery>),
}

/// `WHEN ... THEN ...`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MergeIntoClause {
    /// For which rows.
    pub when: RowMatch,
    /// What has to hold besides.
    pub condition: Option<String>,
    /// What happens.
    pub action: MergeIntoAction,
}

/// For which rows a clause is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowMatch {
    /// `MATCHED`.
    Matched,
    /// `NOT MATCHED [BY TARGET]`.
    NotMatched,
    /// `NOT MATCHED BY SOURCE`.
    NotMatchedBySource,
}

/// What a clause does. Values are text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MergeIntoAction {
    /// `DELETE`.
    Delete,
    /// `UPDATE SET *`.
    UpdateAll,
    /// `UPDATE SET column = value, ...`.
    Update(Vec<(String, String)>),
    /// `INSERT *`.
    InsertAll,
    /// `INSERT (column, ...) VALUES (value, ...)`.
    Insert(Vec<(String, String)>),
}

/// Reads what stands behind MERGE. `lower` reads the query between two tokens of `all`.
pub(super) fn parse(
    tokens: &mut Tokens<'_>,
    all: &[TokenWithSpan],
    closing: &[usize],
    lower: impl FnOnce(Range<usize>, Place) -> Result<LoweredQuery>,
) -> Result<MergeInto> {
    let evolve_schema = tokens.words(&["WITH", "SCHEMA", "EVOLUTION"]);
    tokens.expect_word("INTO")?;
    let target = TableName::new(tokens.dotted("the table that changes")?);
    let target_alias = match alias(tokens, "USING")? {
        Some(alias) => alias,
        None => target.table().to_owned(),
    };
    tokens.expect_word("USING")?;
    let (source, name) = if *tokens.peek() == Token::LParen {
        let open = all.len() - tokens.remaining();
        let close = closing[open];
        let query = lower(open + 1..close, all[close].span.start.into())?;
        tokens.take(close - open + 1);
        (MergeSource::Query(Box::new(query)), "source".to_owned())
    } else {
        let name = TableName::new(tokens.dotted("a table, or a query in parentheses")?);
        let alias = name.table().to_owned();
        (MergeSource::Table(name), alias)
    };
    let source_alias = alias(tokens, "ON")?.unwrap_or(name);
    tokens.expect_word("ON")?;
    let condition = expression(tokens, &["WHEN"], "the condition")?;
    let mut clauses = Vec::new();
    while tokens.word("WHEN") {
        clauses.push(clause(tokens)?);
    }
    if clauses.is_empty() {
        return Err(tokens.expected("WHEN"));
    }
    Ok(MergeInto { target, target_alias, source, source_alias, condition, clauses, evolve_schema })
}

/// `[AS] name`, unless the keyword `next` follows.
fn alias(tokens: &mut Tokens<'_>, next: &str) -> Result<Option<String>> {
    let marked = tokens.word("AS");
    if marked || (is_alias(tokens.peek()) && !is_word(tokens.peek(), next)) {
        return tokens.name("an alias").map(Some);
    }
    Ok(None)
}

fn clause(tokens: &mut Tokens<'_>) -> Result<MergeIntoClause> {
    let not = tokens.word("NOT");
    tokens.expect_word("MATCHED")?;
    let when = match not {
        false => RowMatch::Matched,
        true if tokens.words(&["BY", "SOURCE"]) => RowMatch::NotMatchedBySource,
        true => {
            tokens.words(&["BY", "TARGET"]);
            RowMatch::NotMatched
        }
    };
    let condition = match tokens.word("AND") {
        true => Some(expression(tokens, &["THEN"], "a condition")?),
        false => None,
    };
    tokens.expect_word("THEN")?;
    let action = match when {
        RowMatch::NotMatched => insert(tokens)?,
        RowMatch::Matched | RowMatch::NotMatchedBySource => change(tokens, when)?,
    };
    Ok(MergeIntoClause { when, condition, action })
}

fn change(tokens: &mut Tokens<'_>, when: RowMatch) -> Result<MergeIntoAction> {
    if tokens.word("DELETE") {
        return Ok(MergeIntoAction::Delete);
    }
    if !tokens.words(&["UPDATE", "SET"]) {
        return Err(tokens.expected("DELETE or UPDATE SET"));
    }
    if when == RowMatch::Matched && tokens.punctuation(&Token::Mul) {
        return Ok(MergeIntoAction::UpdateAll);
    }
    let mut values = Vec::new();
    loop {
        let name = column(tokens)?;
        tokens.expect(&Token::Eq)?;
        values.push((name, expression(tokens, &["WHEN"], "a value")?));
        if !tokens.punctuation(&Token::Comma) {
            return Ok(MergeIntoAction::Update(values));
        }
    }
}

/// A column of the table, or a field in one, with backticks around what has dots inside.
fn column(tokens: &mut Tokens<'_>) -> Result<String> {
    let quoted = |part: String| match part.contains(['.', '`']) {
        true => format!("`{}`", part.replace('`', "``")),
        false => part,
    };
    let parts = tokens.dotted("a column of the table")?;
    Ok(parts.into_iter().map(quoted).collect::<Vec<_>>().join("."))
}

fn insert(tokens: &mut Tokens<'_>) -> Result<MergeIntoAction> {
    tokens.expect_word("INSERT")?;
    if tokens.punctuation(&Token::Mul) {
        return Ok(MergeIntoAction::InsertAll);
    }
    let mut columns = tokens.parenthesized()?;
    tokens.expect_word("VALUES")?;
    let mut texts = tokens.parenthesized()?;
    let mut values = Vec::new();
    loop {
        let name = column(&mut columns)?;
        values.push((name, expression(&mut texts, &[], "a value")?));
        match (columns.punctuation(&Token::Comma), texts.punctuation(&Token::Comma)) {
            (true, true) => {}
            (false, false) => break,
            (true, false) => return Err(texts.expected("as many values as columns")),
            (false, true) => return Err(columns.expected("as many columns as values")),
        }
    }
    columns.expect_done("the columns")?;
    texts.expect_done("the values")?;
    Ok(MergeIntoAction::Insert(values))
}

/// The text of an expression: up to a comma or one of the words, where neither stands in
/// parentheses or in CASE.
fn expression(tokens: &mut Tokens<'_>, words: &[&str], what: &str) -> Result<String> {
    let start = tokens.place();
    let (mut depth, mut cases, mut count) = (0_usize, 0_usize, 0);
    loop {
        let token = tokens.peek_at(count);
        let outside = depth == 0 && cases == 0;
        let stops = *token == Token::Comma || words.iter().any(|word| is_word(token, word));
        if *token == Token::EOF || (outside && stops) {
            break;
        }
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            token if is_word(token, "CASE") => cases += 1,
            token if is_word(token, "END") => cases = cases.saturating_sub(1),
            _ => {}
        }
        count += 1;
    }
    if count == 0 {
        return Err(tokens.expected(what));
    }
    tokens.take(count);
    Ok(tokens.source().between(start, tokens.place()).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::{Command, parse_script};

    fn merge(text: &str) -> MergeInto {
        match parse_script(text).unwrap().pop().unwrap().command {
            Command::Merge(merge) => *merge,
            other => panic!("{other:?}"),
        }
    }

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    #[test]
    fn a_merge_is_read_clause_by_clause() {
        let found = merge(
            "MERGE WITH SCHEMA EVOLUTION INTO web.users AS t USING updates u ON t.id = u.id
             WHEN MATCHED AND u.gone THEN DELETE
             WHEN MATCHED AND CASE WHEN u.v > t.v THEN true ELSE false END THEN UPDATE SET *
             WHEN NOT MATCHED BY TARGET THEN INSERT (id, t.v) VALUES (u.id, coalesce(u.v, 0))
             WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = t.v + 1, old = true;",
        );
        assert!(found.evolve_schema);
        assert_eq!((found.target_alias.as_str(), found.source_alias.as_str()), ("t", "u"));
        assert_eq!(found.condition, "t.id = u.id");
        let clause = |when, condition: Option<&str>, action| MergeIntoClause {
            when,
            condition: condition.map(str::to_owned),
            action,
        };
        use MergeIntoAction as Action;
        let case = "CASE WHEN u.v > t.v THEN true ELSE false END";
        assert_eq!(
            found.clauses,
            [
                clause(RowMatch::Matched, Some("u.gone"), Action::Delete),
                clause(RowMatch::Matched, Some(case), Action::UpdateAll),
                clause(
                    RowMatch::NotMatched,
                    None,
                    Action::Insert(pairs(&[("id", "u.id"), ("t.v", "coalesce(u.v, 0)")])),
                ),
                clause(
                    RowMatch::NotMatchedBySource,
                    None,
                    Action::Update(pairs(&[("v", "t.v + 1"), ("old", "true")])),
                ),
            ]
        );
    }

    #[test]
    fn a_source_may_be_a_query_and_names_stand_for_themselves() {
        let found = merge(
            "MERGE INTO users USING (SELECT id, max(v) AS v FROM updates GROUP BY id) s
             ON users.id = s.id WHEN NOT MATCHED THEN INSERT *",
        );
        assert_eq!((found.target_alias.as_str(), found.source_alias.as_str()), ("users", "s"));
        assert!(matches!(found.source, MergeSource::Query(_)));
        assert_eq!(
            merge("MERGE INTO a USING b ON a.x = b.x WHEN MATCHED THEN DELETE").source_alias,
            "b"
        );
    }

    #[test]
    fn what_is_missing_is_said_with_its_place() {
        for (text, expected) in [
            ("MERGE INTO t", "expected USING"),
            ("MERGE INTO t USING s", "expected ON"),
            ("MERGE INTO t USING s ON t.a = s.a", "expected WHEN"),
            (
                "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN INSERT *",
                "expected DELETE or UPDATE SET",
            ),
            ("MERGE INTO t USING s ON t.a = s.a WHEN NOT MATCHED THEN DELETE", "expected INSERT"),
            (
                "MERGE INTO t USING s ON t.a = s.a WHEN NOT MATCHED THEN INSERT (a, b) VALUES (1)",
                "as many values as columns",
            ),
        ] {
            let error = parse_script(text).unwrap_err();
            assert!(error.message().contains(expected), "{error}");
        }
    }
}
