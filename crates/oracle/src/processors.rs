//! The processors that cases name, in Rust: their Python source is in the case.

mod composite;
mod counts;
mod functions;
mod lists;
mod timers;

use anyhow::{Context, Result, bail};
use fluvial::arrow::datatypes::{Fields, SchemaRef};
use fluvial::datafusion::prelude::DataFrame;
use fluvial::transform::{
    Call, EventTime, GroupTimeout, HandlerResult, InputRow, InputRows, Key, StatefulProcessor,
    TimeMode, Transform, Variable, Variables,
};
use fluvial::{GroupedData, OutputMode, Session, StreamingDataFrame, parse_ddl};
use serde_json::Value;

/// The node `transform_with_state`.
pub(crate) fn transform(
    session: &Session,
    input: DataFrame,
    initial: Option<DataFrame>,
    node: &Value,
) -> Result<DataFrame> {
    let time_mode = match text(node, "time_mode")? {
        "none" => TimeMode::None,
        "processingTime" => TimeMode::ProcessingTime,
        "eventTime" => TimeMode::EventTime,
        other => bail!("time mode {other} is unknown"),
    };
    let (schema, mode) = (schema(node)?, text(node, "mode")?.parse()?);
    let mut transform = processor(text(node, "processor")?, schema, time_mode, mode)?;
    if let Some(column) = node["event_time_col"].as_str() {
        transform = transform.with_event_time(column)?;
    }
    let initial = initial.map(|initial| grouped(session, initial, node)).transpose()?;
    Ok(grouped(session, input, node)?.transform_from(transform, initial)?)
}

/// The node `apply_in_pandas_with_state`.
pub(crate) fn group_function(
    session: &Session,
    input: DataFrame,
    node: &Value,
) -> Result<DataFrame> {
    let timeout = match text(node, "timeout")? {
        "NoTimeout" => GroupTimeout::None,
        "ProcessingTimeTimeout" => GroupTimeout::ProcessingTime,
        "EventTimeTimeout" => GroupTimeout::EventTime,
        other => bail!("timeout {other} is unknown"),
    };
    let (schema, mode) = (schema(node)?, text(node, "mode")?.parse()?);
    let (name, state) = (text(node, "processor")?, text(node, "state_schema")?);
    let transform = functions::function(name, schema, state, mode, timeout)?;
    Ok(grouped(session, input, node)?.transform(transform)?)
}

fn text<'v>(node: &'v Value, key: &str) -> Result<&'v str> {
    node[key].as_str().with_context(|| format!("{key} is missing in {node}"))
}

fn schema(node: &Value) -> Result<SchemaRef> {
    Ok(SchemaRef::new(parse_ddl(text(node, "out_schema")?)?))
}

fn grouped(session: &Session, frame: DataFrame, node: &Value) -> Result<GroupedData> {
    let names = node["group"].as_array().context("group is missing")?;
    let key = |name: &Value| {
        let name = name.as_str().context("a grouping column")?;
        Ok(session.expr(name, &frame)?)
    };
    let keys = names.iter().map(key).collect::<Result<Vec<_>>>()?;
    Ok(frame.group_by(keys))
}

/// Whether there is a processor, or a function, of this name.
pub(crate) fn is_known(name: &str) -> bool {
    let schema = || parse_ddl("k STRING, n BIGINT").map(SchemaRef::new);
    let Ok(schema) = schema() else { return false };
    processor(name, schema, TimeMode::ProcessingTime, OutputMode::Update).is_ok()
        || functions::is_known(name)
}

/// The processor of this name.
fn processor(
    name: &str,
    schema: SchemaRef,
    time_mode: TimeMode,
    mode: OutputMode,
) -> Result<Transform> {
    macro_rules! one_of {
        ($($($name:literal)|* => $processor:expr,)*) => {
            match name {
                $($($name)|* => Transform::new($processor, schema, time_mode, mode)?,)*
                other => bail!("processor {other} is not written yet"),
            }
        };
    }
    Ok(one_of! {
        "RunningCount" | "RunningCountPandas" => counts::Count::new(counts::Key::One),
        "TwoKeyCount" => counts::Count::new(counts::Key::Two),
        "TtlCount" => counts::Count::with_ttl(20_000),
        "CountClearThree" => counts::Cleared::at_three_rows(),
        "ClearAtThree" => counts::Cleared::at_sum_of_three(),
        "CountTwoFields" => counts::TwoFields::default(),
        "SumWithInitial" => counts::SumWithInitial::default(),
        "WithInitial" => counts::WithInitial::default(),
        "CompositeState" => composite::CompositeState::default(),
        "ListOps" => lists::ListOps::default(),
        "ListBuffer" => lists::ListBuffer::default(),
        "CountAsList" => lists::CountAsList::default(),
        "EmitEpoch" => timers::EmitEpoch,
        "MinTsCount" => timers::MinTsCount,
        "MaxEventTimer" | "MaxEventTimerInit" => timers::MaxEventTimer::default(),
        "EventTimer" => timers::EventTimer::default(),
        "PastTimer" => timers::PastTimer,
        "ReTimer" => timers::ReTimer::default(),
        "MultiTimer" => timers::MultiTimer,
        "ProcTimer" => timers::ProcTimer::default(),
    })
}

/// A variable with columns in Spark's words.
fn variable(name: &str, ddl: &str) -> fluvial::Result<Variable> {
    Ok(Variable::named(name).fields(fields(ddl)?))
}

fn fields(ddl: &str) -> fluvial::Result<Fields> {
    Ok(parse_ddl(ddl)?.fields().clone())
}

/// The first grouping column.
fn name(key: &Key<'_>) -> fluvial::Result<Option<String>> {
    key.at(0)
}

fn millis(row: InputRow<'_>) -> fluvial::Result<i64> {
    Ok(row.get::<EventTime>("ts")?.as_millis())
}

fn latest(rows: InputRows<'_>) -> fluvial::Result<i64> {
    rows.iter().try_fold(i64::MIN, |latest, row| Ok(latest.max(millis(row)?)))
}
