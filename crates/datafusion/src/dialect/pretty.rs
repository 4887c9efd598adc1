//! The name that Spark gives a column of a SELECT without an alias.

use super::extension::{Node, text_of};
use super::types::type_of_function;
use datafusion::sql::sqlparser::ast::{
    AccessExpr, BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments,
    Subscript, UnaryOperator, Value,
};

/// The name of an expression as a column; `None` if DataFusion's own will do, as for columns.
pub(super) fn column_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => None,
        Expr::Nested(inner) => column_name(inner),
        Expr::CompoundFieldAccess { access_chain, .. } => match access_chain.last() {
            Some(AccessExpr::Dot(Expr::Identifier(field))) => Some(field.value.clone()),
            _ => Some(name(expr)),
        },
        Expr::Function(function) => Some(function_column(function)),
        _ => match Node::read(expr) {
            // The cast of a column keeps its name.
            Some((Node::Cast | Node::TryCast, arguments)) => match arguments.first() {
                Some(Expr::Identifier(ident)) => Some(ident.value.clone()),
                Some(Expr::CompoundIdentifier(parts)) => parts.last().map(|p| p.value.clone()),
                _ => Some(name(expr)),
            },
            _ => Some(name(expr)),
        },
    }
}

fn function_column(function: &Function) -> String {
    let called = function.name.to_string().to_ascii_lowercase();
    let first = match &function.args {
        FunctionArguments::List(list) => list.args.first(),
        _ => None,
    };
    match (called.as_str(), first) {
        ("window" | "session_window", _) => called,
        ("explode" | "explode_outer", _) => "col".to_owned(),
        (name, Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))))
            if type_of_function(name).is_some() =>
        {
            column_name(argument).unwrap_or_else(|| self::name(argument))
        }
        _ => function_name(function),
    }
}

/// The expression as Spark prints it.
pub(super) fn name(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(ident) => ident.value.clone(),
        Expr::CompoundIdentifier(parts) => {
            parts.iter().map(|p| p.value.as_str()).collect::<Vec<_>>().join(".")
        }
        Expr::Nested(inner) => name(inner),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(s) | Value::DoubleQuotedString(s) => s.clone(),
            Value::Null => "NULL".to_owned(),
            other => other.to_string(),
        },
        Expr::BinaryOp { left, op: BinaryOperator::NotEq, right } => {
            format!("(NOT ({} = {}))", name(left), name(right))
        }
        Expr::BinaryOp { left, op, right } => {
            operator_name(name(left), &op.to_string(), &name(right))
        }
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } if is_number(expr) => {
            format!("-{}", name(expr))
        }
        Expr::UnaryOp { op: UnaryOperator::Not | UnaryOperator::BangNot, expr } => {
            format!("(NOT {})", name(expr))
        }
        Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr } => format!("~{}", name(expr)),
        Expr::UnaryOp { op, expr } => format!("({op} {})", name(expr)),
        Expr::IsNull(inner) => format!("({} IS NULL)", name(inner)),
        Expr::IsNotNull(inner) => format!("({} IS NOT NULL)", name(inner)),
        Expr::Like { negated, expr, pattern, .. } => {
            negatable(*negated, format!("{} LIKE {}", name(expr), name(pattern)))
        }
        Expr::ILike { negated, expr, pattern, .. } => {
            negatable(*negated, format!("ilike({}, {})", name(expr), name(pattern)))
        }
        Expr::RLike { negated, expr, pattern, .. } => {
            negatable(*negated, format!("RLIKE({}, {})", name(expr), name(pattern)))
        }
        Expr::Between { negated, expr, low, high } => {
            negatable(*negated, format!("between({}, {}, {})", name(expr), name(low), name(high)))
        }
        Expr::InList { negated, expr, list } => {
            negatable(*negated, format!("({} IN ({}))", name(expr), names(list)))
        }
        Expr::Case { operand, conditions, else_result, .. } => {
            let mut out = "CASE".to_owned();
            for when in conditions {
                let condition = match operand {
                    Some(operand) => format!("({} = {})", name(operand), name(&when.condition)),
                    None => name(&when.condition),
                };
                out.push_str(&format!(" WHEN {condition} THEN {}", name(&when.result)));
            }
            if let Some(result) = else_result {
                out.push_str(&format!(" ELSE {}", name(result)));
            }
            out + " END"
        }
        Expr::Function(function) => function_name(function),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let mut out = name(root);
            for access in access_chain {
                match access {
                    AccessExpr::Dot(field) => out.push_str(&format!(".{}", name(field))),
                    AccessExpr::Subscript(Subscript::Index { index }) => {
                        out.push_str(&format!("[{}]", name(index)));
                    }
                    AccessExpr::Subscript(other) => out.push_str(&other.to_string()),
                }
            }
            out
        }
        Expr::Subquery(_) => "scalarsubquery()".to_owned(),
        Expr::Struct { values, .. } => format!("struct({})", names(values)),
        Expr::TypedString(typed) => {
            format!("{} '{}'", typed.data_type, typed.value.to_string().trim_matches('\''))
        }
        _ => match Node::read(expr) {
            Some((node, arguments)) => node_name(node, &arguments),
            None => expr.to_string(),
        },
    }
}

fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(value.value, Value::Number(..)),
        _ => matches!(Node::read(expr), Some((Node::Number, _))),
    }
}

fn negatable(negated: bool, name: String) -> String {
    if negated { format!("(NOT {name})") } else { name }
}

fn names(list: &[Expr]) -> String {
    list.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn function_name(function: &Function) -> String {
    let called = function.name.to_string().to_ascii_lowercase();
    let FunctionArguments::List(list) = &function.args else {
        return format!("{called}()");
    };
    let argument = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => name(expr),
        // `count(*)` counts ones.
        FunctionArg::Unnamed(FunctionArgExpr::Wildcard) => "1".to_owned(),
        other => other.to_string(),
    };
    let arguments = list.args.iter().map(argument).collect::<Vec<_>>().join(", ");
    let distinct = match list.duplicate_treatment {
        Some(treatment) => format!("{treatment} "),
        None => String::new(),
    };
    let filter = match &function.filter {
        Some(filter) => format!(" FILTER (WHERE {})", name(filter)),
        None => String::new(),
    };
    format!("{called}({distinct}{arguments}){filter}")
}

fn node_name(node: Node, arguments: &[&Expr]) -> String {
    let text = |i: usize| arguments.get(i).and_then(|e| text_of(e)).unwrap_or_default();
    match node {
        Node::Number => text(0).to_owned(),
        Node::Interval => text(0).to_uppercase(),
        Node::Cast | Node::TryCast => {
            let operand = arguments.first().map(|e| name(e)).unwrap_or_default();
            let target = match super::types::type_named(text(1)) {
                Ok(data_type) => fluvial_core::ddl::ddl_name(&data_type),
                Err(_) => text(1).to_uppercase(),
            };
            format!("{}({operand} AS {target})", node.name().to_uppercase())
        }
        Node::Chain => chain_name(arguments),
        Node::TypedLiteral => format!("{} '{}'", text(1).to_uppercase(), text(0)),
        _ => {
            let arguments = arguments.iter().map(|e| name(e)).collect::<Vec<_>>().join(", ");
            format!("{}({arguments})", node.name())
        }
    }
}

fn operator_name(left: String, op: &str, right: &str) -> String {
    match op {
        "||" => format!("concat({left}, {right})"),
        "DIV" => format!("({left} div {right})"),
        "==" => format!("({left} = {right})"),
        op => format!("({left} {op} {right})"),
    }
}

/// As the tree would be printed that it stands for.
fn chain_name(arguments: &[&Expr]) -> String {
    let Some((first, rest)) = arguments.split_first() else { return String::new() };
    rest.chunks(2).fold(name(first), |left, pair| match pair {
        [op, right] => operator_name(left, text_of(op).unwrap_or_default(), &name(right)),
        _ => left,
    })
}
