//! `session_window(time, gap)` in a streaming plan: every row gets a session of its own, from its
//! time to its time plus the gap. The operator above merges them.

use super::event_time::{EVENT_TIME_KEY, is_window};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, StructArray, TimestampMicrosecondArray,
};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, DurationMicrosecondType, Field, FieldRef, IntervalMonthDayNanoType, IntervalUnit,
    TimeUnit, TimestampMicrosecondType,
};
use chrono::{DateTime, Months};
use datafusion::common::{Column, Result, internal_err, plan_err};
use datafusion::logical_expr::expr::{FieldMetadata, ScalarFunction};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use fluvial_core::{CalendarInterval, Error, EventDuration, EventTime};
use fluvial_operators::window_type;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The input with a column of sessions, without rows that have none: no time, no gap, or a gap that
/// is not positive, as in Spark. Also the expression for that column.
pub(super) fn assign(call: &Expr, input: LogicalPlan) -> Result<(LogicalPlan, Column, Expr)> {
    let Expr::ScalarFunction(ScalarFunction { args, .. }) = call else {
        return internal_err!("a session window is a function call");
    };
    let [time, gap] = args.as_slice() else {
        return plan_err!("session_window takes a time column and a gap");
    };
    check_gap(gap)?;
    let mut time = time.clone();
    if is_window(&time.get_type(input.schema())?) {
        time = crate::functions::window_time_udf().call(vec![time]);
    }
    let marked = time.to_field(input.schema())?.1.metadata().contains_key(EVENT_TIME_KEY);
    let name = super::windows::unused_name(&input, "__session");
    let column = Column::new_unqualified(&name);
    let mut columns: Vec<Expr> = input.schema().columns().into_iter().map(Expr::Column).collect();
    let session = ScalarUDF::from(SessionOf(Signature::any(2, Volatility::Immutable)));
    columns.push(session.call(vec![time, gap.clone()]).alias(&name));
    let input = LogicalPlanBuilder::from(input)
        .project(columns)?
        .filter(Expr::Column(column.clone()).is_not_null())?
        .build()?;
    let metadata: BTreeMap<String, String> =
        marked.then(|| (EVENT_TIME_KEY.to_owned(), "true".to_owned())).into_iter().collect();
    let expr = Expr::Column(column.clone());
    let expr = expr.alias_with_metadata(&name, Some(FieldMetadata::new(metadata)));
    Ok((input, column, expr))
}

/// A gap that is a literal must be an interval; one that is computed and is none drops its row.
fn check_gap(gap: &Expr) -> Result<()> {
    let Expr::Literal(value, _) = gap.clone().unalias() else { return Ok(()) };
    match value.try_as_str().flatten() {
        Some(text) => {
            CalendarInterval::parse(text).map_err(crate::error::plan)?;
            Ok(())
        }
        None => Ok(()),
    }
}

/// The session of each time: null without a time or a gap above zero.
#[derive(Debug, PartialEq, Eq, Hash)]
struct SessionOf(Signature);

impl ScalarUDFImpl for SessionOf {
    fn name(&self) -> &str {
        "session_of"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first() {
            Some(DataType::Timestamp(TimeUnit::Microsecond, zone)) => Ok(window_type(zone.clone())),
            other => plan_err!("session_window needs a timestamp, not {other:?}"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<_> = args.arg_fields.iter().map(|f| f.data_type().clone()).collect();
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [time, gap] = args.args.as_slice() else {
            return internal_err!("a session needs a time and a gap");
        };
        let times = time.to_array(args.number_rows)?;
        let Some(times) = times.as_primitive_opt::<TimestampMicrosecondType>() else {
            return plan_err!("session_window needs a timestamp, not {}", times.data_type());
        };
        let ends = match gap {
            ColumnarValue::Scalar(gap) => {
                let gap = gaps(&gap.to_array()?)?.next().flatten();
                ends(times, std::iter::repeat(gap))
            }
            ColumnarValue::Array(gap) => ends(times, gaps(gap)?),
        };
        Ok(ColumnarValue::Array(Arc::new(sessions(times, ends)?)))
    }
}

/// A gap, if it is above zero in whole.
fn positive(interval: CalendarInterval) -> Option<CalendarInterval> {
    // Months are never shorter than 28 days, nor longer than 31.
    let CalendarInterval { months, days, micros } = interval;
    let shortest = if months >= 0 { 28 } else { 31 };
    let day = 86_400_000_000_i128;
    let days = i128::from(months) * shortest + i128::from(days);
    (days * day + i128::from(micros) > 0).then_some(interval)
}

/// The gap of each row.
fn gaps(column: &ArrayRef) -> Result<Box<dyn Iterator<Item = Option<CalendarInterval>> + '_>> {
    let micros = |micros| CalendarInterval { months: 0, days: 0, micros };
    Ok(match column.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            let texts = cast(column, &DataType::Utf8)?;
            let parsed: Vec<Option<CalendarInterval>> = texts
                .as_string::<i32>()
                .iter()
                .map(|text| CalendarInterval::parse(text?).ok().and_then(positive))
                .collect();
            Box::new(parsed.into_iter())
        }
        DataType::Interval(_) => {
            let column = cast(column, &DataType::Interval(IntervalUnit::MonthDayNano))?;
            let gaps: Vec<Option<CalendarInterval>> = column
                .as_primitive::<IntervalMonthDayNanoType>()
                .iter()
                .map(|gap| {
                    let gap = gap?;
                    let micros = gap.nanoseconds.div_euclid(1000);
                    positive(CalendarInterval { months: gap.months, days: gap.days, micros })
                })
                .collect();
            Box::new(gaps.into_iter())
        }
        DataType::Duration(_) => {
            let column = cast(column, &DataType::Duration(TimeUnit::Microsecond))?;
            let column = column.as_primitive::<DurationMicrosecondType>().clone();
            Box::new((0..column.len()).map(move |row| {
                column.is_valid(row).then(|| micros(column.value(row))).and_then(positive)
            }))
        }
        DataType::Null => Box::new(std::iter::repeat_n(None, column.len())),
        other => {
            return Err(crate::error::plan(
                Error::invalid(format!(
                    "the gap of a session window is an interval or a text like '5 minutes', not \
                     {other}"
                ))
                .with_condition("DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE"),
            ));
        }
    })
}

/// Where the sessions end.
fn ends(
    times: &TimestampMicrosecondArray,
    gaps: impl Iterator<Item = Option<CalendarInterval>>,
) -> Vec<Option<i64>> {
    times.iter().zip(gaps).map(|(time, gap)| end(time?, gap?)).collect()
}

/// A day is 24 hours and months are those of the calendar in UTC; ends saturate.
fn end(time: i64, gap: CalendarInterval) -> Option<i64> {
    let months = match gap.months {
        0 => time,
        months => {
            let from = DateTime::from_timestamp_micros(time)?;
            let count = Months::new(months.unsigned_abs());
            let moved = match months > 0 {
                true => from.checked_add_months(count),
                false => from.checked_sub_months(count),
            };
            moved?.timestamp_micros()
        }
    };
    let days = i64::from(gap.days).saturating_mul(86_400_000_000);
    let end = EventTime(months).plus(EventDuration(days)).plus(EventDuration(gap.micros));
    (end.0 > time).then_some(end.0)
}

fn sessions(times: &TimestampMicrosecondArray, ends: Vec<Option<i64>>) -> Result<StructArray> {
    let valid: BooleanArray = ends.iter().map(|end| Some(end.is_some())).collect();
    let zone: Option<Arc<str>> = times.timezone().map(Arc::from);
    let DataType::Struct(fields) = window_type(zone.clone()) else {
        return internal_err!("a session is a struct");
    };
    let starts = TimestampMicrosecondArray::new(times.values().clone(), None);
    let ends: Vec<i64> = ends.into_iter().map(Option::unwrap_or_default).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(starts.with_timezone_opt(zone.clone())),
        Arc::new(TimestampMicrosecondArray::from(ends).with_timezone_opt(zone)),
    ];
    let nulls = NullBuffer::new(valid.values().clone());
    Ok(StructArray::try_new(fields, columns, Some(nulls))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interval(text: &str) -> CalendarInterval {
        CalendarInterval::parse(text).unwrap()
    }

    /// Trap A14.
    #[test]
    fn a_gap_that_is_not_positive_is_none() {
        for text in ["0 seconds", "-5 minutes", "1 day -25 hours", "1 month -31 days"] {
            assert_eq!(positive(interval(text)), None, "{text}");
        }
        for text in ["1 microsecond", "1 day -23 hours", "1 month", "2 months -31 days"] {
            assert!(positive(interval(text)).is_some(), "{text}");
        }
    }

    /// Trap A21.
    #[test]
    fn sessions_end_after_their_gap_and_saturate() {
        assert_eq!(end(7, interval("5 microseconds")), Some(12));
        assert_eq!(end(i64::MAX - 1, interval("1 day")), Some(i64::MAX));
        assert_eq!(end(i64::MAX, interval("1 day")), None);
        // 2024-01-31 and a month is 2024-02-29.
        assert_eq!(end(1_706_659_200_000_000, interval("1 month")), Some(1_709_164_800_000_000));
    }

    #[test]
    fn what_is_no_interval_has_no_session() {
        let texts: ArrayRef =
            Arc::new(arrow::array::StringArray::from(vec![Some("5 seconds"), Some("x"), None]));
        let found: Vec<bool> = gaps(&texts).unwrap().map(|gap| gap.is_some()).collect();
        assert_eq!(found, [true, false, false]);
        assert!(gaps(&(Arc::new(BooleanArray::from(vec![true])) as ArrayRef)).is_err());
    }
}
