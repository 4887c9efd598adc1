//! `OVER w` and `WINDOW w AS (..)`: the window in place of its name. DataFusion does so too, but
//! not where frames are read, and it passes over the frame of a window that is named in brackets.

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, NamedWindowDefinition, NamedWindowExpr, Query, Select, VisitMut, VisitorMut,
    WindowSpec, WindowType,
};
use std::ops::ControlFlow;

/// Puts the windows of a SELECT in place of their names. Names that it does not know stay.
pub(super) fn resolve(select: &mut Select) {
    if select.named_window.is_empty() {
        return;
    }
    let windows = std::mem::take(&mut select.named_window);
    let mut names = Names { windows: &windows, queries: 0 };
    let _: ControlFlow<()> = select.projection.visit(&mut names);
    let _: ControlFlow<()> = select.qualify.visit(&mut names);
}

struct Names<'a> {
    windows: &'a [NamedWindowDefinition],
    /// How many subqueries are around: they have windows of their own.
    queries: usize,
}

impl Names<'_> {
    fn spec(&self, name: &Ident) -> Option<&WindowSpec> {
        let mut name = name;
        // One window may be another by name; a circle has no end.
        for _ in 0..=self.windows.len() {
            let NamedWindowDefinition(_, window) =
                self.windows.iter().find(|window| window.0.value == name.value)?;
            match window {
                NamedWindowExpr::NamedWindow(other) => name = other,
                NamedWindowExpr::WindowSpec(spec) => match only_a_name(spec) {
                    Some(other) => name = other,
                    None => return Some(spec),
                },
            }
        }
        None
    }
}

/// The name, of `(w)`.
fn only_a_name(spec: &WindowSpec) -> Option<&Ident> {
    let WindowSpec { window_name, partition_by, order_by, window_frame } = spec;
    let alone = partition_by.is_empty() && order_by.is_empty() && window_frame.is_none();
    window_name.as_ref().filter(|_| alone)
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
        let name = match &function.over {
            Some(WindowType::NamedWindow(name)) => Some(name),
            Some(WindowType::WindowSpec(spec)) => only_a_name(spec),
            None => None,
        };
        if self.queries == 0
            && let Some(spec) = name.and_then(|name| self.spec(name))
        {
            function.over = Some(WindowType::WindowSpec(spec.clone()));
        }
        ControlFlow::Continue(())
    }
}
