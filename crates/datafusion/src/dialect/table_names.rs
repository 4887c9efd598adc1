//! Names of tables and views, whatever their case: Spark finds `events` for `Events`.

use datafusion::common::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectNamePart, Query, VisitMut, VisitorMut};
use std::ops::ControlFlow;

/// Spells the name of a table that was not found as the catalog does, if one table has it in
/// another case. Tells whether there was anything to do.
pub(super) fn respell(state: &SessionState, error: &DataFusionError, query: &mut Query) -> bool {
    let Some(path) = missing(error) else { return false };
    let [catalog, schema, name] = path.split('.').collect::<Vec<_>>()[..] else { return false };
    let schema = state.catalog_list().catalog(catalog).and_then(|c| c.schema(schema));
    let names = schema.map(|schema| schema.table_names()).unwrap_or_default();
    let mut same = names.iter().filter(|n| n.as_str() != name && n.eq_ignore_ascii_case(name));
    let (Some(meant), None) = (same.next(), same.next()) else { return false };
    let mut respell = Respell { name, meant, replaced: false };
    let _: ControlFlow<()> = query.visit(&mut respell);
    respell.replaced
}

/// The table that an error is about.
fn missing(error: &DataFusionError) -> Option<&str> {
    match error {
        DataFusionError::Plan(text) => {
            text.strip_prefix("table '")?.split_once("' not found").map(|(path, _)| path)
        }
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            missing(inner)
        }
        DataFusionError::Shared(inner) => missing(inner),
        _ => None,
    }
}

struct Respell<'a> {
    name: &'a str,
    meant: &'a str,
    replaced: bool,
}

impl VisitorMut for Respell<'_> {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        if let Some(ObjectNamePart::Identifier(ident)) = relation.0.last_mut()
            && ident.value == self.name
        {
            self.meant.clone_into(&mut ident.value);
            self.replaced = true;
        }
        ControlFlow::Continue(())
    }
}
