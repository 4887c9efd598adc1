//! A column of a SELECT that reads one before it: `SELECT v + 1 AS p, p * 2 AS q`. A column of the
//! input of that name comes first, so this is tried when there is none.

use super::names;
use datafusion::common::DataFusionError;
use datafusion::sql::sqlparser::ast::{Expr, Query, Select, SelectItem, VisitMut, VisitorMut};
use fluvial_core::NameCase;
use std::ops::ControlFlow;

/// Puts the expression in place of its name, where planning did not find the name. Tells whether
/// there was anything to do.
pub(super) fn resolve(error: &DataFusionError, case: NameCase, query: &mut Query) -> bool {
    let Some((column, _, span)) = names::unknown_field(error) else { return false };
    if column.relation.is_some() {
        return false;
    }
    let at = span.map(|span| (span.start.line, span.start.column));
    let mut resolver = Resolver { name: &column.name, at, case, replaced: false };
    let _: ControlFlow<()> = query.visit(&mut resolver);
    resolver.replaced
}

struct Resolver<'a> {
    name: &'a str,
    at: Option<(u64, u64)>,
    case: NameCase,
    replaced: bool,
}

impl VisitorMut for Resolver<'_> {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut meant: Option<Expr> = None;
        for item in &mut select.projection {
            if let Some(meant) = &meant
                && let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
            {
                let mut put = Put { name: self.name, at: self.at, meant, replaced: false };
                let _: ControlFlow<()> = expr.visit(&mut put);
                self.replaced |= put.replaced;
            }
            if let SelectItem::ExprWithAlias { expr, alias } = item
                && self.case.same(&alias.value, self.name)
            {
                meant = Some(expr.clone());
            }
        }
        ControlFlow::Continue(())
    }
}

struct Put<'a> {
    name: &'a str,
    at: Option<(u64, u64)>,
    meant: &'a Expr,
    replaced: bool,
}

impl VisitorMut for Put<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(ident) = expr
            && ident.value == self.name
            && self.at.is_none_or(|at| at == (ident.span.start.line, ident.span.start.column))
        {
            *expr = Expr::Nested(Box::new(self.meant.clone()));
            self.replaced = true;
        }
        ControlFlow::Continue(())
    }
}
