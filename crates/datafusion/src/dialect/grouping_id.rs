//! `grouping_id()`: which of the groups of a ROLLUP, CUBE or GROUPING SETS a row is without, as
//! one number with a bit for each, the last one's the lowest.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, GroupByExpr, Ident, ObjectName, Select, SelectItem,
    Value, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

/// Writes the calls of a SELECT with `grouping(..)` of each of its groups. The arguments may be
/// left out; if given they are the groups in their order, as in Spark. Other calls stay, and are
/// refused by name.
pub(super) fn expand(select: &mut Select) {
    let groups = groups(&select.group_by);
    if groups.is_empty() {
        return;
    }
    let mut calls = Calls { groups };
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let _: ControlFlow<()> = expr.visit(&mut calls);
        }
    }
    if let Some(having) = &mut select.having {
        let _: ControlFlow<()> = having.visit(&mut calls);
    }
}

/// The groups in the order in which they first appear.
fn groups(group_by: &GroupByExpr) -> Vec<Expr> {
    let GroupByExpr::Expressions(exprs, _) = group_by else { return Vec::new() };
    let mut groups: Vec<Expr> = Vec::new();
    let mut add = |expr: &Expr| {
        if !groups.contains(expr) {
            groups.push(expr.clone());
        }
    };
    for expr in exprs {
        match expr {
            Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => {
                sets.iter().flatten().for_each(&mut add);
            }
            plain => add(plain),
        }
    }
    groups
}

struct Calls {
    groups: Vec<Expr>,
}

impl VisitorMut for Calls {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = expr
            && function.name.to_string().eq_ignore_ascii_case("grouping_id")
            && let Some(arguments) = arguments(function)
            && (arguments.is_empty() || arguments == self.groups)
        {
            *expr = id_of(&self.groups);
        }
        ControlFlow::Continue(())
    }
}

fn arguments(function: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let argument = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    list.args.iter().map(argument).collect()
}

fn id_of(groups: &[Expr]) -> Expr {
    let mut bits = groups.iter().map(bit_of);
    let first = bits.next().unwrap_or(Expr::Value(Value::Null.into()));
    let all = bits.fold(first, |high, low| {
        let two = Expr::Value(Value::Number("2".into(), false).into());
        let high = binary(Expr::Nested(Box::new(high)), BinaryOperator::Multiply, two);
        binary(high, BinaryOperator::Plus, low)
    });
    Expr::Nested(Box::new(all))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

/// Whether a row is without the group, as a BIGINT.
fn bit_of(group: &Expr) -> Expr {
    let argument = FunctionArg::Unnamed(FunctionArgExpr::Expr(group.clone()));
    let call = Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new("grouping")]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: vec![argument],
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    });
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(call),
        data_type: DataType::BigInt(None),
        format: None,
        array: false,
    }
}
