//! The plan of a generator: a projection, an unnest, and a projection of what came out.

use super::{is_marked, nested};
use crate::dialect::compare::to_common_type;
use crate::dialect::extension::Node;
use crate::functions::collection::with_positions;
use crate::functions::error::{spark, unexpected_type, wrong_arguments};
use arrow::datatypes::DataType;
use datafusion::common::{
    Column, DFSchema, NullHandling, Result, ScalarValue, TableReference, UnnestOptions,
    internal_err,
};
use datafusion::functions::core as core_functions;
use datafusion::functions_nested::make_array::make_array;
use datafusion::functions_nested::map_entries::map_entries;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Join, TableAlias,
    TableFactor,
};

/// The column that becomes rows, while a view is planned.
const ROWS: &str = "__fluvial_rows";

/// Plans the relations that stand for views.
#[derive(Debug)]
pub(in crate::dialect) struct Generators;

impl RelationPlanner for Generators {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let planned = |plan| {
            let planned = PlannedRelation::new(plan, None);
            Ok(RelationPlanning::Planned(Box::new(planned)))
        };
        if is_marked(&relation) {
            return planned(LogicalPlanBuilder::empty(true).build()?);
        }
        let TableFactor::NestedJoin { mut table_with_joins, alias } = relation else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let view = table_with_joins.joins.pop_if(|join| is_marked(&join.relation));
        let Some(Join {
            relation: TableFactor::UNNEST { alias: view, array_exprs, with_offset, .. },
            ..
        }) = view
        else {
            let relation = TableFactor::NestedJoin { table_with_joins, alias };
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let input = context.plan(nested(*table_with_joins))?;
        let Some(view) = view else { return internal_err!("a view without a name") };
        planned(generate(input, &array_exprs, with_offset, view, context)?)
    }
}

/// What a generator makes of a row.
struct Generated {
    /// An array with an item for each row.
    rows: Expr,
    /// The columns: the names that they have by themselves, and where they are in an item.
    columns: Vec<(String, Vec<String>)>,
    /// Whether a row without any gives one of nulls.
    outer: bool,
}

fn generate(
    input: LogicalPlan,
    generator: &[SqlExpr],
    outer: bool,
    view: TableAlias,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let [generator] = generator else { return internal_err!("a view of one generator") };
    let made = generated(generator, input.schema(), context)?;
    let name = view.name.value;
    let given: Vec<String> = view.columns.into_iter().map(|column| column.name.value).collect();
    if !given.is_empty() && given.len() != made.columns.len() {
        return Err(spark(
            "UDTF_ALIAS_NUMBER_MISMATCH",
            format!(
                "the generator gives {} columns, but the names are `{}`",
                made.columns.len(),
                given.join("`, `")
            ),
        ));
    }
    let null_handling = match outer || made.outer {
        true => NullHandling::PreserveAndExpandEmpty,
        false => NullHandling::Drop,
    };
    let columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let rows = Column::new_unqualified(ROWS);
    let with_rows = columns.iter().cloned().chain([made.rows.alias(ROWS)]);
    let options = UnnestOptions { null_handling, ..UnnestOptions::default() };
    let unnested = LogicalPlanBuilder::from(input)
        .project(with_rows.collect::<Vec<_>>())?
        .unnest_column_with_options(rows.clone(), options)?;
    let outputs = made.columns.into_iter().enumerate().map(|(i, (own, path))| {
        let value = path.into_iter().fold(Expr::Column(rows.clone()), field);
        value.alias_qualified(
            Some(TableReference::bare(name.as_str())),
            given.get(i).unwrap_or(&own),
        )
    });
    unnested.project(columns.into_iter().chain(outputs).collect::<Vec<_>>())?.build()
}

fn field(item: Expr, name: String) -> Expr {
    core_functions::get_field().call(vec![item, lit(name)])
}

fn generated(
    generator: &SqlExpr,
    schema: &DFSchema,
    context: &mut dyn RelationPlannerContext,
) -> Result<Generated> {
    if let Some((node, arguments)) = Node::read(generator) {
        let [argument] = arguments.as_slice() else {
            return Err(wrong_arguments(node.name(), "1", arguments.len()));
        };
        let value = context.sql_to_expr((*argument).clone(), schema)?;
        return of_node(node, value, schema);
    }
    let name = match generator {
        SqlExpr::Function(function) => function.name.to_string().to_ascii_lowercase(),
        _ => String::new(),
    };
    if name == "json_tuple" {
        let value = context.sql_to_expr(generator.clone(), schema)?;
        return inline(make_array(vec![value]), false, schema);
    }
    if let SqlExpr::Function(function) = generator
        && name == "stack"
    {
        let mut values = Vec::new();
        for argument in arguments(function) {
            values.push(context.sql_to_expr(argument.clone(), schema)?);
        }
        return stack(values, schema);
    }
    Err(spark(
        "UNSUPPORTED_GENERATOR",
        format!("`{generator}` makes no rows: use explode, posexplode, inline or stack"),
    ))
}

fn arguments(function: &Function) -> impl Iterator<Item = &SqlExpr> {
    let list = match &function.args {
        FunctionArguments::List(list) => list.args.as_slice(),
        _ => &[],
    };
    list.iter().filter_map(|argument| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    })
}

fn of_node(node: Node, value: Expr, schema: &DFSchema) -> Result<Generated> {
    let (positions, outer) = match node {
        Node::Explode => (false, false),
        Node::ExplodeOuter => (false, true),
        Node::PosExplode => (true, false),
        Node::PosExplodeOuter => (true, true),
        Node::Inline => return inline(value, false, schema),
        Node::InlineOuter => return inline(value, true, schema),
        _ => {
            let message = format!("`{}` makes no rows: use explode", node.name());
            return Err(spark("UNSUPPORTED_GENERATOR", message));
        }
    };
    let (mut rows, mut columns) = match value.get_type(schema)? {
        DataType::List(_) => (value, vec![("col".to_owned(), Vec::new())]),
        DataType::Map(..) => {
            let entries = map_entries(value);
            let fields = item_fields(&entries.get_type(schema)?);
            let columns = ["key", "value"].into_iter().zip(fields);
            let columns = columns.map(|(own, field)| (own.to_owned(), vec![field])).collect();
            (entries, columns)
        }
        other => return Err(unexpected_type(node.name(), "an array or a map", &other)),
    };
    if positions {
        rows = with_positions(rows);
        for (_, path) in &mut columns {
            path.insert(0, "col".to_owned());
        }
        columns.insert(0, ("pos".to_owned(), vec!["pos".to_owned()]));
    }
    Ok(Generated { rows, columns, outer })
}

/// The fields of the structs in an array.
fn item_fields(list: &DataType) -> Vec<String> {
    match list {
        DataType::List(item) => match item.data_type() {
            DataType::Struct(fields) => fields.iter().map(|field| field.name().clone()).collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

fn inline(value: Expr, outer: bool, schema: &DFSchema) -> Result<Generated> {
    let data_type = value.get_type(schema)?;
    let fields = item_fields(&data_type);
    if fields.is_empty() {
        return Err(unexpected_type("inline", "an array of structs", &data_type));
    }
    let columns = fields.into_iter().map(|field| (field.clone(), vec![field])).collect();
    Ok(Generated { rows: value, columns, outer })
}

/// `stack(n, value, ...)`: the values in `n` rows, filled up with nulls.
fn stack(mut values: Vec<Expr>, schema: &DFSchema) -> Result<Generated> {
    let count = values.len();
    if count < 2 {
        return Err(wrong_arguments("stack", "2 or more", count));
    }
    let rows = match values.remove(0) {
        Expr::Literal(value, _) => value.to_string().parse::<usize>().ok().filter(|rows| *rows > 0),
        _ => None,
    };
    let Some(rows) = rows else {
        return Err(spark(
            "DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE",
            "stack takes a number of rows from 1 first",
        ));
    };
    let width = values.len().div_ceil(rows);
    let null = || lit(ScalarValue::Null);
    values.resize_with(rows * width, null);
    let mut columns = Vec::new();
    for column in 0..width {
        let own = (0..rows).map(|row| values[row * width + column].clone()).collect();
        columns.push(to_common_type("stack", own, schema)?);
    }
    let name = |column: usize| format!("col{column}");
    let structs = (0..rows).map(|row| {
        let fields =
            (0..width).flat_map(|column| [lit(name(column)), columns[column][row].clone()]);
        core_functions::named_struct().call(fields.collect())
    });
    let columns = (0..width).map(|column| (name(column), vec![name(column)])).collect();
    Ok(Generated { rows: make_array(structs.collect()), columns, outer: false })
}
