//! `SELECT s.*` of a struct `s`: its fields as columns. A table of that name comes first, so this
//! is tried when there is none.

use super::extension::text;
use super::parse::plan_lowered;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, GroupByExpr, Ident, ObjectName, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, VisitMut, VisitorMut, WildcardAdditionalOptions,
};
use std::ops::ControlFlow;

/// Puts the fields in place of the first star of a struct, if planning found no such table. Tells
/// whether there was anything to do.
pub(super) async fn expand(
    state: &SessionState,
    error: &DataFusionError,
    query: &mut Query,
) -> bool {
    let Some(name) = qualifier(error) else { return false };
    let mut first = Stars { name, found: None, fields: None };
    let _: ControlFlow<()> = query.visit(&mut first);
    let Some((select, star)) = first.found else { return false };
    let probe = probe(query, select, &star);
    let Ok(plan) = Box::pin(plan_lowered(state, probe)).await else { return false };
    let DataType::Struct(fields) = plan.schema().field(0).data_type() else { return false };
    let fields = fields.iter().map(|field| field.name().clone()).collect();
    let mut put = Stars { name, found: None, fields: Some(fields) };
    let _: ControlFlow<()> = query.visit(&mut put);
    true
}

/// What stands in front of a star and is no table.
fn qualifier(error: &DataFusionError) -> Option<&str> {
    match error {
        DataFusionError::Plan(text) => text.strip_prefix("Invalid qualifier "),
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            qualifier(inner)
        }
        DataFusionError::Shared(inner) => qualifier(inner),
        _ => None,
    }
}

/// A query that has the struct alone, to learn its type.
fn probe(query: &Query, mut select: Select, star: &ObjectName) -> Query {
    select.projection = vec![SelectItem::UnnamedExpr(whole(star))];
    select.distinct = None;
    select.group_by = GroupByExpr::Expressions(Vec::new(), Vec::new());
    (select.having, select.qualify) = (None, None);
    Query {
        body: Box::new(SetExpr::Select(Box::new(select))),
        order_by: None,
        limit_clause: None,
        ..query.clone()
    }
}

fn whole(star: &ObjectName) -> Expr {
    let parts: Vec<Ident> = star.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
    match <[Ident; 1]>::try_from(parts) {
        Ok([only]) => Expr::Identifier(only),
        Err(parts) => Expr::CompoundIdentifier(parts),
    }
}

/// Finds the first star of that name, and puts fields in its place where they are known.
struct Stars<'a> {
    name: &'a str,
    found: Option<(Select, ObjectName)>,
    fields: Option<Vec<String>>,
}

impl VisitorMut for Stars<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let at = select.projection.iter().enumerate().find_map(|(i, item)| match item {
            SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(star),
                options,
            ) if plain(options) && self.is_it(star) => Some((i, star.clone())),
            _ => None,
        });
        let Some((at, star)) = at else { return ControlFlow::Continue(()) };
        self.found = Some((select.clone(), star.clone()));
        let Some(fields) = &self.fields else { return ControlFlow::Break(()) };
        let columns = fields.iter().map(|field| SelectItem::ExprWithAlias {
            expr: Expr::CompoundFieldAccess {
                root: Box::new(whole(&star)),
                access_chain: vec![AccessExpr::Dot(text(field.clone()))],
            },
            alias: Ident::with_quote('`', field),
        });
        let columns: Vec<SelectItem> = columns.collect();
        select.projection.splice(at..=at, columns);
        ControlFlow::Break(())
    }
}

impl Stars<'_> {
    fn is_it(&self, star: &ObjectName) -> bool {
        let parts = star.0.iter().filter_map(|part| part.as_ident());
        parts.map(|ident| ident.value.as_str()).eq(self.name.split('.'))
    }
}

/// Whether nothing is left out or replaced.
fn plain(options: &WildcardAdditionalOptions) -> bool {
    let WildcardAdditionalOptions { opt_exclude, opt_except, opt_replace, opt_rename, .. } =
        options;
    opt_exclude.is_none() && opt_except.is_none() && opt_replace.is_none() && opt_rename.is_none()
}
