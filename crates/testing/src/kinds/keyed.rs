//! Rows as they come: filters, duplicates, limits, and a processor with timers.

use super::pieces::{DELAY, EVENTS, query, stateful};
use crate::query::{Cut, Query};
use arrow::array::{ArrayRef, AsArray, BooleanArray, Int32Array, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Fields, Int32Type, Schema};
use fluvial::arrow;
use fluvial::transform::{
    Call, ExpiredTimer, HandlerResult, InputRows, Key, StatefulProcessor, TimeMode, Transform,
    TransformWithState, ValueState, Variables,
};
use fluvial_core::{KeyGroupCount, Operator, OutputMode, PartitionId, Result};
use fluvial_engine::{MapRows, OperatorRunner};
use fluvial_operators::{Dedup, Limit};
use fluvial_state::KeyCodec;
use std::sync::Arc;

/// A filter and an expression.
pub(super) fn stateless(name: &'static str) -> Result<Query> {
    let map: Arc<MapRows> = Arc::new(|rows: RecordBatch| {
        let values = rows.column(3).as_primitive::<Int32Type>();
        let large: BooleanArray = values.iter().map(|v| v.map(|v| v > 2)).collect();
        let twice: Int32Array = values.iter().map(|v| v.map(|v| v * 2)).collect();
        let mut columns = rows.columns().to_vec();
        columns[3] = Arc::new(twice);
        Ok(filter_record_batch(&RecordBatch::try_new(rows.schema(), columns)?, &large)?)
    });
    let inputs = vec![EVENTS.input(0, EVENTS.time, Some(map))?];
    Ok(query(name, vec![EVENTS], OperatorRunner::stateless(EVENTS.schema()?, inputs)))
}

type Owners = dyn Fn(&[ArrayRef], usize, u32) -> Result<Vec<PartitionId>> + Send + Sync;

fn by(codec: KeyCodec) -> Box<Owners> {
    Box::new(move |columns, rows, groups| codec.partitions(columns, rows, groups))
}

fn over_events(
    name: &str,
    operator: Arc<dyn Operator>,
    keys: Vec<usize>,
    owners: Box<Owners>,
) -> Result<Query> {
    let stateful = stateful(operator, vec![keys], owners)?;
    let inputs = vec![EVENTS.input(0, EVENTS.time, None)?];
    Ok(query(name, vec![EVENTS], OperatorRunner::stateful(inputs, stateful)))
}

/// Duplicates by key and time.
pub(super) fn duplicates(name: &'static str) -> Result<Query> {
    let dedup = Dedup::new(EVENTS.schema()?, vec![0, EVENTS.time], Some(EVENTS.time))?;
    let (keys, codec) = (dedup.keys().to_vec(), dedup.key_codec(KeyGroupCount::DEFAULT)?);
    over_events(name, Arc::new(dedup), keys, by(codec))
}

/// Duplicates within the delay of the watermark.
pub(super) fn duplicates_within(name: &'static str) -> Result<Query> {
    let dedup = Dedup::within_watermark(EVENTS.schema()?, vec![0], EVENTS.time, DELAY)?;
    let (keys, codec) = (dedup.keys().to_vec(), dedup.key_codec(KeyGroupCount::DEFAULT)?);
    Ok(over_events(name, Arc::new(dedup), keys, by(codec))?.cut(Cut::Fixed))
}

/// The first five rows.
pub(super) fn limit(name: &'static str) -> Result<Query> {
    let limit = Limit::new(5, EVENTS.schema()?);
    let owner = |_: &[ArrayRef], rows: usize, _: u32| {
        let group = KeyCodec::group_of_nothing(KeyGroupCount::DEFAULT);
        Ok(vec![PartitionId(u32::from(group.0)); rows])
    };
    Ok(over_events(name, Arc::new(limit), Vec::new(), Box::new(owner))?.cut(Cut::Fixed))
}

/// Counts the events of each page, and tells once the watermark is seven seconds past the first.
#[derive(Default)]
pub(crate) struct Tally {
    seen: ValueState<i64>,
}

impl StatefulProcessor for Tally {
    fn init(&mut self, variables: &mut Variables) -> Result<()> {
        self.seen = variables.value("seen")?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let page = key.at::<&str>(0)?;
        let mut seen = self.seen.get(call)?.unwrap_or_default();
        for row in rows.iter() {
            let (id, ms): (i32, i64) = (row.get("id")?, row.get("ms")?);
            if seen == 0 {
                call.register_timer(ms + 7000)?;
            }
            seen += 1;
            call.emit((page, seen, i64::from(id)))?;
        }
        self.seen.update(call, seen)?;
        Ok(())
    }

    fn handle_expired_timer(
        &self,
        key: &Key<'_>,
        timer: ExpiredTimer,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let seen = self.seen.get(call)?.unwrap_or_default();
        call.emit((key.at::<&str>(0)?, -seen, timer.expiry_ms))?;
        self.seen.clear(call)?;
        Ok(())
    }
}

/// A processor with a variable and timers of event time.
pub(super) fn timers(name: &'static str) -> Result<Query> {
    let fields = [("page", DataType::Utf8), ("number", DataType::Int64), ("id", DataType::Int64)];
    let output = fields.map(|(name, data_type)| Field::new(name, data_type, true));
    let output = Arc::new(Schema::new(output.to_vec()));
    let mode = OutputMode::Append;
    let transform = Transform::new(Tally::default(), output, TimeMode::EventTime, mode)?;
    let events = EVENTS.schema()?;
    let rows = Schema::new(vec![
        events.field(0).clone(),
        events.field(EVENTS.time).clone(),
        Field::new("ms", DataType::Int64, true),
    ]);
    let (rows, keys) = (Arc::new(rows), Fields::from(vec![events.field(1).clone()]));
    let all: Vec<Field> =
        keys.iter().chain(rows.fields()).map(|field| field.as_ref().clone()).collect();
    let operator = TransformWithState::new(Arc::new(transform), keys, rows, Some(1))?;
    let codec = operator.key_codec(KeyGroupCount::DEFAULT)?;
    let all = Arc::new(Schema::new(all));
    let map: Arc<MapRows> = Arc::new(move |rows: RecordBatch| {
        let times = rows.column(EVENTS.time);
        let micros = times.as_primitive::<arrow::datatypes::TimestampMicrosecondType>();
        let ms: arrow::array::Int64Array =
            micros.iter().map(|micros| micros.map(|micros| micros.div_euclid(1000))).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::clone(rows.column(1)),
            Arc::clone(rows.column(0)),
            Arc::clone(times),
            Arc::new(ms),
        ];
        Ok(RecordBatch::try_new(Arc::clone(&all), columns)?)
    });
    let stateful = stateful(Arc::new(operator), vec![vec![0]], by(codec))?;
    let inputs = vec![EVENTS.input(0, 2, Some(map))?];
    let runner = OperatorRunner::stateful(inputs, stateful);
    Ok(query(name, vec![EVENTS], runner).cut(Cut::Fixed))
}
