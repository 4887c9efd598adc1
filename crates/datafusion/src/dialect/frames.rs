//! The bounds of RANGE frames beside the type that they are counted in: DataFusion reads their text
//! as it fits, `1` before a date as a second.

use crate::functions::error::spark;
use crate::functions::zone::Zone;
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{
    Expr, ExprSchemable, WindowFrame, WindowFrameBound, WindowFrameUnits,
};
use fluvial_core::ddl::ddl_name;
use fluvial_core::interval::CalendarInterval;

/// A window function with the bounds that its first sort key takes.
///
/// # Errors
///
/// `DATATYPE_MISMATCH.RANGE_FRAME_INVALID_TYPE` if a bound is none.
pub(super) fn typed(
    mut expr: Expr,
    schema: &DFSchema,
    config: &ConfigOptions,
) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(call) = &mut expr else { return Ok(Transformed::no(expr)) };
    let params = &mut call.params;
    let Some(key) = params.order_by.first() else { return Ok(Transformed::no(expr)) };
    if params.window_frame.units != WindowFrameUnits::Range {
        return Ok(Transformed::no(expr));
    }
    let key = key.expr.get_type(schema)?;
    let frame = &params.window_frame;
    let start = bound(&frame.start_bound, &key, config)?;
    let end = bound(&frame.end_bound, &key, config)?;
    if start == frame.start_bound && end == frame.end_bound {
        return Ok(Transformed::no(expr));
    }
    params.window_frame = WindowFrame::new_bounds(WindowFrameUnits::Range, start, end);
    Ok(Transformed::yes(expr))
}

fn bound(
    bound: &WindowFrameBound,
    key: &DataType,
    config: &ConfigOptions,
) -> Result<WindowFrameBound> {
    let distance = |value: &ScalarValue| -> Result<ScalarValue> {
        match value {
            ScalarValue::Utf8(Some(text)) => {
                Ok(ScalarValue::Utf8(Some(counted(text, key, config)?)))
            }
            other => Ok(other.clone()),
        }
    };
    Ok(match bound {
        WindowFrameBound::Preceding(value) => WindowFrameBound::Preceding(distance(value)?),
        WindowFrameBound::Following(value) => WindowFrameBound::Following(distance(value)?),
        WindowFrameBound::CurrentRow => WindowFrameBound::CurrentRow,
    })
}

/// The text of a distance, such that DataFusion reads it as it is meant.
fn counted(text: &str, key: &DataType, config: &ConfigOptions) -> Result<String> {
    let interval = match text.parse::<f64>() {
        Ok(_) => None,
        Err(_) => CalendarInterval::parse(text).ok(),
    };
    match (key, interval) {
        (DataType::Date32, None) if text.parse::<i32>().is_ok() => Ok(format!("{text} days")),
        (DataType::Date32, Some(by)) if by.micros == 0 => Ok(text.to_owned()),
        (DataType::Timestamp(_, None), Some(_)) => Ok(text.to_owned()),
        (DataType::Timestamp(_, Some(_)), Some(by)) => {
            let is_even = by.months == 0 && by.days == 0;
            if !is_even && Zone::of_session(config)? != Zone::UTC {
                return Err(spark(
                    "UNSUPPORTED_FEATURE",
                    "a RANGE frame of days or months over timestamps is supported in the time \
                     zone UTC alone: write hours, or cast the timestamps to dates",
                ));
            }
            Ok(text.to_owned())
        }
        (key, None) if key.is_numeric() => Ok(text.to_owned()),
        (key, _) => Err(spark(
            "DATATYPE_MISMATCH.RANGE_FRAME_INVALID_TYPE",
            format!("the frame of a window cannot be counted in `{text}` over {}", ddl_name(key)),
        )),
    }
}
