//! The syntax tree before planning: literals with Spark's types, functions that are syntax in
//! Spark, names of columns.

use super::extension::{Node, text, text_of};
use super::types::type_of_function;
use super::{
    fields, generators, grouping_id, like, named_windows, pretty, unread, window_names,
    within_group,
};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CeilFloorKind, DateTimeField, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, GroupByExpr, Ident, Interval, LimitClause, ObjectName,
    ObjectNamePart, OrderByKind, Query, Select, SelectItem, SetExpr, SetOperator, UnaryOperator,
    Value, VisitMut, VisitorMut, WindowFrameBound, WindowType,
};
use datafusion::sql::sqlparser::tokenizer::Span;
use fluvial_core::interval::CalendarInterval;
use std::ops::ControlFlow;

/// Rewrites a parsed query so that DataFusion plans it with Spark's meaning.
///
/// Apply it once, to queries read with [`SparkDialect`](super::SparkDialect).
pub fn lower_query(query: &mut Query) {
    let _: ControlFlow<()> = query.visit(&mut Lower::default());
}

/// Rewrites a parsed expression so that DataFusion plans it with Spark's meaning.
pub fn lower_expression(expr: &mut Expr) {
    let _: ControlFlow<()> = expr.visit(&mut Lower::default());
}

#[derive(Default)]
struct Lower {
    /// Names of the WITH clauses around.
    with: Vec<Vec<String>>,
}

impl VisitorMut for Lower {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        window_names::spell_out(query);
        name_columns(&mut query.body);
        let tables = query.with.iter().flat_map(|with| &with.cte_tables);
        self.with.push(tables.map(|table| table.alias.name.value.clone()).collect());
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        restore_positions(query);
        self.with.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<()> {
        if let [ObjectNamePart::Identifier(ident)] = relation.0.as_mut_slice() {
            let mut around = self.with.iter().rev().flatten();
            if let Some(name) = around.find(|name| name.eq_ignore_ascii_case(&ident.value)) {
                ident.value.clone_from(name);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Lambda(lambda) = expr {
            fields::of_parameters(lambda);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let old = std::mem::replace(expr, Expr::Value(Value::Null.into()));
        *expr = lowered(old);
        ControlFlow::Continue(())
    }
}

/// Gives the columns of every SELECT of the body Spark's names.
fn name_columns(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            unread::write_modifiers(select);
            named_windows::resolve(select);
            generators::into_from(select);
            name_items(select);
            grouping_id::expand(select);
        }
        SetExpr::SetOperation { op, left, right, .. } => {
            if *op == SetOperator::Minus {
                *op = SetOperator::Except;
            }
            name_columns(left);
            name_columns(right);
        }
        _ => {}
    }
}

fn name_items(select: &mut Select) {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && let Some(name) = pretty::column_name(expr)
            && !expands(expr)
        {
            let expr = std::mem::replace(expr, Expr::Value(Value::Null.into()));
            let alias = Ident { value: name, quote_style: Some('`'), span: Span::empty() };
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
}

/// Whether the expression may stand for several columns.
fn expands(expr: &Expr) -> bool {
    let Expr::Function(function) = expr else { return false };
    matches!(
        function.name.to_string().to_ascii_lowercase().as_str(),
        "posexplode" | "posexplode_outer" | "inline" | "inline_outer"
    )
}

/// Numbers that are positions or counts, not values: `GROUP BY 1`, `LIMIT 10`.
fn restore_positions(query: &mut Query) {
    if let Some(order_by) = &mut query.order_by
        && let OrderByKind::Expressions(exprs) = &mut order_by.kind
    {
        exprs.iter_mut().for_each(|e| restore(&mut e.expr));
    }
    match &mut query.limit_clause {
        Some(LimitClause::LimitOffset { limit, offset, .. }) => {
            limit.iter_mut().for_each(restore);
            offset.iter_mut().for_each(|o| restore(&mut o.value));
        }
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
            restore(offset);
            restore(limit);
        }
        None => {}
    }
    if let Some(fetch) = &mut query.fetch {
        fetch.quantity.iter_mut().for_each(restore);
    }
    restore_group_by(&mut query.body);
}

fn restore_group_by(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => {
            if let GroupByExpr::Expressions(exprs, _) = &mut select.group_by {
                exprs.iter_mut().for_each(restore);
            }
        }
        SetExpr::SetOperation { left, right, .. } => {
            restore_group_by(left);
            restore_group_by(right);
        }
        _ => {}
    }
}

fn restore(expr: &mut Expr) {
    if let Some((Node::Number, arguments)) = Node::read(expr)
        && let [digits, suffix] = arguments.as_slice()
        && text_of(suffix) == Some("")
        && let Some(digits) = text_of(digits)
    {
        *expr = Expr::Value(Value::Number(digits.to_owned(), false).into());
    }
}

pub(super) fn number(digits: String) -> Expr {
    Node::Number.of([text(digits), text("")])
}

/// One node whose children are lowered already.
fn lowered(expr: Expr) -> Expr {
    match expr {
        Expr::Value(value) => match value.value {
            Value::Number(digits, false) => number(digits),
            Value::Number(digits, true) => Node::Number.of([text(digits), text("L")]),
            _ => Expr::Value(value),
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => negative(*expr),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => *expr,
        Expr::UnaryOp { op: UnaryOperator::BangNot, expr } => {
            Expr::UnaryOp { op: UnaryOperator::Not, expr }
        }
        Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr } => call("bitwise_not", vec![*expr]),
        Expr::Cast { expr, data_type, .. } => Node::Cast.of([*expr, text(data_type.to_string())]),
        Expr::TypedString(typed) => {
            let value = typed.value.value.into_string().unwrap_or_default();
            Node::TypedLiteral.of([text(value), text(typed.data_type.to_string())])
        }
        Expr::Interval(interval) => Node::Interval.of([text(interval.to_string())]),
        Expr::RLike { negated, expr, pattern, .. } => {
            negated_if(negated, call("rlike", vec![*expr, *pattern]))
        }
        Expr::InList { expr, list, negated } => {
            let arguments = std::iter::once(*expr).chain(list);
            negated_if(negated, Node::In.of(arguments))
        }
        Expr::Between { expr, negated, low, high } => {
            negated_if(negated, Node::Between.of([*expr, *low, *high]))
        }
        Expr::Case { operand, conditions, else_result, .. } => {
            let mut arguments = Vec::with_capacity(conditions.len() * 2 + 1);
            for when in conditions {
                arguments.push(match &operand {
                    Some(operand) => Expr::BinaryOp {
                        left: operand.clone(),
                        op: BinaryOperator::Eq,
                        right: Box::new(when.condition),
                    },
                    None => when.condition,
                });
                arguments.push(when.result);
            }
            arguments.extend(else_result.map(|e| *e));
            Node::Case.of(arguments)
        }
        Expr::CompoundFieldAccess { root, mut access_chain } => {
            access_chain.iter_mut().for_each(fields::as_text);
            Expr::CompoundFieldAccess { root, access_chain }
        }
        Expr::Struct { values, fields: types } if types.is_empty() => {
            Expr::Struct { values: fields::named_together(values), fields: types }
        }
        Expr::Like { .. } | Expr::ILike { .. } => like::lowered(expr),
        Expr::Position { expr, r#in } => call("locate", vec![*expr, *r#in]),
        Expr::Ceil { expr, field } => rounded("ceil", *expr, field),
        Expr::Floor { expr, field } => rounded("floor", *expr, field),
        Expr::Function(function) => lower_function(function),
        other => other,
    }
}

fn negative(operand: Expr) -> Expr {
    let number = match Node::read(&operand) {
        Some((Node::Number, arguments)) => match arguments.as_slice() {
            [digits, suffix] => text_of(digits)
                .zip(text_of(suffix))
                .map(|(digits, suffix)| (digits.to_owned(), suffix.to_owned())),
            _ => None,
        },
        _ => None,
    };
    match number {
        Some((digits, suffix)) => {
            let digits = match digits.strip_prefix('-') {
                Some(positive) => positive.to_owned(),
                None => format!("-{digits}"),
            };
            Node::Number.of([text(digits), text(suffix)])
        }
        None => Node::Negate.of([operand]),
    }
}

pub(super) fn negated_if(negated: bool, expr: Expr) -> Expr {
    if negated { Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(expr) } } else { expr }
}

fn rounded(name: &str, operand: Expr, field: CeilFloorKind) -> Expr {
    match field {
        CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) => call(name, vec![operand]),
        CeilFloorKind::DateTimeField(unit) => call(name, vec![operand, text(unit.to_string())]),
        CeilFloorKind::Scale(scale) => call(name, vec![operand, lowered(Expr::Value(scale))]),
    }
}

/// A call of a function with plain arguments.
pub(super) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let args =
        arguments.into_iter().map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e))).collect();
    let list = FunctionArgumentList { duplicate_treatment: None, args, clauses: Vec::new() };
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(list),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

fn lower_function(mut function: Function) -> Expr {
    restore_frame(&mut function);
    let name = match function.name.0.as_slice() {
        [part] => part.as_ident().map(|ident| ident.value.to_ascii_lowercase()),
        _ => None,
    };
    let Some(name) = name else { return Expr::Function(function) };
    if !function.within_group.is_empty() {
        return within_group::lowered(&name, &function).unwrap_or(Expr::Function(function));
    }
    if let Some(arguments) = plain_arguments(&function)
        && let Some(expr) = as_operator(&name, &arguments)
    {
        return expr;
    }
    if let Some(node) = node_of(&name)
        && let Some(arguments) = plain_arguments(&function)
        && !arguments.is_empty()
    {
        return node.of(arguments);
    }
    if let Some(data_type) = type_of_function(&name)
        && let Some(arguments) = plain_arguments(&function)
        && let [argument] = arguments.as_slice()
    {
        return Node::Cast.of([argument.clone(), text(data_type)]);
    }
    Expr::Function(function)
}

/// Functions that are another way of writing something else.
fn as_operator(name: &str, arguments: &[Expr]) -> Option<Expr> {
    let boxed = |i: usize| Some(Box::new(arguments.get(i)?.clone()));
    match (name, arguments.len()) {
        ("equal_null", 2) => Some(Expr::BinaryOp {
            left: boxed(0)?,
            op: BinaryOperator::Spaceship,
            right: boxed(1)?,
        }),
        ("nvl2", 3) => Some(Node::If.of([
            Expr::IsNotNull(boxed(0)?),
            arguments[1].clone(),
            arguments[2].clone(),
        ])),
        ("zeroifnull", 1) => {
            Some(Node::Coalesce.of([arguments[0].clone(), number("0".to_owned())]))
        }
        ("nullifzero", 1) => Some(Node::NullIf.of([arguments[0].clone(), number("0".to_owned())])),
        // A unit of time is a bare word.
        ("timestampadd" | "dateadd" | "timestampdiff" | "datediff" | "date_diff", 3) => {
            let Expr::Identifier(unit) = &arguments[0] else { return None };
            let function = if name.ends_with("add") { "timestampadd" } else { "timestampdiff" };
            let mut all = vec![text(unit.value.clone())];
            all.extend_from_slice(&arguments[1..]);
            Some(call(function, all))
        }
        ("dateadd", 2) => Some(call("date_add", arguments.to_vec())),
        _ => None,
    }
}

/// Functions whose arguments or results need the types of Spark.
fn node_of(name: &str) -> Option<Node> {
    Some(match name {
        "coalesce" | "nvl" | "ifnull" => Node::Coalesce,
        "greatest" => Node::Greatest,
        "least" => Node::Least,
        "nullif" => Node::NullIf,
        "if" | "iff" => Node::If,
        "array" | "make_array" => Node::Array,
        "map" => Node::Map,
        "concat" => Node::Concat,
        "explode" => Node::Explode,
        "explode_outer" => Node::ExplodeOuter,
        "posexplode" => Node::PosExplode,
        "posexplode_outer" => Node::PosExplodeOuter,
        "inline" => Node::Inline,
        "inline_outer" => Node::InlineOuter,
        "typeof" => Node::TypeOf,
        _ => return None,
    })
}

/// The arguments if all are plain expressions and nothing else is asked for.
pub(super) fn plain_arguments(function: &Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let plain = list.clauses.is_empty()
        && list.duplicate_treatment.is_none()
        && function.filter.is_none()
        && function.over.is_none();
    if !plain {
        return None;
    }
    let argument = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    list.args.iter().map(argument).collect()
}

/// `ROWS BETWEEN 1 PRECEDING ...`: counts, not values.
fn restore_frame(function: &mut Function) {
    let Some(WindowType::WindowSpec(spec)) = &mut function.over else { return };
    let Some(frame) = &mut spec.window_frame else { return };
    for bound in std::iter::once(&mut frame.start_bound).chain(frame.end_bound.as_mut()) {
        if let WindowFrameBound::Preceding(Some(count)) | WindowFrameBound::Following(Some(count)) =
            bound
        {
            restore(count);
            restore_interval(count);
        }
    }
}

/// `RANGE INTERVAL 1 DAY PRECEDING`: DataFusion reads the text.
fn restore_interval(expr: &mut Expr) {
    if let Some((Node::Interval, arguments)) = Node::read(expr)
        && let [written] = arguments.as_slice()
        && let Some(Ok(interval)) = text_of(written).map(CalendarInterval::parse)
    {
        let CalendarInterval { months, days, micros } = interval;
        let value = format!("{months} months {days} days {micros} microseconds");
        *expr = Expr::Interval(Interval {
            value: Box::new(text(value)),
            leading_field: None,
            leading_precision: None,
            last_field: None,
            fractional_seconds_precision: None,
        });
    }
}
