//! Aggregations: by windows and keys, in every mode, of unions, and by sessions.

use super::pieces::{EVENTS, Files, SALES, WithoutTime, query, stateful};
use crate::output::Output;
use crate::query::{Cut, Query};
use arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, RecordBatch, StructArray, TimestampMicrosecondArray,
    UInt32Array,
};
use arrow::compute::{cast, take};
use arrow::datatypes::{
    DataType, Field, FieldRef, Int64Type, Schema, SchemaRef, TimestampMicrosecondType,
};
use fluvial::arrow;
use fluvial::datafusion::functions_aggregate::{count::count_udaf, sum::sum_udaf};
use fluvial::datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use fluvial::datafusion::physical_expr::expressions::{col, lit};
use fluvial::{OutputMode, from_datafusion};
use fluvial_core::{KeyGroupCount, Operator, Result};
use fluvial_engine::{Input, MapRows, OperatorRunner};
use fluvial_operators::{
    Aggregation, EventTimeKey, SessionAggregation, SessionTime, WindowSpec, window_type,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The gap of a session, in microseconds.
const GAP: i64 = 5_000_000;

/// `count(1) as n, sum(v) as total`.
fn aggregates() -> Result<Vec<Arc<AggregateFunctionExpr>>> {
    let values = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, true)]));
    let count = AggregateExprBuilder::new(count_udaf(), vec![lit(1_i64)]);
    let sum = vec![col("v", &values).map_err(from_datafusion)?];
    let sum = AggregateExprBuilder::new(sum_udaf(), sum);
    let built = [(count, "n"), (sum, "total")].map(|(builder, name)| {
        builder.schema(Arc::clone(&values)).alias(name).build().map(Arc::new)
    });
    built.into_iter().map(|built| built.map_err(from_datafusion)).collect()
}

/// The times, keys and numbers of rows of either input.
fn columns(
    files: Files,
    rows: &RecordBatch,
) -> Result<(TimestampMicrosecondArray, ArrayRef, Int64Array)> {
    let times = rows.column(files.time).as_primitive::<TimestampMicrosecondType>().clone();
    let (key, number) = if files.name == EVENTS.name { (1, 3) } else { (0, 2) };
    let numbers = cast(rows.column(number), &DataType::Int64)?;
    Ok((times, Arc::clone(rows.column(key)), numbers.as_primitive::<Int64Type>().clone()))
}

/// What a partial aggregation would give, and the time behind it.
fn partial(
    aggregation: &SchemaRef,
    groups: Vec<ArrayRef>,
    numbers: Int64Array,
    times: TimestampMicrosecondArray,
) -> Result<RecordBatch> {
    let ones: ArrayRef = Arc::new(Int64Array::from(vec![1; numbers.len()]));
    let time = Arc::new(Field::new("at", times.data_type().clone(), true));
    let fields: Vec<FieldRef> = aggregation.fields().iter().cloned().chain([time]).collect();
    let others: [ArrayRef; 3] = [ones, Arc::new(numbers), Arc::new(times)];
    let columns = groups.into_iter().chain(others).collect();
    Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
}

/// How groups are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Tumbling,
    Sliding,
    Page,
}

fn mapped(by: By, spec: WindowSpec, files: Files, schema: SchemaRef) -> Arc<MapRows> {
    Arc::new(move |rows| {
        let (times, keys, numbers) = columns(files, &rows)?;
        match by {
            By::Page => partial(&schema, vec![keys], numbers, times),
            By::Tumbling => {
                let windows: ArrayRef = Arc::new(spec.tumbling(&times));
                partial(&schema, vec![windows, keys], numbers, times)
            }
            By::Sliding => {
                let lists = spec.sliding(&times)?;
                let of =
                    |row: usize| std::iter::repeat_n(row as u32, lists.value_length(row) as usize);
                let rows = UInt32Array::from_iter_values((0..lists.len()).flat_map(of));
                let windows = Arc::clone(lists.values());
                let numbers = take(&numbers, &rows, None)?;
                let times = take(&times, &rows, None)?;
                partial(
                    &schema,
                    vec![windows, take(&keys, &rows, None)?],
                    numbers.as_primitive::<Int64Type>().clone(),
                    times.as_primitive::<TimestampMicrosecondType>().clone(),
                )
            }
        }
    })
}

fn grouped(name: &str, by: By, files: Vec<Files>) -> Result<Query> {
    let slide = (by == By::Sliding).then_some("5 seconds");
    let spec = WindowSpec::parse("10 seconds", slide, None)?;
    let zone = Some("UTC".into());
    let window: FieldRef = Arc::new(Field::new("window", window_type(zone), true));
    let page: FieldRef = Arc::new(EVENTS.schema()?.field(1).clone());
    let (groups, time, meaning) = match by {
        By::Page => (vec![page], EventTimeKey::None, BTreeMap::new()),
        _ => (vec![window, page], EventTimeKey::Window(0), spec.meaning()),
    };
    let width = groups.len();
    let aggregation = Aggregation::new(groups, aggregates()?, time, meaning)?;
    let schema = aggregation.input_schema();
    let keys = aggregation.keys(KeyGroupCount::DEFAULT)?;
    let inputs = files.iter().map(|one| {
        let map = mapped(by, spec, *one, Arc::clone(&schema));
        one.input(0, schema.fields().len(), Some(map))
    });
    let inputs = inputs.collect::<Result<Vec<Input>>>()?;
    let operator: Arc<dyn Operator> = Arc::new(WithoutTime(Arc::new(aggregation)));
    let stateful = stateful(operator, vec![(0..width).collect()], move |columns, rows, groups| {
        keys.partitions(columns, rows, groups)
    })?;
    Ok(query(name, files, OperatorRunner::stateful(inputs, stateful)))
}

/// Windows in append mode.
pub(super) fn tumbling(name: &'static str) -> Result<Query> {
    grouped(name, By::Tumbling, vec![EVENTS])
}

/// Windows that overlap.
pub(super) fn sliding(name: &'static str) -> Result<Query> {
    grouped(name, By::Sliding, vec![EVENTS])
}

/// Windows in update mode.
pub(super) fn update(name: &'static str) -> Result<Query> {
    Ok(tumbling(name)?.mode(OutputMode::Update).output(Output::EachBatch))
}

/// Groups without a time, whole each time.
pub(super) fn complete(name: &'static str) -> Result<Query> {
    let query = grouped(name, By::Page, vec![EVENTS])?;
    Ok(query.mode(OutputMode::Complete).output(Output::EachBatch))
}

/// Windows, with rows that come too late: what is late depends on the batches.
pub(super) fn late(name: &'static str) -> Result<Query> {
    Ok(tumbling(name)?.cut(Cut::Fixed))
}

/// Windows over two streams with watermarks of their own.
pub(super) fn union(name: &'static str) -> Result<Query> {
    grouped(name, By::Tumbling, vec![EVENTS, SALES])
}

/// Sessions of each page.
pub(super) fn sessions(name: &'static str) -> Result<Query> {
    let zone = Some("UTC".into());
    let session: FieldRef = Arc::new(Field::new("session", window_type(zone), false));
    let page: FieldRef = Arc::new(EVENTS.schema()?.field(1).clone());
    let groups = vec![Arc::clone(&session), page];
    let sessions = SessionAggregation::new(groups, 0, aggregates()?, SessionTime::EventTime)?;
    let (schema, keys) = (sessions.input_schema(), sessions.key_codec(KeyGroupCount::DEFAULT)?);
    let width = schema.fields().len();
    let map: Arc<MapRows> = Arc::new(move |rows| {
        let (times, keys, numbers) = columns(EVENTS, &rows)?;
        let DataType::Struct(fields) = session.data_type() else {
            return Err(fluvial::Error::invalid("a session is a struct"));
        };
        let ends = times.unary::<_, TimestampMicrosecondType>(|time| time + GAP);
        let ends = ends.with_timezone_opt(times.timezone());
        let edges: Vec<ArrayRef> = vec![Arc::new(times.clone()), Arc::new(ends)];
        let windows: ArrayRef = Arc::new(StructArray::try_new(fields.clone(), edges, None)?);
        partial(&schema, vec![windows, keys], numbers, times)
    });
    let columns = vec![sessions.keys()];
    let operator: Arc<dyn Operator> = Arc::new(WithoutTime(Arc::new(sessions)));
    let stateful = stateful(operator, columns, move |columns, rows, groups| {
        keys.partitions(columns, rows, groups)
    })?;
    let inputs = vec![EVENTS.input(0, width, Some(map))?];
    Ok(query(name, vec![EVENTS], OperatorRunner::stateful(inputs, stateful)))
}
