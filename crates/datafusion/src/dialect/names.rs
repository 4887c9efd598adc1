//! Names of columns, whatever their case: Spark resolves `K` to a column `k`.

use datafusion::common::{Column, DFSchema, DataFusionError, SchemaError};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, SelectItem, SetExpr, Visit, VisitMut, Visitor, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::Span;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// Spells the names in an expression as the schema does.
pub(super) fn respell_expression(expr: &mut Expr, schema: &DFSchema) {
    let mut known = BTreeSet::new();
    for (qualifier, field) in schema.iter() {
        known.insert(field.name().clone());
        if let Some(qualifier) = qualifier {
            known.insert(qualifier.table().to_owned());
        }
    }
    let _: ControlFlow<()> = expr.visit(&mut Respell { known: &known });
}

struct Respell<'a> {
    known: &'a BTreeSet<String>,
}

impl VisitorMut for Respell<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(ident) => respell(ident, self.known),
            Expr::CompoundIdentifier(parts) => {
                // The rest may be fields of a struct, which are found by the planner.
                parts.iter_mut().take(2).for_each(|ident| respell(ident, self.known));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn respell(ident: &mut Ident, known: &BTreeSet<String>) {
    if known.contains(&ident.value) {
        return;
    }
    let mut same = known.iter().filter(|name| name.eq_ignore_ascii_case(&ident.value));
    if let (Some(name), None) = (same.next(), same.next()) {
        ident.value.clone_from(name);
    }
}

/// The misspelt name that made planning fail and the one that was probably meant.
pub(super) fn correction(error: &DataFusionError) -> Option<(Vec<String>, Vec<String>)> {
    let (wanted, valid) = unknown_field(error)?;
    let parts = |column: &Column| {
        let mut parts: Vec<String> = column.relation.iter().map(|r| r.table().to_owned()).collect();
        parts.push(column.name.clone());
        parts
    };
    let wanted_parts = parts(wanted);
    let fits = |column: &&Column| {
        let own = parts(column);
        let tail = &own[own.len().saturating_sub(wanted_parts.len())..];
        tail.len() == wanted_parts.len()
            && tail.iter().zip(&wanted_parts).all(|(a, b)| a.eq_ignore_ascii_case(b))
    };
    let candidates: BTreeSet<Vec<String>> = valid
        .iter()
        .filter(fits)
        .map(|column| {
            let own = parts(column);
            own[own.len() - wanted_parts.len()..].to_vec()
        })
        .collect();
    let mut candidates = candidates.into_iter();
    match (candidates.next(), candidates.next()) {
        (Some(meant), None) if meant != wanted_parts => Some((wanted_parts, meant)),
        _ => None,
    }
}

fn unknown_field(error: &DataFusionError) -> Option<(&Column, &[Column])> {
    match error {
        DataFusionError::SchemaError(inner, _) => match inner.as_ref() {
            SchemaError::FieldNotFound { field, valid_fields } => Some((field, valid_fields)),
            _ => None,
        },
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            unknown_field(inner)
        }
        DataFusionError::Collection(all) => all.iter().find_map(unknown_field),
        DataFusionError::Shared(inner) => unknown_field(inner),
        _ => None,
    }
}

/// Replaces a name wherever it stands in the query. Output columns keep the name as written.
pub(super) fn respell_query(query: &mut Query, wanted: &[String], meant: &[String]) {
    let _: ControlFlow<()> = query.visit(&mut Replace { wanted, meant });
}

/// Whether the query uses the name at all.
pub(super) fn uses(query: &Query, wanted: &[String]) -> bool {
    struct Uses<'a>(&'a [String]);
    impl Visitor for Uses<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            if idents(expr).is_some_and(|parts| starts_with(&parts, self.0)) {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        }
    }
    query.visit(&mut Uses(wanted)).is_break()
}

fn idents(expr: &Expr) -> Option<Vec<&Ident>> {
    match expr {
        Expr::Identifier(ident) => Some(vec![ident]),
        Expr::CompoundIdentifier(parts) => Some(parts.iter().collect()),
        _ => None,
    }
}

fn starts_with(parts: &[&Ident], wanted: &[String]) -> bool {
    parts.len() >= wanted.len() && parts.iter().zip(wanted).all(|(a, b)| a.value == *b)
}

struct Replace<'a> {
    wanted: &'a [String],
    meant: &'a [String],
}

impl VisitorMut for Replace<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        keep_output_names(&mut query.body, self.wanted);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let parts: Vec<&mut Ident> = match expr {
            Expr::Identifier(ident) => vec![ident],
            Expr::CompoundIdentifier(parts) => parts.iter_mut().collect(),
            _ => return ControlFlow::Continue(()),
        };
        let fits = parts.len() >= self.wanted.len()
            && parts.iter().zip(self.wanted).all(|(a, b)| a.value == *b);
        if fits {
            for (ident, meant) in parts.into_iter().zip(self.meant) {
                ident.value.clone_from(meant);
            }
        }
        ControlFlow::Continue(())
    }
}

/// `SELECT K` gives a column `K`, though it reads `k`.
fn keep_output_names(body: &mut SetExpr, wanted: &[String]) {
    match body {
        SetExpr::Select(select) => {
            for item in &mut select.projection {
                if let SelectItem::UnnamedExpr(expr) = item
                    && let Some(parts) = idents(expr)
                    && parts.len() == wanted.len()
                    && starts_with(&parts, wanted)
                    && let Some(last) = parts.last()
                {
                    let alias = Ident {
                        value: last.value.clone(),
                        quote_style: Some('`'),
                        span: Span::empty(),
                    };
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                }
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            keep_output_names(left, wanted);
            keep_output_names(right, wanted);
        }
        _ => {}
    }
}
