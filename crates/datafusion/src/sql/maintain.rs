//! `OPTIMIZE`, `VACUUM` and `DESCRIBE HISTORY`.

use crate::sql::relation::TableName;
use crate::sql::token::Tokens;
use datafusion::sql::sqlparser::tokenizer::Token;
use fluvial_core::Result;

/// A statement about a Delta table as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Maintain {
    /// The table.
    pub table: TableName,
    /// What is done.
    pub work: Maintenance,
}

/// What is done with a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maintenance {
    /// `OPTIMIZE table`: small files become larger ones.
    Optimize,
    /// `VACUUM table [RETAIN n HOURS] [DRY RUN]`: files that no version needs go.
    Vacuum {
        /// How long files stay that newer versions do not have.
        retain_hours: Option<u64>,
        /// Whether they are only named.
        dry_run: bool,
    },
    /// `DESCRIBE HISTORY table [LIMIT n]`: its versions, the newest first.
    History {
        /// So many.
        limit: Option<u64>,
    },
}

/// Reads what stands behind OPTIMIZE.
pub(super) fn optimize(tokens: &mut Tokens<'_>) -> Result<Maintain> {
    Ok(Maintain { table: table(tokens)?, work: Maintenance::Optimize })
}

/// Reads what stands behind VACUUM.
pub(super) fn vacuum(tokens: &mut Tokens<'_>) -> Result<Maintain> {
    let table = table(tokens)?;
    let mut retain_hours = None;
    if tokens.word("RETAIN") {
        retain_hours = Some(number(tokens)?);
        tokens.expect_word("HOURS")?;
    }
    let dry_run = tokens.words(&["DRY", "RUN"]);
    Ok(Maintain { table, work: Maintenance::Vacuum { retain_hours, dry_run } })
}

/// Reads what stands behind DESCRIBE HISTORY.
pub(super) fn history(tokens: &mut Tokens<'_>) -> Result<Maintain> {
    let table = table(tokens)?;
    let limit = if tokens.word("LIMIT") { Some(number(tokens)?) } else { None };
    Ok(Maintain { table, work: Maintenance::History { limit } })
}

fn table(tokens: &mut Tokens<'_>) -> Result<TableName> {
    Ok(TableName::new(tokens.dotted("a table")?))
}

fn number(tokens: &mut Tokens<'_>) -> Result<u64> {
    let number = match tokens.peek() {
        Token::Number(text, _) => text.parse().ok(),
        _ => None,
    };
    match number {
        Some(number) => {
            tokens.next();
            Ok(number)
        }
        None => Err(tokens.expected("a whole number")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::{Command, parse_script};

    #[test]
    fn statements_about_a_table_are_read() {
        let work = |text: &str| match parse_script(text).unwrap().pop().unwrap().command {
            Command::Maintain(maintain) => (maintain.table.to_string(), maintain.work),
            other => panic!("{other:?}"),
        };
        assert_eq!(work("OPTIMIZE web.clicks"), ("web.clicks".into(), Maintenance::Optimize));
        let vacuum = |retain_hours, dry_run| Maintenance::Vacuum { retain_hours, dry_run };
        assert_eq!(work("VACUUM t").1, vacuum(None, false));
        assert_eq!(work("vacuum t RETAIN 200 HOURS DRY RUN").1, vacuum(Some(200), true));
        let history = |limit| Maintenance::History { limit };
        assert_eq!(work("DESCRIBE HISTORY t LIMIT 3").1, history(Some(3)));
        assert_eq!(work("DESC HISTORY t").1, history(None));
        assert!(parse_script("VACUUM t RETAIN x HOURS").is_err());
    }
}
