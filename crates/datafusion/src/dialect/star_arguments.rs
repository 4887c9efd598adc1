//! Stars among the arguments of a function: `to_json(struct(*))`, `concat(t.*)`. They stand for
//! the columns of what the SELECT reads.

use super::parse::plan_query;
use datafusion::common::DFSchema;
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident,
    ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, VisitMut,
    VisitorMut, WildcardAdditionalOptions,
};
use std::ops::ControlFlow;

/// Stars of different tables and subqueries that one query may have.
const STARS_MAX: usize = 256;

/// Puts columns in place of the stars. What cannot be read is left to the planner's refusal.
pub(super) async fn expand(state: &SessionState, query: &mut Query) {
    for _ in 0..STARS_MAX {
        let mut first = Selects { columns: None, found: None };
        let _: ControlFlow<()> = query.visit(&mut first);
        let Some((select, star)) = first.found else { return };
        let probe = probe(query, select, star.as_ref());
        let Ok(plan) = Box::pin(plan_query(state, probe)).await else { return };
        let columns = columns(plan.schema(), star.as_ref());
        let _: ControlFlow<()> = query.visit(&mut Selects { columns: Some(columns), found: None });
    }
}

/// A query of the star alone, to learn its columns.
fn probe(query: &Query, mut select: Select, star: Option<&ObjectName>) -> Query {
    let options = WildcardAdditionalOptions::default();
    select.projection = vec![match star {
        None => SelectItem::Wildcard(options),
        Some(name) => SelectItem::QualifiedWildcard(
            SelectItemQualifiedWildcardKind::ObjectName(name.clone()),
            options,
        ),
    }];
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

fn columns(schema: &DFSchema, star: Option<&ObjectName>) -> Vec<Expr> {
    let quoted = |name: &str| Ident::with_quote('`', name);
    let of = |name: &str, around: Vec<Ident>| match around.is_empty() {
        true => Expr::Identifier(quoted(name)),
        false => Expr::CompoundIdentifier(around.into_iter().chain([quoted(name)]).collect()),
    };
    let column = |(at, (qualifier, field)): (usize, (Option<&_>, &std::sync::Arc<_>))| {
        let qualifier: Option<&datafusion::common::TableReference> = qualifier;
        let field: &arrow::datatypes::Field = field;
        if let Some(star) = star {
            let parts = star.0.iter().filter_map(|part| part.as_ident().cloned());
            return of(field.name(), parts.collect());
        }
        let mut others = schema.fields().iter().enumerate();
        let is_there_twice = others.any(|(i, other)| i != at && other.name() == field.name());
        let table = qualifier.filter(|_| is_there_twice).map(|table| quoted(table.table()));
        of(field.name(), table.into_iter().collect())
    };
    schema.iter().enumerate().map(column).collect()
}

/// Finds the first SELECT with a star among arguments, and that star; with columns, replaces it
/// wherever it is in that SELECT.
struct Selects {
    columns: Option<Vec<Expr>>,
    found: Option<(Select, Option<ObjectName>)>,
}

impl VisitorMut for Selects {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut stars = Stars { star: None, columns: None, queries: 0 };
        let whole = select.clone();
        stars.of_select(select);
        let Some(star) = stars.star else { return ControlFlow::Continue(()) };
        if let Some(columns) = self.columns.take() {
            let columns = Some(columns);
            Stars { star: Some(star), columns, queries: 0 }.of_select(select);
        } else {
            self.found = Some((whole, star));
        }
        ControlFlow::Break(())
    }
}

struct Stars {
    /// The one that is meant: `*`, or `t.*` with its name.
    star: Option<Option<ObjectName>>,
    columns: Option<Vec<Expr>>,
    /// How many subqueries are around: theirs are other columns.
    queries: usize,
}

impl Stars {
    fn of_select(&mut self, select: &mut Select) {
        let _: ControlFlow<()> = select.projection.visit(self);
        let _: ControlFlow<()> = select.selection.visit(self);
        let _: ControlFlow<()> = select.group_by.visit(self);
        let _: ControlFlow<()> = select.having.visit(self);
    }

    /// Notes a star, or tells what to put in its place.
    fn meet(&mut self, found: Option<&ObjectName>) -> Option<&[Expr]> {
        let star = self.star.get_or_insert_with(|| found.cloned());
        match &self.columns {
            Some(columns) if star.as_ref() == found => Some(columns),
            _ => None,
        }
    }

    fn arguments(&mut self, function: &mut Function) {
        if function.name.to_string().eq_ignore_ascii_case("count") {
            return;
        }
        let FunctionArguments::List(list) = &mut function.args else { return };
        let mut args = Vec::with_capacity(list.args.len());
        for arg in list.args.drain(..) {
            let columns = match &arg {
                FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => self.meet(None),
                FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(name)) => {
                    self.meet(Some(name))
                }
                _ => None,
            };
            match columns {
                Some(columns) => args.extend(
                    columns.iter().map(|c| FunctionArg::Unnamed(FunctionArgExpr::Expr(c.clone()))),
                ),
                None => args.push(arg),
            }
        }
        list.args = args;
    }

    fn values(&mut self, values: &mut Vec<Expr>) {
        for value in std::mem::take(values) {
            let columns = match &value {
                Expr::Wildcard(_) => self.meet(None),
                Expr::QualifiedWildcard(name, _) => self.meet(Some(name)),
                _ => None,
            };
            match columns {
                Some(columns) => values.extend_from_slice(columns),
                None => values.push(value),
            }
        }
    }
}

impl VisitorMut for Stars {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            _ if self.queries > 0 => {}
            Expr::Function(function) => self.arguments(function),
            Expr::Struct { values, .. } => self.values(values),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
