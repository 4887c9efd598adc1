//! `SELECT window.start ... GROUP BY window(time, '5 minutes')`: Spark calls the column that such a
//! group is `window`, or `session_window`. Here the name stands for the call.

use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, GroupByExpr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr,
    VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

/// Puts the call in place of its name, in what is selected, in HAVING and in ORDER BY.
pub(super) fn spell_out(query: &mut Query) {
    if let SetExpr::Select(select) = query.body.as_ref()
        && let Some(mut call) = grouped_window(select)
        && let Some(order_by) = &mut query.order_by
        && let OrderByKind::Expressions(keys) = &mut order_by.kind
    {
        for key in keys {
            let _: ControlFlow<()> = key.expr.visit(&mut call);
        }
    }
    spell_out_body(&mut query.body);
}

fn spell_out_body(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            let Some(mut call) = grouped_window(select) else { return };
            for item in &mut select.projection {
                if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
                {
                    let _: ControlFlow<()> = expr.visit(&mut call);
                }
            }
            if let Some(having) = &mut select.having {
                let _: ControlFlow<()> = having.visit(&mut call);
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            spell_out_body(left);
            spell_out_body(right);
        }
        _ => {}
    }
}

/// A call of `window` or `session_window`, and its name.
struct WindowCall {
    name: String,
    call: Expr,
}

/// The window that a SELECT groups by, unless its time has that name.
fn grouped_window(select: &Select) -> Option<WindowCall> {
    let GroupByExpr::Expressions(groups, _) = &select.group_by else { return None };
    let found = groups.iter().find_map(|group| {
        let Expr::Function(function) = group else { return None };
        let name = function.name.to_string().to_ascii_lowercase();
        let known = matches!(name.as_str(), "window" | "session_window");
        known.then(|| WindowCall { name, call: group.clone() })
    })?;
    (!found.reads_its_name()).then_some(found)
}

impl WindowCall {
    fn is_named(&self, ident: &Ident) -> bool {
        ident.value.eq_ignore_ascii_case(&self.name)
    }

    /// Whether a column among the arguments has the window's name.
    fn reads_its_name(&self) -> bool {
        use datafusion::sql::sqlparser::ast::{Visit, Visitor};
        struct Reads<'w>(&'w WindowCall);
        impl Visitor for Reads<'_> {
            type Break = ();
            fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
                let named = match expr {
                    Expr::Identifier(ident) => self.0.is_named(ident),
                    Expr::CompoundIdentifier(parts) => parts.iter().any(|p| self.0.is_named(p)),
                    _ => false,
                };
                if named { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            }
        }
        self.call.visit(&mut Reads(self)).is_break()
    }
}

impl VisitorMut for WindowCall {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(ident) if self.is_named(ident) => *expr = self.call.clone(),
            Expr::CompoundIdentifier(parts) if parts.first().is_some_and(|p| self.is_named(p)) => {
                let fields = parts.drain(1..).map(|part| AccessExpr::Dot(Expr::Identifier(part)));
                let access_chain = fields.collect();
                *expr =
                    Expr::CompoundFieldAccess { root: Box::new(self.call.clone()), access_chain };
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}
