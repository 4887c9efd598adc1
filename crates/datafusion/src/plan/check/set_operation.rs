//! EXCEPT and INTERSECT over streams: joins in DataFusion's plan, but not in the user's mind.

use super::refuse;
use crate::plan::event_time::is_event_time;
use crate::plan::is_streaming;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, NullEquality};
use datafusion::logical_expr::{Distinct, Join, LogicalPlan};
use fluvial_core::{OutputMode, Result};
use std::sync::Arc;

/// Whether a join of the analysed plan stands for EXCEPT or INTERSECT: no other semi or anti join
/// matches null to null before the optimiser has seen it.
pub(crate) fn is_set_operation(join: &Join) -> bool {
    join.null_equality == NullEquality::NullEqualsNull
        && matches!(join.join_type, JoinType::LeftAnti | JoinType::LeftSemi)
}

/// Refuses what Spark refuses, and `except()` of DataFrames, which would have to count.
pub(super) fn check(join: &Join, mode: OutputMode) -> Result<()> {
    const CONDITION: &str = "STREAMING_SET_OPERATION_NOT_SUPPORTED";
    if join.join_type == JoinType::LeftSemi {
        return Err(refuse(
            CONDITION,
            "INTERSECT of a stream is not supported: use SELECT DISTINCT over a LEFT SEMI JOIN",
        ));
    }
    if is_streaming(&join.right) {
        return Err(refuse(
            CONDITION,
            "EXCEPT with a stream on the right is not supported: a later row of it would take \
             back what was put out",
        ));
    }
    let LogicalPlan::Distinct(_) = join.left.as_ref() else {
        return Err(refuse(
            CONDITION,
            "except() of a stream would keep duplicates: use except_distinct(), EXCEPT ALL in SQL, \
             or a left anti join",
        ));
    };
    let timed = join.left.schema().fields().iter().any(|field| is_event_time(field));
    if mode == OutputMode::Append && !timed {
        return Err(refuse(
            "UNSUPPORTED_STREAMING_OPERATOR_WITHOUT_WATERMARK",
            "output mode append is not supported for EXCEPT, which drops duplicates, without a \
             watermark among its columns: use a LEFT ANTI JOIN, or update mode",
        ));
    }
    Ok(())
}

/// `EXCEPT` with duplicates dropped last, as in Spark: rows that are on the right take no state.
pub(in crate::plan) fn distinct_last(plan: LogicalPlan) -> datafusion::common::Result<LogicalPlan> {
    let lifted = plan.transform_up(|node| match node {
        LogicalPlan::Join(join) if is_set_operation(&join) && is_streaming(&join.left) => {
            let LogicalPlan::Distinct(Distinct::All(input)) = join.left.as_ref() else {
                return Ok(Transformed::no(LogicalPlan::Join(join)));
            };
            let left = Arc::clone(input);
            let join = Arc::new(LogicalPlan::Join(Join { left, ..join }));
            Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::All(join))))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(lifted.data)
}
