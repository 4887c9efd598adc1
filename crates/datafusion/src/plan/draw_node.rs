//! `DrawNode`: gives each row the bits that `rand()` and its like draw from.

use crate::functions::{Draw, DrawCall};
use arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Expr, Extension, LogicalPlan, LogicalPlanBuilder, UserDefinedLogicalNodeCore,
};
use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// One place in a query where something is drawn.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    /// The column of its bits.
    pub(crate) column: String,
    /// Which place it is, in the order of the query.
    pub(crate) number: u64,
    /// The seed that the query gives.
    pub(crate) seed: Option<i64>,
}

/// Appends a column of random bits for every place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DrawNode {
    pub(crate) input: LogicalPlan,
    pub(crate) places: Vec<Place>,
    schema: DFSchemaRef,
}

impl DrawNode {
    fn try_new(input: LogicalPlan, places: Vec<Place>) -> Result<Self> {
        let mut fields: Vec<_> =
            input.schema().iter().map(|(q, field)| (q.cloned(), Arc::clone(field))).collect();
        for place in &places {
            fields.push((None, Arc::new(Field::new(&place.column, DataType::Int64, false))));
        }
        let schema = DFSchema::new_with_metadata(fields, input.schema().metadata().clone())?;
        Ok(Self { input, places, schema: Arc::new(schema) })
    }
}

/// Puts a [`DrawNode`] below every node of a stream that draws.
pub(crate) fn place_draws(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut drawn = 0;
    plan.transform_up_with_subqueries(|node| place(node, &mut drawn)).data()
}

fn place(node: LogicalPlan, drawn: &mut u64) -> Result<Transformed<LogicalPlan>> {
    let suits = matches!(
        node,
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::Aggregate(_)
    );
    if !suits || !node.expressions().iter().any(draws) {
        return Ok(Transformed::no(node));
    }
    let mut places = Vec::new();
    let names = NamePreserver::new(&node);
    let mut exprs = Vec::new();
    for expr in node.expressions() {
        let name = names.save(&expr);
        let expr = expr
            .transform_up(|e| {
                let Expr::ScalarFunction(call) = &e else { return Ok(Transformed::no(e)) };
                let Some(call) = DrawCall::of(call.func.name(), &call.args)? else {
                    return Ok(Transformed::no(e));
                };
                *drawn += 1;
                let column = format!("__draw_{drawn}");
                places.push(Place { column: column.clone(), number: *drawn, seed: call.seed });
                Ok(Transformed::yes(call.of_bits(Expr::Column(Column::new_unqualified(column)))))
            })
            .data()?;
        exprs.push(name.restore(expr));
    }
    let Some(input) = node.inputs().into_iter().next().cloned() else {
        return internal_err!("a node that draws has an input");
    };
    let columns = input.schema().columns();
    let draw = DrawNode::try_new(input, places)?;
    let input = LogicalPlan::Extension(Extension { node: Arc::new(draw) });
    let keeps_columns = matches!(node, LogicalPlan::Filter(_));
    let plan = node.with_new_exprs(exprs, vec![input])?;
    if !keeps_columns {
        return Ok(Transformed::yes(plan));
    }
    let plan = LogicalPlanBuilder::from(plan).project(columns.into_iter().map(Expr::Column))?;
    plan.build().map(Transformed::yes)
}

/// Whether an expression draws.
pub(crate) fn draws(expr: &Expr) -> bool {
    let found = expr.exists(|e| {
        Ok(matches!(e, Expr::ScalarFunction(call) if Draw::by(call.func.name()).is_some()))
    });
    // The closure never fails.
    found.unwrap_or(false)
}

impl Hash for DrawNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.input.hash(state);
        self.places.hash(state);
    }
}

impl PartialOrd for DrawNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for DrawNode {
    fn name(&self) -> &str {
        "Draw"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let columns: Vec<&str> = self.places.iter().map(|place| place.column.as_str()).collect();
        write!(f, "Draw: {}", columns.join(", "))
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let Some(input) = inputs.into_iter().next() else {
            return internal_err!("a draw needs one input");
        };
        Self::try_new(input, self.places.clone())
    }

    /// Which row draws what must not depend on what a filter lets through.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let width = self.input.schema().fields().len();
        Some(vec![output_columns.iter().copied().filter(|column| *column < width).collect()])
    }
}
