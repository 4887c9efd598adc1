//! Fields of structs before planning.

use super::extension::text;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, Expr, Ident, LambdaFunction, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

/// Makes `s.name` in the body of a lambda a field of its parameter `s`: it would be a column.
pub(super) fn of_parameters(lambda: &mut LambdaFunction) {
    let names = lambda.params.iter().map(|parameter| parameter.name.value.clone());
    let mut fields = Fields { parameters: names.collect() };
    let _: ControlFlow<()> = lambda.body.visit(&mut fields);
}

struct Fields {
    parameters: Vec<String>,
}

impl VisitorMut for Fields {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::CompoundIdentifier(parts) = expr else { return ControlFlow::Continue(()) };
        let [first, fields @ ..] = parts.as_slice() else { return ControlFlow::Continue(()) };
        if self.parameters.iter().any(|name| name.eq_ignore_ascii_case(&first.value)) {
            let chain = fields.iter().map(|field| AccessExpr::Dot(Expr::Identifier(field.clone())));
            *expr = Expr::CompoundFieldAccess {
                root: Box::new(Expr::Identifier(first.clone())),
                access_chain: chain.collect(),
            };
        }
        ControlFlow::Continue(())
    }
}

/// If one value of a struct has a name, all have: `struct(x, 2 * x AS y)`.
pub(super) fn named_together(values: Vec<Expr>) -> Vec<Expr> {
    if !values.iter().any(|value| matches!(value, Expr::Named { .. })) {
        return values;
    }
    let named = |(i, value): (usize, Expr)| {
        let name = match &value {
            Expr::Named { .. } => return value,
            Expr::Identifier(name) => Some(name.clone()),
            Expr::CompoundIdentifier(parts) => parts.last().cloned(),
            _ => None,
        };
        let name = name.unwrap_or_else(|| Ident::new(format!("col{}", i + 1)));
        Expr::Named { expr: Box::new(value), name }
    };
    values.into_iter().enumerate().map(named).collect()
}

/// `x.name` as DataFusion reads it: with the name as text.
pub(super) fn as_text(access: &mut AccessExpr) {
    if let AccessExpr::Dot(Expr::Identifier(name)) = access {
        *access = AccessExpr::Dot(text(name.value.clone()));
    }
}
