//! Scripts: statements with semicolons between them.

use crate::dialect::SparkDialect;
use crate::sql::create;
use crate::sql::limits;
use crate::sql::lower::lower;
use crate::sql::maintain;
use crate::sql::merge;
use crate::sql::place::Source;
use crate::sql::relation::{LoweredQuery, TableName};
use crate::sql::statement::{Command, DropTable, Missing, RelationKind, SetOption, Statement};
use crate::sql::token::{Tokens, is_word, shown, string, tokenize};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use fluvial_core::options::nearest;
use fluvial_core::{Error, Result};

/// Reads a script.
///
/// Statements end with a semicolon, except perhaps the last one; there may be comments anywhere.
/// Nothing is looked up: whether tables, columns and functions exist is seen when a statement
/// is run.
///
/// # Errors
///
/// `Invalid`: what is wrong, the line and column, and the line itself with a mark below the
/// column. The condition is `PARSE_SYNTAX_ERROR` unless the mistake has a name of its own.
pub fn parse_script(text: &str) -> Result<Vec<Statement>> {
    // A byte order mark is not SQL, and editors on some systems write one.
    let source = Source::new(text.strip_prefix('\u{feff}').unwrap_or(text));
    let dialect: &dyn Dialect = &SparkDialect;
    let tokens = tokenize(&source, dialect)?;
    let mut statements = Vec::new();
    let mut start = 0;
    while start < tokens.len() {
        let ends = |token: &TokenWithSpan| token.token == Token::SemiColon;
        let end = tokens[start..].iter().position(ends).map_or(tokens.len(), |at| start + at);
        if end > start {
            let place = tokens.get(end).map_or(source.end(), |token| token.span.start.into());
            let script = Script { source: &source, dialect };
            let cursor = Tokens::new(&source, &tokens[start..end], place);
            statements.push(script.statement(&tokens[start..end], cursor)?);
        }
        start = end + 1;
    }
    Ok(statements)
}

/// The statements that there are.
const KNOWN: [&str; 9] =
    ["CREATE", "SELECT", "MERGE", "OPTIMIZE", "VACUUM", "SET", "SHOW", "DESCRIBE", "DROP"];

struct Script<'a> {
    source: &'a Source<'a>,
    dialect: &'a dyn Dialect,
}

impl Script<'_> {
    fn statement(&self, all: &[TokenWithSpan], mut tokens: Tokens<'_>) -> Result<Statement> {
        let place = tokens.place();
        let text = self.source.between(place, tokens.end()).to_owned();
        let closing = limits::check(self.source, all)?;
        let command = self.command(all, &closing, &mut tokens)?;
        tokens.expect_done("the statement")?;
        Ok(Statement { command, text, place })
    }

    fn command(
        &self,
        all: &[TokenWithSpan],
        closing: &[usize],
        tokens: &mut Tokens<'_>,
    ) -> Result<Command> {
        let query = |tokens: &mut Tokens<'_>| self.query(all, closing, tokens);
        let starts = ["SELECT", "WITH", "VALUES"].iter().any(|word| is_word(tokens.peek(), word));
        if starts || *tokens.peek() == Token::LParen {
            return Ok(Command::Query(Box::new(query(tokens)?)));
        }
        if tokens.word("CREATE") {
            return create::parse(tokens, query);
        }
        if tokens.word("MERGE") {
            let lower = |range, end| lower(self.source, self.dialect, all, closing, range, end);
            let merge = merge::parse(tokens, all, closing, lower)?;
            return Ok(Command::Merge(Box::new(merge)));
        }
        if tokens.word("OPTIMIZE") {
            return maintain::optimize(tokens).map(Command::Maintain);
        }
        if tokens.word("VACUUM") {
            return maintain::vacuum(tokens).map(Command::Maintain);
        }
        if tokens.word("SET") {
            return set(tokens).map(Command::Set);
        }
        if tokens.words(&["SHOW", "TABLES"]) {
            return Ok(Command::ShowTables);
        }
        if tokens.word("DESCRIBE") || tokens.word("DESC") {
            if tokens.word("HISTORY") {
                return maintain::history(tokens).map(Command::Maintain);
            }
            tokens.word("TABLE");
            return Ok(Command::DescribeTable(TableName::new(tokens.dotted("a table")?)));
        }
        if tokens.word("DROP") {
            return drop_table(tokens).map(Command::Drop);
        }
        Err(unknown_statement(tokens))
    }

    /// Lowers everything that is left.
    fn query(
        &self,
        all: &[TokenWithSpan],
        closing: &[usize],
        tokens: &mut Tokens<'_>,
    ) -> Result<LoweredQuery> {
        let start = all.len() - tokens.remaining();
        if tokens.is_done() {
            return Err(tokens.expected("a query"));
        }
        let end = tokens.end();
        tokens.rest();
        lower(self.source, self.dialect, all, closing, start..all.len(), end)
    }
}

fn set(tokens: &mut Tokens<'_>) -> Result<SetOption> {
    let key = if tokens.words(&["TIME", "ZONE"]) {
        "timezone".to_owned()
    } else {
        let key = tokens.dotted("the name of a setting")?.join(".");
        tokens.expect(&Token::Eq)?;
        key
    };
    let place = tokens.place();
    if tokens.is_done() {
        return Err(tokens.expected("the value of the setting"));
    }
    // A value need not be a literal: SET spark.sql.shuffle.partitions = 4, SET trigger = 30s.
    let value = match (tokens.remaining(), string(tokens.peek())) {
        (1, Some(text)) => text.to_owned(),
        _ => tokens.source().between(place, tokens.end()).to_owned(),
    };
    tokens.rest();
    Ok(SetOption { key, value })
}

fn drop_table(tokens: &mut Tokens<'_>) -> Result<DropTable> {
    let kind = if tokens.word("TABLE") {
        RelationKind::Table
    } else if tokens.word("VIEW") {
        RelationKind::View
    } else {
        return Err(tokens.expected("TABLE or VIEW"));
    };
    let if_exists = tokens.words(&["IF", "EXISTS"]);
    let missing = if if_exists { Missing::Ignore } else { Missing::Refuse };
    let name = create::new_name(tokens)?;
    Ok(DropTable { name, kind, missing })
}

/// What to write for a statement of SQL that a script does not have.
fn instead(found: &str) -> Option<&'static str> {
    Some(match found {
        "INSERT" => {
            "rows are written by CREATE STREAMING TABLE .. AS SELECT, and into a Delta table by \
             MERGE INTO .. WHEN NOT MATCHED THEN INSERT *"
        }
        "UPDATE" => {
            "rows of a Delta table are changed by MERGE INTO .. WHEN MATCHED THEN UPDATE SET .."
        }
        "DELETE" | "TRUNCATE" => {
            "rows of a Delta table are deleted by MERGE INTO .. WHEN MATCHED THEN DELETE"
        }
        _ => return None,
    })
}

fn unknown_statement(tokens: &Tokens<'_>) -> Error {
    let found = shown(tokens.peek()).to_uppercase();
    let hint = match (instead(&found), nearest(&found, &KNOWN)) {
        (Some(instead), _) => instead.to_owned(),
        (None, Some(near)) if near != found => format!("did you mean {near}?"),
        _ => "a script has CREATE STREAMING TABLE, CREATE VIEW, SELECT, MERGE, OPTIMIZE, VACUUM, SET, \
              SHOW TABLES, DESCRIBE TABLE, DESCRIBE HISTORY and DROP"
            .to_owned(),
    };
    let message = format!("{found} is not a statement here: {hint}");
    tokens.source().named_error("UNSUPPORTED_STATEMENT", tokens.place(), message)
}
