//! `_metadata` in SQL: a SELECT that names it reads its tables with it.

use crate::hidden::with_metadata;
use crate::session::Session;
use datafusion::dataframe::DataFrame;
use datafusion::sql::sqlparser::ast::{
    ExceptSelectItem, Expr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableAlias, TableFactor, Visit, VisitMut, Visitor,
    VisitorMut, WildcardAdditionalOptions,
};
use fluvial_core::Result;
use fluvial_datafusion::from_datafusion;
use fluvial_sources::METADATA;
use std::ops::ControlFlow;

/// Names of tables with the column, for as long as a query is planned.
const PREFIX: &str = "__fluvial_metadata_";

/// Gives the tables of every SELECT that names `_metadata` that column, and registers them under
/// reserved names, which the caller takes away when the query is planned.
///
/// # Errors
///
/// What planning a table gives.
pub(crate) async fn expose(session: &Session, query: &mut Query) -> Result<Vec<String>> {
    let mut wanted = Tables::default();
    let _: ControlFlow<()> = query.visit(&mut wanted);
    let mut registered = Vec::new();
    let mut renamed = Vec::new();
    for table in wanted.found {
        let Ok(frame) = session.table(&table).await else { continue };
        let (state, plan) = frame.into_parts();
        let Some(plan) = with_metadata(&plan).map_err(from_datafusion)? else { continue };
        let name = format!("{PREFIX}{}", registered.len());
        let view = DataFrame::new(state, plan).into_view();
        session.context().register_table(name.as_str(), view).map_err(from_datafusion)?;
        registered.push(name.clone());
        renamed.push((table, name));
    }
    if !renamed.is_empty() {
        let _: ControlFlow<()> = query.visit(&mut Rename { renamed: &renamed });
    }
    Ok(registered)
}

/// The tables of the SELECTs that name the column.
#[derive(Default)]
struct Tables {
    found: Vec<String>,
}

impl VisitorMut for Tables {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        each_select(&mut query.body, &mut |select| {
            if !names_it(select) {
                return;
            }
            for factor in factors(select) {
                if let TableFactor::Table { name, .. } = factor {
                    let name = name.to_string();
                    if !self.found.contains(&name) {
                        self.found.push(name);
                    }
                }
            }
        });
        ControlFlow::Continue(())
    }
}

struct Rename<'a> {
    renamed: &'a [(String, String)],
}

impl VisitorMut for Rename<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::CompoundIdentifier(parts) = expr {
            let named = parts.iter_mut().take(2).filter(|ident| is_hidden(ident));
            named.for_each(|ident| METADATA.clone_into(&mut ident.value));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        each_select(&mut query.body, &mut |select| {
            if !names_it(select) {
                return;
            }
            let mut with: Vec<String> = Vec::new();
            for factor in factors(select) {
                let TableFactor::Table { name, alias, .. } = factor else { continue };
                let whole = name.to_string();
                let Some((_, new)) = self.renamed.iter().find(|(old, _)| *old == whole) else {
                    continue;
                };
                let last = name.0.last().and_then(ObjectNamePart::as_ident).cloned();
                if let (None, Some(last)) = (&alias, last) {
                    *alias = Some(TableAlias {
                        explicit: false,
                        name: last,
                        columns: Vec::new(),
                        at: None,
                    });
                }
                with.extend(alias.iter().map(|alias| alias.name.value.clone()));
                *name = ObjectName::from(vec![Ident::new(new)]);
            }
            select.projection.iter_mut().for_each(|item| hide(item, &with));
        });
        ControlFlow::Continue(())
    }
}

fn is_hidden(ident: &Ident) -> bool {
    ident.value.eq_ignore_ascii_case(METADATA)
}

/// `*` does not mean the hidden column.
fn hide(item: &mut SelectItem, tables: &[String]) {
    let options: &mut WildcardAdditionalOptions = match item {
        SelectItem::Wildcard(options) if !tables.is_empty() => options,
        SelectItem::QualifiedWildcard(
            SelectItemQualifiedWildcardKind::ObjectName(name),
            options,
        ) if tables.contains(&name.to_string()) => options,
        _ => return,
    };
    let hidden = Ident::new(METADATA);
    match &mut options.opt_except {
        Some(except) => except.additional_elements.push(hidden),
        none => {
            let additional_elements = Vec::new();
            *none = Some(ExceptSelectItem { first_element: hidden, additional_elements });
        }
    }
}

fn each_select(body: &mut SetExpr, f: &mut dyn FnMut(&mut Select)) {
    match body {
        SetExpr::Select(select) => f(select),
        SetExpr::SetOperation { left, right, .. } => {
            each_select(left, f);
            each_select(right, f);
        }
        _ => {}
    }
}

fn factors(select: &mut Select) -> impl Iterator<Item = &mut TableFactor> {
    select.from.iter_mut().flat_map(|table| {
        std::iter::once(&mut table.relation)
            .chain(table.joins.iter_mut().map(|join| &mut join.relation))
    })
}

/// Whether a SELECT names the column outside of the queries in it.
fn names_it(select: &Select) -> bool {
    let mut look = Look { depth: 0, found: false };
    let _: ControlFlow<()> = select.visit(&mut look);
    look.found
}

struct Look {
    depth: usize,
    found: bool,
}

impl Visitor for Look {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        self.found |= self.depth == 0
            && match expr {
                Expr::Identifier(ident) => is_hidden(ident),
                Expr::CompoundIdentifier(parts) => parts.iter().take(2).any(is_hidden),
                _ => false,
            };
        ControlFlow::Continue(())
    }
}
