//! What the statements of a script leave behind for those below them: settings and views.
//!
//! A query that is started again in the middle of a script has to be planned as it was the first
//! time: with the settings that stood above it, and with the views, which read the source that has
//! grown as well.

use fluvial::sql::{Command, DropTable, Statement};
use std::collections::BTreeSet;

/// How many of those statements stood above another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Above(usize);

/// The statements that were executed and are of that kind, in their order.
#[derive(Debug, Default)]
pub(crate) struct Scope(Vec<Statement>);

impl Scope {
    /// Where the next statement will stand.
    pub(crate) fn here(&self) -> Above {
        Above(self.0.len())
    }

    /// The statements above and below a place.
    pub(crate) fn around(&self, place: Above) -> (Vec<Statement>, Vec<Statement>) {
        let (above, below) = self.0.split_at(place.0.min(self.0.len()));
        (above.to_vec(), below.to_vec())
    }

    /// The views that there are.
    pub(crate) fn views(&self) -> BTreeSet<String> {
        let mut views = BTreeSet::new();
        for statement in &self.0 {
            match &statement.command {
                Command::CreateView(view) => views.insert(view.name.to_string()),
                Command::Drop(drop) => views.remove(&drop.name.to_string()),
                _ => false,
            };
        }
        views
    }

    /// Remembers a statement that was executed, if it is of that kind.
    pub(crate) fn executed(&mut self, statement: &Statement) {
        let keeps = match &statement.command {
            Command::Set(_) | Command::CreateView(_) => true,
            // Only of a view: a table that is dropped again would be another one.
            Command::Drop(DropTable { name, .. }) => self.views().contains(&name.to_string()),
            _ => false,
        };
        if keeps {
            self.0.push(statement.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial::sql::parse_script;

    #[test]
    fn settings_and_views_are_remembered_and_no_tables() {
        let script = "SET timezone = 'UTC'; CREATE VIEW v AS SELECT 1; DROP TABLE t; SELECT 2;
            CREATE VIEW w AS SELECT 3; DROP VIEW v; DROP TABLE IF EXISTS v; SET timezone = 'UTC'";
        let (mut scope, mut lengths) = (Scope::default(), Vec::new());
        for statement in parse_script(script).unwrap() {
            scope.executed(&statement);
            lengths.push(scope.here().0);
        }
        assert_eq!(lengths, [1, 2, 2, 2, 3, 4, 4, 5]);
        assert_eq!(scope.views(), BTreeSet::from(["w".to_owned()]));
        let (above, below) = scope.around(Above(2));
        assert_eq!((above.len(), below.len()), (2, 3));
    }
}
