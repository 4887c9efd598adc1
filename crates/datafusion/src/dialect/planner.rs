//! The expression planner: nodes of ours and operators, as DataFusion expressions.

use super::chains;
use super::compare::to_common_type;
use super::extension::Node;
use super::like;
use super::literal;
use super::operators;
use super::types::{simple_name, type_named};
use crate::functions::cast::{cast_expr, try_cast_expr};
use crate::functions::error::{spark, wrong_arguments};
use crate::functions::typing::Typed;
use crate::functions::{self, collection, negate_udf};
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, TableReference, internal_err};
use datafusion::functions::core as core_functions;
use datafusion::functions_nested::make_array::make_array;
use datafusion::logical_expr::expr::{InList, NullTreatment, ScalarFunction, Unnest};
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawAggregateExpr, RawBinaryExpr, RawDictionaryExpr,
    RawFieldAccessExpr,
};
use datafusion::logical_expr::{Between, Case, Expr, GetFieldAccess, Operator, ScalarUDF, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use fluvial_core::NameCase;
use std::sync::Arc;

/// Plans operators, literals and field access as Spark does.
#[derive(Debug, Default)]
pub(super) struct SparkPlanner {
    /// How fields are found.
    pub(super) case: NameCase,
}

impl ExprPlanner for SparkPlanner {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let Some(op) = operator(&expr.op) else { return Ok(PlannerResult::Original(expr)) };
        Ok(match operators::binary(op, &expr.left, &expr.right, schema)? {
            Some(planned) => PlannerResult::Planned(planned),
            None => PlannerResult::Original(expr),
        })
    }

    fn plan_dictionary_literal(
        &self,
        expr: RawDictionaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawDictionaryExpr>> {
        let node = match expr.keys.first() {
            Some(Expr::Literal(ScalarValue::Utf8(Some(key)), _)) => Node::of_key(key),
            _ => None,
        };
        match node {
            Some(node) => plan_node(node, expr.values, schema).map(PlannerResult::Planned),
            None => Ok(PlannerResult::Original(expr)),
        }
    }

    fn plan_field_access(
        &self,
        expr: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let planned = match &expr.field_access {
            GetFieldAccess::NamedStructField { name: ScalarValue::Utf8(Some(name)) } => {
                let container = expr.expr.type_in(schema)?;
                match container {
                    DataType::Map(..) => collection::subscript(expr.expr.clone(), lit(name)),
                    _ => field(expr.expr.clone(), &container, name, self.case)?,
                }
            }
            GetFieldAccess::ListIndex { key } => {
                collection::subscript(expr.expr.clone(), key.as_ref().clone())
            }
            _ => return Ok(PlannerResult::Original(expr)),
        };
        Ok(PlannerResult::Planned(planned))
    }

    fn plan_compound_identifier(
        &self,
        column: &Field,
        qualifier: Option<&TableReference>,
        nested: &[String],
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let mut data_type = column.data_type().clone();
        let mut expr = Expr::Column(Column::new(qualifier.cloned(), column.name()));
        for name in nested {
            (expr, data_type) = match &data_type {
                DataType::Map(entries, _) => {
                    let value = match entries.data_type() {
                        DataType::Struct(fields) if fields.len() == 2 => fields[1].data_type(),
                        other => return internal_err!("a map of {other}"),
                    };
                    (collection::subscript(expr, lit(name)), value.clone())
                }
                _ => {
                    let next = field_type(&data_type, name, self.case)?;
                    (field(expr, &data_type, name, self.case)?, next)
                }
            };
        }
        let name = nested.last().cloned().unwrap_or_default();
        Ok(PlannerResult::Planned(expr.alias(name)))
    }

    fn plan_struct_literal(
        &self,
        arguments: Vec<Expr>,
        is_named: bool,
    ) -> Result<PlannerResult<Vec<Expr>>> {
        if is_named {
            return Ok(PlannerResult::Original(arguments));
        }
        let mut pairs = Vec::with_capacity(arguments.len() * 2);
        for (i, argument) in arguments.into_iter().enumerate() {
            let name = match &argument {
                Expr::Column(column) => column.name.clone(),
                Expr::Alias(alias) => alias.name.clone(),
                Expr::LambdaVariable(variable) => variable.name.clone(),
                _ => format!("col{}", i + 1),
            };
            pairs.push(lit(name));
            pairs.push(argument);
        }
        let function = core_functions::named_struct();
        Ok(PlannerResult::Planned(scalar(function, pairs)))
    }

    fn plan_make_map(&self, arguments: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Original(arguments))
    }

    fn plan_substring(&self, arguments: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        let function = datafusion_spark::function::string::substring();
        Ok(PlannerResult::Planned(scalar(function, arguments)))
    }

    fn plan_extract(&self, arguments: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        let function = crate::functions::datetime::date_part_udf();
        Ok(PlannerResult::Planned(scalar(function, arguments)))
    }

    fn plan_aggregate(&self, expr: RawAggregateExpr) -> Result<PlannerResult<RawAggregateExpr>> {
        Ok(PlannerResult::Original(ignoring_nulls(expr)?))
    }
}

fn scalar(function: Arc<ScalarUDF>, arguments: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(function, arguments))
}

/// The second argument of `first(x, true)` is `IGNORE NULLS`.
fn ignoring_nulls(mut expr: RawAggregateExpr) -> Result<RawAggregateExpr> {
    let takes_flag = ["first", "first_value", "last", "last_value", "any_value"];
    if !takes_flag.contains(&expr.func.name()) || expr.args.len() != 2 {
        return Ok(expr);
    }
    match expr.args.pop() {
        Some(Expr::Literal(ScalarValue::Boolean(Some(ignore)), _)) => {
            if ignore {
                expr.null_treatment = Some(NullTreatment::IgnoreNulls);
            }
            Ok(expr)
        }
        other => Err(spark(
            "NON_FOLDABLE_ARGUMENT",
            format!(
                "the second argument of `{}` says whether to ignore nulls: true or false, not {}",
                expr.func.name(),
                other.map(|e| e.to_string()).unwrap_or_default()
            ),
        )),
    }
}

fn operator(op: &BinaryOperator) -> Option<Operator> {
    Some(match op {
        BinaryOperator::Plus => Operator::Plus,
        BinaryOperator::Minus => Operator::Minus,
        BinaryOperator::Multiply => Operator::Multiply,
        BinaryOperator::Divide => Operator::Divide,
        BinaryOperator::Modulo => Operator::Modulo,
        BinaryOperator::MyIntegerDivide => Operator::IntegerDivide,
        BinaryOperator::StringConcat => Operator::StringConcat,
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::NotEq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        BinaryOperator::Spaceship => Operator::IsNotDistinctFrom,
        BinaryOperator::BitwiseAnd => Operator::BitwiseAnd,
        BinaryOperator::BitwiseOr => Operator::BitwiseOr,
        BinaryOperator::BitwiseXor => Operator::BitwiseXor,
        BinaryOperator::PGBitwiseShiftLeft => Operator::BitwiseShiftLeft,
        BinaryOperator::PGBitwiseShiftRight => Operator::BitwiseShiftRight,
        _ => return None,
    })
}

fn field_type(container: &DataType, name: &str, case: NameCase) -> Result<DataType> {
    match container {
        DataType::Struct(fields) => {
            Ok(collection::find_field(fields, name, case)?.data_type().clone())
        }
        DataType::List(item) => {
            let inner = field_type(item.data_type(), name, case)?;
            Ok(fluvial_core::ddl::array_of(inner))
        }
        other => Err(no_field(other, name)),
    }
}

fn field(expr: Expr, container: &DataType, name: &str, case: NameCase) -> Result<Expr> {
    match container {
        DataType::Struct(fields) => {
            let exact = collection::find_field(fields, name, case)?.name().clone();
            Ok(scalar(core_functions::get_field(), vec![expr, lit(exact)]))
        }
        DataType::List(_) => {
            field_type(container, name, case)?;
            Ok(collection::fields_of_items(expr, name))
        }
        other => Err(no_field(other, name)),
    }
}

fn no_field(container: &DataType, name: &str) -> datafusion::common::DataFusionError {
    spark(
        "INVALID_EXTRACT_BASE_FIELD_TYPE",
        format!("cannot take `{name}` out of {}: it has no fields", simple_name(container)),
    )
}

fn plan_node(node: Node, mut values: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
    let count = values.len();
    let wrong = |expected: &str| wrong_arguments(node.name(), expected, count);
    match node {
        Node::Number => literal::number(text(&values, 0)?, text(&values, 1)?),
        Node::Interval => literal::interval(text(&values, 0)?),
        Node::Cast | Node::TryCast => {
            let to = type_named(text(&values, 1)?)?;
            let operand = values.swap_remove(0);
            if node == Node::Cast {
                cast_expr(operand, &to, schema)
            } else {
                try_cast_expr(operand, &to, schema)
            }
        }
        Node::TypedLiteral => literal::typed(text(&values, 0)?, text(&values, 1)?, schema),
        Node::Negate => Ok(scalar(Arc::new(negate_udf()), values)),
        Node::Chain => chains::planned(values, schema),
        Node::Case => case(values, schema),
        Node::If => match values.len() {
            3 => case(values, schema),
            _ => Err(wrong("3")),
        },
        Node::NullIf => {
            let Ok([value, other]) = <[Expr; 2]>::try_from(values) else { return Err(wrong("2")) };
            let same = operators::binary(Operator::Eq, &value, &other, schema)?
                .unwrap_or_else(|| value.clone().eq(other));
            let null = Expr::Literal(ScalarValue::try_from(&value.type_in(schema)?)?, None);
            Ok(case_expr(vec![(same, null)], Some(value)))
        }
        Node::In => {
            let mut all = to_common_type("in", values, schema)?;
            let value = all.remove(0);
            Ok(Expr::InList(InList::new(Box::new(value), all, false)))
        }
        Node::Between => {
            let all = to_common_type("between", values, schema)?;
            let Ok([value, low, high]) = <[Expr; 3]>::try_from(all) else {
                return Err(wrong("3"));
            };
            let between = Between::new(Box::new(value), false, Box::new(low), Box::new(high));
            Ok(Expr::Between(between))
        }
        Node::Like | Node::Ilike => like::planned(values, node == Node::Ilike, schema),
        Node::Coalesce => several(core_functions::coalesce(), "coalesce", values, schema),
        Node::Greatest => several(core_functions::greatest(), "greatest", values, schema),
        Node::Least => several(core_functions::least(), "least", values, schema),
        Node::Array => Ok(make_array(to_common_type("array", values, schema)?)),
        Node::Map => map(values, schema),
        Node::Concat => concat(values, schema),
        Node::Explode | Node::ExplodeOuter => {
            let outer = node == Node::ExplodeOuter;
            let [value] = values.as_slice() else { return Err(wrong("1")) };
            explode(value, outer, schema)
        }
        Node::PosExplode | Node::PosExplodeOuter | Node::Inline | Node::InlineOuter => Err(spark(
            "UNSUPPORTED_GENERATOR",
            format!("`{}` is not supported: use explode", node.name()),
        )),
        Node::TypeOf => {
            let [value] = values.as_slice() else { return Err(wrong("1")) };
            Ok(lit(simple_name(&value.type_in(schema)?)))
        }
    }
}

fn text(values: &[Expr], i: usize) -> Result<&str> {
    match values.get(i) {
        Some(Expr::Literal(ScalarValue::Utf8(Some(text)), _)) => Ok(text),
        other => internal_err!("a text belongs here, not {other:?}"),
    }
}

/// `when`, `then`, ..., `else`: results in their common type.
fn case(values: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
    let has_else = values.len() % 2 == 1;
    let (mut conditions, mut results) = (Vec::new(), Vec::new());
    let last = values.len() - 1;
    for (i, value) in values.into_iter().enumerate() {
        if i % 2 == 1 || (has_else && i == last) {
            results.push(value);
        } else {
            conditions.push(cast_expr(value, &DataType::Boolean, schema)?);
        }
    }
    let mut results = to_common_type("case", results, schema)?;
    let otherwise = if has_else { results.pop() } else { None };
    Ok(case_expr(conditions.into_iter().zip(results).collect(), otherwise))
}

fn case_expr(branches: Vec<(Expr, Expr)>, otherwise: Option<Expr>) -> Expr {
    let branches = branches.into_iter().map(|(w, t)| (Box::new(w), Box::new(t))).collect();
    Expr::Case(Case::new(None, branches, otherwise.map(Box::new)))
}

fn several(
    function: Arc<ScalarUDF>,
    name: &str,
    values: Vec<Expr>,
    schema: &DFSchema,
) -> Result<Expr> {
    let mut values = to_common_type(name, values, schema)?;
    match values.len() {
        1 => Ok(values.remove(0)),
        _ => Ok(scalar(function, values)),
    }
}

/// `concat` of arrays is one array, of anything else a text.
fn concat(values: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
    let mut is_list = false;
    for value in &values {
        is_list |= matches!(value.type_in(schema)?, DataType::List(_));
    }
    Ok(scalar(functions::concat_udf(is_list), values))
}

fn map(values: Vec<Expr>, schema: &DFSchema) -> Result<Expr> {
    if values.len() % 2 == 1 {
        return Err(wrong_arguments("map", "an even number of", values.len()));
    }
    let (mut keys, mut items) = (Vec::new(), Vec::new());
    for (i, value) in values.into_iter().enumerate() {
        if i % 2 == 0 { keys.push(value) } else { items.push(value) }
    }
    let keys = to_common_type("map", keys, schema)?;
    let items = to_common_type("map", items, schema)?;
    let pairs = keys.into_iter().zip(items).flat_map(|(key, item)| [key, item]).collect();
    Ok(scalar(collection::map_udf(), pairs))
}

fn explode(value: &Expr, outer: bool, schema: &DFSchema) -> Result<Expr> {
    match value.type_in(schema)? {
        DataType::List(_) => Ok(Expr::Unnest(Unnest { expr: Box::new(value.clone()), outer })),
        DataType::Map(..) => {
            let entries = datafusion::functions_nested::map_entries::map_entries(value.clone());
            Ok(Expr::Unnest(Unnest { expr: Box::new(entries), outer }))
        }
        other => {
            Err(crate::functions::error::unexpected_type("explode", "an array or a map", &other))
        }
    }
}
