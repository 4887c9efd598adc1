//! `input_file_name()` in SQL: an older name of `_metadata.file_path`.

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArguments, Ident, Query, SelectItem, SetExpr, VisitMut, VisitorMut,
};
use fluvial_sources::METADATA;
use std::ops::ControlFlow;

const NAME: &str = "input_file_name";

/// Puts the column in place of every call. A call that is a column of the result keeps its name.
pub(crate) fn replace(query: &mut Query) {
    let _: ControlFlow<()> = query.visit(&mut Replace);
}

struct Replace;

impl VisitorMut for Replace {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        name_columns(&mut query.body);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if is_call(expr) {
            *expr = Expr::CompoundIdentifier(vec![Ident::new(METADATA), Ident::new("file_path")]);
        }
        ControlFlow::Continue(())
    }
}

fn name_columns(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            for item in &mut select.projection {
                if let SelectItem::UnnamedExpr(expr) = item
                    && is_call(expr)
                {
                    let alias = Ident::with_quote('`', format!("{NAME}()"));
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                }
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            name_columns(left);
            name_columns(right);
        }
        _ => {}
    }
}

fn is_call(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    let empty = match &function.args {
        FunctionArguments::None => true,
        FunctionArguments::List(list) => list.args.is_empty(),
        FunctionArguments::Subquery(_) => false,
    };
    empty && function.name.to_string().eq_ignore_ascii_case(NAME)
}
