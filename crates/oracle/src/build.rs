//! Builds the DataFrame that a case's plan describes.

use crate::case::SourceSpec;
use crate::feed::Feeder;
use crate::processors;
use anyhow::{Context, Result, bail};
use fluvial::arrow::json::ReaderBuilder;
use fluvial::datafusion::common::{Column, DFSchema, JoinType};
use fluvial::datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use fluvial::datafusion::logical_expr::{BinaryExpr, LogicalPlanBuilder, Operator, binary_expr};
use fluvial::datafusion::prelude::{DataFrame, Expr, lit, when};
use fluvial::{
    Session, StreamingDataFrame, session_window, sliding_window, window, window_with_start,
};
use futures::future::BoxFuture;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What building a plan needs.
pub(crate) struct Builder<'a> {
    pub(crate) session: &'a Session,
    pub(crate) sources: &'a [SourceSpec],
    pub(crate) feeder: &'a Feeder,
    pub(crate) shared: BTreeMap<String, DataFrame>,
    /// Whether the node above needs values where an outer join gives nulls.
    pub(crate) tested: bool,
}

fn text<'v>(node: &'v Value, key: &str) -> Result<&'v str> {
    node[key].as_str().with_context(|| format!("{key} is missing in {node}"))
}

fn list<'v>(node: &'v Value, key: &str) -> Result<&'v Vec<Value>> {
    node[key].as_array().with_context(|| format!("{key} is missing in {node}"))
}

fn words(node: &Value, key: &str) -> Result<Vec<String>> {
    let word = |v: &Value| v.as_str().map(str::to_owned).context("a list of names");
    list(node, key)?.iter().map(word).collect()
}

impl Builder<'_> {
    pub(crate) fn build<'b>(&'b mut self, node: &'b Value) -> BoxFuture<'b, Result<DataFrame>> {
        Box::pin(async move {
            let op = text(node, "op")?;
            let tested = std::mem::replace(&mut self.tested, tests(node));
            match op {
                "source" => self.source(text(node, "id")?).await,
                "static" => self.table(node),
                "shared" => {
                    let id = node["id"].to_string();
                    if let Some(frame) = self.shared.get(&id) {
                        return Ok(frame.clone());
                    }
                    let frame = self.build(&node["input"]).await?;
                    self.shared.insert(id, frame.clone());
                    Ok(frame)
                }
                "sql" => self.sql(node).await,
                "union" => {
                    let left = self.build(&node["left"]).await?;
                    let right = self.build(&node["right"]).await?;
                    Ok(left.union_by_name(right)?)
                }
                "transform_with_state" => {
                    let input = self.build(&node["input"]).await?;
                    let initial = match node.get("initial_state") {
                        Some(initial) => Some(self.build(initial).await?),
                        None => None,
                    };
                    processors::transform(self.session, input, initial, node)
                }
                "apply_in_pandas_with_state" => {
                    let input = self.build(&node["input"]).await?;
                    processors::group_function(self.session, input, node)
                }
                "join" => {
                    let left = self.build(&node["left"]).await?;
                    let right = self.build(&node["right"]).await?;
                    self.join(left, right, node, tested)
                }
                _ => {
                    let input = self.build(&node["input"]).await?;
                    self.unary(op, input, node)
                }
            }
        })
    }

    fn unary(&self, op: &str, input: DataFrame, node: &Value) -> Result<DataFrame> {
        match op {
            "watermark" => Ok(input.with_watermark(text(node, "col")?, text(node, "delay")?)?),
            "select" => {
                let mut exprs = Vec::new();
                for pair in list(node, "exprs")? {
                    let sql = pair[0].as_str().context("an expression")?;
                    let alias = pair[1].as_str().context("an alias")?;
                    exprs.push(self.session.expr(sql, &input)?.alias(alias));
                }
                Ok(self.session.select(input, exprs)?)
            }
            "filter" => {
                let predicate = self.session.expr(text(node, "expr")?, &input)?;
                Ok(input.filter(predicate)?)
            }
            "alias" => Ok(input.alias(text(node, "name")?)?),
            "sort" => {
                let mut keys = Vec::new();
                for name in words(node, "cols")? {
                    let (name, ascending) = match name.strip_prefix('-') {
                        Some(name) => (name, false),
                        None => (name.as_str(), true),
                    };
                    keys.push(self.session.expr(name, &input)?.sort(ascending, ascending));
                }
                Ok(input.sort(keys)?)
            }
            "limit" => {
                let rows = node["n"].as_i64().context("n is missing")?;
                Ok(input.limit(0, Some(usize::try_from(rows)?))?)
            }
            "drop_duplicates" => {
                let columns = words(node, "cols")?;
                let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
                Ok(input.drop_duplicates(&columns)?)
            }
            "drop_duplicates_within_watermark" => {
                let columns = words(node, "cols")?;
                let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
                Ok(input.drop_duplicates_within_watermark(&columns)?)
            }
            "aggregate" => self.aggregate(input, node),
            other => bail!("operation {other} is not supported yet"),
        }
    }

    async fn source(&self, id: &str) -> Result<DataFrame> {
        let spec = self.sources.iter().find(|s| s.id == id).context("an unknown source")?;
        let mut reader = self
            .session
            .read_stream()
            .format(spec.format.as_deref().unwrap_or("json"))
            .schema(ddl(&spec.schema));
        for (name, value) in &spec.options {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            reader = reader.option(name, value);
        }
        let folder = self.feeder.folder(id)?.display().to_string();
        Ok(reader.load(folder + spec.path_suffix.as_deref().unwrap_or_default()).await?)
    }

    fn table(&self, node: &Value) -> Result<DataFrame> {
        let columns: Vec<(String, String)> = serde_json::from_value(node["schema"].clone())?;
        let schema = Arc::new(fluvial::parse_ddl(&ddl(&columns))?);
        let mut decoder = ReaderBuilder::new(Arc::clone(&schema)).build_decoder()?;
        decoder.serialize(list(node, "rows")?)?;
        let empty = fluvial::arrow::array::RecordBatch::new_empty(schema);
        let rows = decoder.flush()?.unwrap_or(empty);
        Ok(self.session.create_dataframe(vec![rows])?)
    }

    async fn sql(&mut self, node: &Value) -> Result<DataFrame> {
        let inputs = node["inputs"].as_object().context("inputs are missing")?;
        for (name, input) in inputs {
            let frame = self.build(input).await?;
            let context = self.session.context();
            context.deregister_table(name.as_str())?;
            context.register_table(name.as_str(), frame.into_view())?;
        }
        Ok(self.session.sql(text(node, "query")?).await?)
    }

    fn join(
        &self,
        left: DataFrame,
        right: DataFrame,
        node: &Value,
        tested: bool,
    ) -> Result<DataFrame> {
        let kind = match text(node, "how")? {
            "inner" | "cross" => JoinType::Inner,
            "left_outer" | "left" => JoinType::Left,
            "right_outer" | "right" => JoinType::Right,
            "full_outer" | "full" => JoinType::Full,
            "left_semi" => JoinType::LeftSemi,
            "left_anti" => JoinType::LeftAnti,
            other => bail!("join {other} is not supported yet"),
        };
        let Value::String(sql) = &node["on"] else {
            return join_using(left, right, kind, &words(node, "on")?);
        };
        let (state, left) = left.into_parts();
        let (_, right) = right.into_parts();
        // The condition reads the columns of both.
        let both = LogicalPlanBuilder::from(left.clone()).cross_join(right.clone())?.build()?;
        let mut on = self.session.expr(sql, &DataFrame::new(state.clone(), both))?;
        if kind == JoinType::Full && !tested {
            on = null_safe(on, left.schema(), right.schema());
        }
        let plan = LogicalPlanBuilder::from(left).join_on(right, kind, Some(on))?;
        Ok(DataFrame::new(state, plan.build()?))
    }

    fn aggregate(&self, input: DataFrame, node: &Value) -> Result<DataFrame> {
        let mut keys = Vec::new();
        for group in list(node, "group")? {
            keys.push(self.group(&input, group)?);
        }
        let mut aggregates = Vec::new();
        for aggregate in list(node, "aggs")? {
            let function = text(aggregate, "fn")?;
            let argument = aggregate["arg"].as_str().unwrap_or_default();
            let sql = match function {
                "sql" => argument.to_owned(),
                _ => format!("{function}({argument})"),
            };
            aggregates.push(self.session.expr(&sql, &input)?.alias(text(aggregate, "as")?));
        }
        Ok(input.group_by(keys).agg(aggregates)?)
    }

    fn group(&self, input: &DataFrame, group: &Value) -> Result<Expr> {
        let named = |expr: Expr| -> Result<Expr> {
            Ok(match group["as"].as_str() {
                Some(name) => expr.alias(name),
                None => expr,
            })
        };
        match text(group, "fn")? {
            "column" => {
                let column = self.session.expr(text(group, "col")?, input)?;
                match text(group, "col")? == text(group, "as").unwrap_or_default() {
                    true => Ok(column),
                    false => named(column),
                }
            }
            "expr" => named(self.session.expr(text(group, "expr")?, input)?),
            "window" => {
                let column = text(group, "col")?;
                let time = column.strip_prefix("expr:").unwrap_or(column);
                let time = self.session.expr(time, input)?;
                let size = text(group, "size")?;
                let slide = group["slide"].as_str();
                named(match (slide, group["start"].as_str()) {
                    (None, None) => window(time, size),
                    (Some(slide), None) => sliding_window(time, size, slide),
                    (slide, Some(start)) => {
                        window_with_start(time, size, slide.unwrap_or(size), start)
                    }
                })
            }
            "session_window" => {
                let time = self.session.expr(text(group, "col")?, input)?;
                let gap = text(group, "gap")?;
                named(match gap.strip_prefix("expr:") {
                    Some(gap) => session_window(time, self.session.expr(gap, input)?),
                    None => session_window(time, gap),
                })
            }
            other => bail!("grouping by {other} is not supported yet"),
        }
    }
}

/// Whether a node takes away rows that lack values: then Spark makes less than a full outer join of
/// one below it.
fn tests(node: &Value) -> bool {
    let windows =
        node["group"].as_array().into_iter().flatten().any(|group| group["fn"] == "window");
    node["op"] == "filter" || windows
}

/// A condition whose equalities between the sides match null to null. Spark does so in full outer
/// joins of two streams, whatever the query says; here it must say `<=>`.
fn null_safe(on: Expr, left: &DFSchema, right: &DFSchema) -> Expr {
    let of = |expr: &Expr, schema: &DFSchema| {
        let columns = expr.column_refs();
        !columns.is_empty() && columns.into_iter().all(|column| schema.has_column(column))
    };
    let conjuncts = split_conjunction_owned(on).into_iter().map(|conjunct| match conjunct {
        Expr::BinaryExpr(BinaryExpr { left: l, op: Operator::Eq, right: r })
            if (of(&l, left) && of(&r, right)) || (of(&r, left) && of(&l, right)) =>
        {
            binary_expr(*l, Operator::IsNotDistinctFrom, *r)
        }
        other => other,
    });
    conjunction(conjuncts).unwrap_or_else(|| lit(true))
}

/// A join on columns that both sides have: as in Spark each comes out once, from the side whose
/// rows all come out.
fn join_using(
    left: DataFrame,
    right: DataFrame,
    kind: JoinType,
    on: &[String],
) -> Result<DataFrame> {
    let (l, r) = ("join_left", "join_right");
    let (left, right) = (left.alias(l)?, right.alias(r)?);
    let column = |side: &str, name: &str| Expr::Column(Column::new(Some(side), name));
    let mut columns = Vec::new();
    for key in on {
        let (left, right) = (column(l, key), column(r, key));
        let value = match kind {
            JoinType::Right => right,
            JoinType::Full => when(left.clone().is_not_null(), left).otherwise(right)?,
            _ => left,
        };
        columns.push(value.alias(key));
    }
    let others = |frame: &DataFrame, side: &str| -> Vec<Expr> {
        let names = frame.schema().fields().iter().map(|field| field.name().clone());
        names
            .filter(|name| !on.contains(name))
            .map(|name| column(side, &name).alias(&name))
            .collect()
    };
    columns.extend(others(&left, l));
    if !matches!(kind, JoinType::LeftSemi | JoinType::LeftAnti) {
        columns.extend(others(&right, r));
    }
    let equals = if kind == JoinType::Full { Operator::IsNotDistinctFrom } else { Operator::Eq };
    let equal = on.iter().map(|key| binary_expr(column(l, key), equals, column(r, key)));
    Ok(left.join_on(right, kind, equal)?.select(columns)?)
}

/// A schema as Spark's DDL.
pub(crate) fn ddl(columns: &[(String, String)]) -> String {
    let column = |(name, data_type): &(String, String)| format!("`{name}` {data_type}");
    columns.iter().map(column).collect::<Vec<_>>().join(", ")
}
