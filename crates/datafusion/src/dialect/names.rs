//! Names of columns, whatever their case: Spark resolves `K` to a column `k`.

use datafusion::common::{Column, DFSchema, DataFusionError, SchemaError, Span};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, SelectItem, SetExpr, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::tokenizer::Span as SqlSpan;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// Spells the names in an expression as the schema does.
pub(super) fn respell_expression(expr: &mut Expr, schema: &DFSchema) {
    let mut known = BTreeSet::new();
    let mut tables: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (qualifier, field) in schema.iter() {
        known.insert(field.name().clone());
        if let Some(qualifier) = qualifier {
            known.insert(qualifier.table().to_owned());
            let columns = tables.entry(qualifier.table().to_owned()).or_default();
            columns.insert(field.name().clone());
        }
    }
    let _: ControlFlow<()> = expr.visit(&mut Respell { known: &known, tables: &tables });
}

struct Respell<'a> {
    known: &'a BTreeSet<String>,
    /// The columns of each table: two tables may spell one name differently.
    tables: &'a BTreeMap<String, BTreeSet<String>>,
}

impl VisitorMut for Respell<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(ident) => respell(ident, self.known),
            // The rest may be fields of a struct, which are found by the planner.
            Expr::CompoundIdentifier(parts) => {
                if let [first, second, ..] = parts.as_mut_slice() {
                    respell(first, self.known);
                    respell(second, self.tables.get(&first.value).unwrap_or(self.known));
                }
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

/// A name that made planning fail, and the one that was probably meant.
#[derive(Debug)]
pub(super) struct Correction {
    wanted: Vec<String>,
    meant: Vec<String>,
    /// Line and column of the name, if the planner knows them.
    at: Option<(u64, u64)>,
}

/// The correction of an error, if a name is only written in another case.
pub(super) fn correction(error: &DataFusionError) -> Option<Correction> {
    let (column, valid, span) = unknown_field(error)?;
    let wanted = parts(column);
    let tail = |column: &Column| {
        let own = parts(column);
        let tail = own[own.len().saturating_sub(wanted.len())..].to_vec();
        let same = tail.len() == wanted.len()
            && tail.iter().zip(&wanted).all(|(a, b)| a.eq_ignore_ascii_case(b));
        same.then_some(tail)
    };
    let candidates: BTreeSet<Vec<String>> = valid.iter().filter_map(tail).collect();
    let mut candidates = candidates.into_iter();
    let at = span.map(|span| (span.start.line, span.start.column));
    match (candidates.next(), candidates.next()) {
        (Some(meant), None) if meant != wanted => Some(Correction { wanted, meant, at }),
        _ => None,
    }
}

fn parts(column: &Column) -> Vec<String> {
    let mut parts: Vec<String> = column.relation.iter().map(|r| r.table().to_owned()).collect();
    parts.push(column.name.clone());
    parts
}

/// The column that was not found, those there are, and where it is written.
pub(super) fn unknown_field(error: &DataFusionError) -> Option<(&Column, &[Column], Option<Span>)> {
    match error {
        DataFusionError::SchemaError(inner, _) => match inner.as_ref() {
            SchemaError::FieldNotFound { field, valid_fields } => {
                Some((field, valid_fields, field.spans().first()))
            }
            _ => None,
        },
        DataFusionError::Diagnostic(diagnostic, inner) => {
            let (field, valid, span) = unknown_field(inner)?;
            Some((field, valid, span.or(diagnostic.span)))
        }
        DataFusionError::Context(_, inner) => unknown_field(inner),
        DataFusionError::Collection(all) => all.iter().find_map(unknown_field),
        DataFusionError::Shared(inner) => unknown_field(inner),
        _ => None,
    }
}

impl Correction {
    /// Spells the name as it is meant: at its place if that is known, else everywhere. Output
    /// columns keep the name as written. Tells whether there was anything to do.
    pub(super) fn apply(&self, query: &mut Query) -> bool {
        let at = self.at;
        let mut replace = Replace { correction: self, at, replaced: false };
        let _: ControlFlow<()> = query.visit(&mut replace);
        if !replace.replaced && at.is_some() {
            replace.at = None;
            let _: ControlFlow<()> = query.visit(&mut replace);
        }
        replace.replaced
    }
}

struct Replace<'a> {
    correction: &'a Correction,
    at: Option<(u64, u64)>,
    replaced: bool,
}

impl Replace<'_> {
    fn fits(&self, parts: &[&Ident]) -> bool {
        let Correction { wanted, .. } = self.correction;
        let here = match (self.at, parts.first()) {
            (Some(at), Some(first)) => {
                let start = first.span.start;
                (start.line, start.column) == at
            }
            _ => true,
        };
        here && parts.len() >= wanted.len() && parts.iter().zip(wanted).all(|(a, b)| a.value == *b)
    }

    /// `SELECT K` gives a column `K`, though it reads `k`.
    fn keep_output_names(&self, body: &mut SetExpr) {
        match body {
            SetExpr::Select(select) => {
                for item in &mut select.projection {
                    if let SelectItem::UnnamedExpr(expr) = item
                        && let Some(parts) = idents(expr)
                        && parts.len() == self.correction.wanted.len()
                        && self.fits(&parts)
                        && let Some(last) = parts.last()
                    {
                        let value = last.value.clone();
                        let alias = Ident { value, quote_style: Some('`'), span: SqlSpan::empty() };
                        *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                    }
                }
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.keep_output_names(left);
                self.keep_output_names(right);
            }
            _ => {}
        }
    }
}

fn idents(expr: &Expr) -> Option<Vec<&Ident>> {
    match expr {
        Expr::Identifier(ident) => Some(vec![ident]),
        Expr::CompoundIdentifier(parts) => Some(parts.iter().collect()),
        _ => None,
    }
}

impl VisitorMut for Replace<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.keep_output_names(&mut query.body);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if idents(expr).is_some_and(|parts| self.fits(&parts)) {
            let parts: Vec<&mut Ident> = match expr {
                Expr::Identifier(ident) => vec![ident],
                Expr::CompoundIdentifier(parts) => parts.iter_mut().collect(),
                _ => Vec::new(),
            };
            for (ident, meant) in parts.into_iter().zip(&self.correction.meant) {
                ident.value.clone_from(meant);
            }
            self.replaced = true;
        }
        ControlFlow::Continue(())
    }
}
