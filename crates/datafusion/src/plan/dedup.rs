//! Prepares a deduplication: its delay, what is refused, and what is warned of.

use super::{Remembered, StreamDedupNode, WatermarkNode};
use crate::error::plan as refused;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan};
use fluvial_core::{Error, EventDuration, OperatorId};

/// The node of a prepared query, with its name and its delay.
///
/// # Errors
///
/// `DROP_DUPLICATES_WITHIN_WATERMARK_WITHOUT_WATERMARK`; Spark's condition for maps among keys.
pub(super) fn prepared(node: &StreamDedupNode, operator: OperatorId) -> Result<StreamDedupNode> {
    for key in node.key_indices()? {
        let field = node.input.schema().field(key);
        if has_map(field.data_type()) {
            return Err(refused(
                Error::invalid(format!(
                    "duplicates cannot be dropped by column {}, which has a map in it: drop them \
                     by map_entries of it, or by other columns",
                    field.name()
                ))
                .with_condition("UNSUPPORTED_FEATURE.SET_OPERATION_ON_MAP_TYPE"),
            ));
        }
    }
    let remembered = match (node.remembered, node.event_time()) {
        (Remembered::ByKey, _) => Remembered::ByKey,
        (Remembered::WithinWatermark(_), Some(time)) => {
            Remembered::WithinWatermark(Some(delay_of(&node.input, time)?))
        }
        (Remembered::WithinWatermark(_), None) => return Err(refused(without_watermark())),
    };
    Ok(StreamDedupNode { operator, remembered, ..node.clone() })
}

fn without_watermark() -> Error {
    Error::invalid(
        "drop_duplicates_within_watermark needs a watermark on its input: call with_watermark \
         first, and keep the event time column",
    )
    .with_condition("DROP_DUPLICATES_WITHIN_WATERMARK_WITHOUT_WATERMARK")
}

fn has_map(data_type: &DataType) -> bool {
    match data_type {
        DataType::Map(..) => true,
        DataType::Struct(fields) => fields.iter().any(|field| has_map(field.data_type())),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            has_map(item.data_type())
        }
        _ => false,
    }
}

/// What there is to say of it, if its state grows without bound.
pub(super) fn warning(node: &StreamDedupNode) -> Option<String> {
    let names: Vec<&str> = node.keys.iter().map(|key| key.name.as_str()).collect();
    (!node.is_bounded()).then(|| {
        format!(
            "the state of {} grows without bound: drop_duplicates by {} remembers every key for \
             ever; add the event time column of a watermark to the keys, or use \
             drop_duplicates_within_watermark",
            node.operator,
            names.join(", ")
        )
    })
}

/// The delay of the watermark that the column at `at` comes from; of several inputs of a union
/// the first one's, as in Spark.
fn delay_of(plan: &LogicalPlan, at: usize) -> Result<EventDuration> {
    watermark_of(plan, at)
        .or_else(|| first_watermark(plan))
        .map(|watermark| watermark.delay)
        .ok_or_else(|| refused(without_watermark()))
}

/// Follows the column down, as long as it is clear where it comes from.
fn watermark_of(plan: &LogicalPlan, at: usize) -> Option<&WatermarkNode> {
    match plan {
        LogicalPlan::Extension(Extension { node }) => {
            match node.as_any().downcast_ref::<WatermarkNode>() {
                Some(watermark) if watermark.column_index().ok()? == at => Some(watermark),
                Some(watermark) => watermark_of(&watermark.input, at),
                None => watermark_of(node.inputs().first()?, at),
            }
        }
        LogicalPlan::Projection(projection) => match projection.expr.get(at)?.clone().unalias() {
            Expr::Column(column) => {
                let at = projection.input.schema().index_of_column(&column).ok()?;
                watermark_of(&projection.input, at)
            }
            _ => first_watermark(&projection.input),
        },
        LogicalPlan::Join(join) => {
            let left = join.left.schema().fields().len();
            match at < left {
                true => watermark_of(&join.left, at),
                false => watermark_of(&join.right, at - left),
            }
        }
        LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Union(_) => watermark_of(plan.inputs().first()?, at),
        _ => first_watermark(plan),
    }
}

fn first_watermark(plan: &LogicalPlan) -> Option<&WatermarkNode> {
    if let LogicalPlan::Extension(Extension { node }) = plan
        && let Some(watermark) = node.as_any().downcast_ref::<WatermarkNode>()
    {
        return Some(watermark);
    }
    plan.inputs().into_iter().find_map(first_watermark)
}
