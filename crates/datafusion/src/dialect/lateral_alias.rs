//! A column of a SELECT that reads one before it: `SELECT v + 1 AS p, p * 2 AS q`. A column of the
//! input of that name comes first, so this is tried when there is none.

use super::names;
use super::session::name_case;
use crate::functions::error::spark;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, Query, Select, SelectItem, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

/// Puts the expression in place of its name, where planning did not find the name. Tells whether
/// there was anything to do.
///
/// # Errors
///
/// `UNSUPPORTED_FEATURE.LATERAL_COLUMN_ALIAS_..` if the name stands in an aggregate or a window
/// function: Spark does not say what it would mean.
pub(super) fn resolve(
    state: &SessionState,
    error: &DataFusionError,
    query: &mut Query,
) -> Result<bool> {
    let Some((column, _, span)) = names::unknown_field(error) else { return Ok(false) };
    if column.relation.is_some() {
        return Ok(false);
    }
    let at = span.map(|span| (span.start.line, span.start.column));
    let name = column.name.as_str();
    let mut resolver = Resolver { name, at, state, replaced: false };
    match query.visit(&mut resolver) {
        ControlFlow::Continue(()) => Ok(resolver.replaced),
        ControlFlow::Break(within) => Err(spark(
            within.condition(),
            format!(
                "`{name}` is a column of the same SELECT, which {} cannot read: write the \
                 expression itself, or select it in a subquery",
                within.name()
            ),
        )),
    }
}

/// What a column of the same SELECT does not mean anything in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Within {
    Aggregate,
    Window,
}

impl Within {
    /// The function, if it is one of them.
    fn of(state: &SessionState, function: &Function) -> Option<Self> {
        let name = function.name.to_string().to_ascii_lowercase();
        if function.over.is_some() {
            return Some(Self::Window);
        }
        state.aggregate_functions().contains_key(&name).then_some(Self::Aggregate)
    }

    fn condition(self) -> &'static str {
        match self {
            Self::Aggregate => "UNSUPPORTED_FEATURE.LATERAL_COLUMN_ALIAS_IN_AGGREGATE_FUNC",
            Self::Window => "UNSUPPORTED_FEATURE.LATERAL_COLUMN_ALIAS_IN_WINDOW",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Aggregate => "an aggregate function",
            Self::Window => "a window function",
        }
    }
}

struct Resolver<'a> {
    name: &'a str,
    at: Option<(u64, u64)>,
    state: &'a SessionState,
    replaced: bool,
}

impl VisitorMut for Resolver<'_> {
    type Break = Within;

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Within> {
        let case = name_case(self.state);
        let mut meant: Option<Expr> = None;
        for item in &mut select.projection {
            if let Some(meant) = &meant
                && let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
            {
                let mut put = Put { of: self, meant, within: Vec::new(), replaced: false };
                expr.visit(&mut put)?;
                self.replaced |= put.replaced;
            }
            if let SelectItem::ExprWithAlias { expr, alias } = item
                && case.same(&alias.value, self.name)
            {
                meant = Some(expr.clone());
            }
        }
        ControlFlow::Continue(())
    }
}

struct Put<'a> {
    of: &'a Resolver<'a>,
    meant: &'a Expr,
    /// The functions around, from the outermost.
    within: Vec<Within>,
    replaced: bool,
}

impl VisitorMut for Put<'_> {
    type Break = Within;

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Within> {
        if let Expr::Function(function) = expr {
            self.within.extend(Within::of(self.of.state, function));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Within> {
        match expr {
            Expr::Function(function) if Within::of(self.of.state, function).is_some() => {
                self.within.pop();
            }
            Expr::Identifier(ident)
                if ident.value == self.of.name
                    && self.of.at.is_none_or(|at| {
                        at == (ident.span.start.line, ident.span.start.column)
                    }) =>
            {
                if let Some(within) = self.within.last() {
                    return ControlFlow::Break(*within);
                }
                *expr = Expr::Nested(Box::new(self.meant.clone()));
                self.replaced = true;
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
