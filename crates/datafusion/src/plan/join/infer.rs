//! What a filter on the keys of one side says of the other: rows that fail it match nothing. As in
//! Spark they leave below the join, so they take no state and do not advance the watermark.

use super::super::{StreamDedupNode, StreamLimitNode, WatermarkNode};
use super::keys::Equality;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan};

/// What holds for every row of a plan, over its columns.
pub(super) fn known(plan: &LogicalPlan) -> Result<Vec<Expr>> {
    match plan {
        LogicalPlan::Filter(filter) => {
            let mut all = known(&filter.input)?;
            let conjuncts = split_conjunction_owned(filter.predicate.clone());
            all.extend(conjuncts.into_iter().filter(|conjunct| !conjunct.is_volatile()));
            Ok(all)
        }
        LogicalPlan::Projection(projection) => {
            let outputs = projection.expr.iter().cloned().map(Expr::unalias).zip(columns(plan));
            let outputs: Vec<(Expr, Column)> =
                outputs.filter(|(expr, _)| !matches!(expr, Expr::Literal(..))).collect();
            rewritten(known(&projection.input)?, &outputs)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let inputs = columns(&alias.input).into_iter().map(Expr::Column);
            let outputs: Vec<(Expr, Column)> = inputs.zip(columns(plan)).collect();
            rewritten(known(&alias.input)?, &outputs)
        }
        LogicalPlan::Extension(Extension { node }) => {
            let any = node.as_any();
            let same_rows = any.is::<WatermarkNode>()
                || any.is::<StreamDedupNode>()
                || any.is::<StreamLimitNode>();
            match node.inputs().as_slice() {
                [input] if same_rows => known(input),
                _ => Ok(Vec::new()),
            }
        }
        _ => Ok(Vec::new()),
    }
}

fn columns(plan: &LogicalPlan) -> Vec<Column> {
    plan.schema().columns()
}

/// The expressions over other columns, without those that cannot be said with these.
fn rewritten(exprs: Vec<Expr>, outputs: &[(Expr, Column)]) -> Result<Vec<Expr>> {
    let mut all = Vec::new();
    for expr in exprs {
        let mut whole = true;
        let changed = expr.transform_down(|part| {
            if let Some((_, column)) = outputs.iter().find(|(known, _)| *known == part) {
                let column = Expr::Column(column.clone());
                return Ok(Transformed::new(column, true, TreeNodeRecursion::Jump));
            }
            whole &= !matches!(part, Expr::Column(_));
            Ok(Transformed::no(part))
        })?;
        if whole && changed.transformed {
            all.push(changed.data);
        }
    }
    Ok(all)
}

/// What `known` of one side says of the other: the same of the keys that equal its columns.
/// `keys` are pairs of this side's column and the other's.
pub(super) fn of_other(known: &[Expr], keys: &[(Column, Column)]) -> Result<Vec<Expr>> {
    let outputs: Vec<(Expr, Column)> =
        keys.iter().map(|(own, other)| (Expr::Column(own.clone()), other.clone())).collect();
    rewritten(known.to_vec(), &outputs)
}

/// The keys that are plain columns of both sides: left, right.
pub(super) fn plain(keys: &[Equality]) -> Vec<(Column, Column)> {
    let column = |expr: &Expr| expr.try_as_col().cloned();
    let keys = keys.iter().filter(|key| !key.null_safe);
    keys.filter_map(|key| Some((column(&key.left)?, column(&key.right)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::{LogicalPlanBuilder, col, lit, table_scan};

    fn scan() -> LogicalPlanBuilder {
        let schema = Schema::new(vec![Field::new("v", DataType::Int64, true)]);
        table_scan(Some("t"), &schema, None).unwrap()
    }

    #[test]
    fn a_filter_is_known_under_new_names() {
        let even = (col("v") % lit(2i64)).eq(lit(0i64));
        let plan = scan().filter(even).unwrap().project([col("v").alias("id")]).unwrap();
        let plan = plan.alias("a").unwrap().build().unwrap();
        let known = known(&plan).unwrap();
        assert_eq!(known, [(col("a.id") % lit(2i64)).eq(lit(0i64))]);
        let keys = [(Column::from("a.id"), Column::from("b.other"))];
        let other = of_other(&known, &keys).unwrap();
        assert_eq!(other, [(col("b.other") % lit(2i64)).eq(lit(0i64))]);
    }

    #[test]
    fn an_expression_is_known_by_its_column() {
        let rest = (col("v") % lit(5i64)).gt(lit(1i64));
        let key = (col("v") % lit(5i64)).alias("key");
        let plan = scan().filter(rest).unwrap().project([key]).unwrap().build().unwrap();
        assert_eq!(known(&plan).unwrap(), [col("key").gt(lit(1i64))]);
    }

    #[test]
    fn what_is_no_key_says_nothing() {
        let plan = scan().filter(col("v").gt(lit(1i64))).unwrap();
        let plan = plan.project([lit(1i64).alias("v")]).unwrap().build().unwrap();
        assert_eq!(known(&plan).unwrap(), Vec::<Expr>::new());
        let known = [col("a.x").gt(col("a.y"))];
        let keys = [(Column::from("a.x"), Column::from("b.x"))];
        assert_eq!(of_other(&known, &keys).unwrap(), Vec::<Expr>::new());
    }
}
