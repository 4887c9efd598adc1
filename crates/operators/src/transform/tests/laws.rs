//! The laws of operators, on processors whose work does not depend on how batches are cut.

use super::*;
use arrow::array::{ArrayRef, Int64Array, TimestampMicrosecondArray};
use fluvial_conformance::operator::{Contents, Event, Subject};
use fluvial_core::{EventDuration, KeyGroup, KeyGroupCount, Operator};

/// How long a sum waits for more.
const REACH_MS: i64 = 10_000;

/// Sums values by key and event time, and emits a sum when its timer fires.
#[derive(Default)]
struct Sums {
    sums: MapState<i64, i64>,
}

impl StatefulProcessor for Sums {
    fn init(&mut self, variables: &mut Variables) -> fluvial_core::Result<()> {
        self.sums = variables.map("sums")?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        _: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        for row in rows {
            let time = row.get::<EventTime>("time")?.as_millis() + REACH_MS;
            let sum = self.sums.get(call, &time)?.unwrap_or(0) + row.get::<i64>("value")?;
            self.sums.update(call, time, sum)?;
            call.register_timer(time)?;
        }
        Ok(())
    }

    fn handle_expired_timer(
        &self,
        key: &Key<'_>,
        expired: ExpiredTimer,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let sum = self.sums.get(call, &expired.expiry_ms)?;
        self.sums.remove(call, &expired.expiry_ms)?;
        call.emit((key.at::<i64>(0)?, expired.expiry_ms, sum))?;
        Ok(())
    }
}

/// Passes values on, and remembers them: a count, and a list.
#[derive(Default)]
struct Remembers {
    count: ValueState<i64>,
    values: ListState<(i64, Option<String>)>,
}

impl StatefulProcessor for Remembers {
    fn init(&mut self, variables: &mut Variables) -> fluvial_core::Result<()> {
        self.count = variables.value("count")?;
        self.values = variables.list("values")?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        for row in rows {
            let value = row.get::<i64>("value")?;
            let count = self.count.get(call)?.unwrap_or(0) + 1;
            self.count.update(call, count)?;
            self.values.append(call, (value, Some(count.to_string())))?;
            let length = self.values.get(call)?.len() as i64;
            call.emit((key.at::<i64>(0)?, count, Some(length)))?;
        }
        Ok(())
    }
}

/// A processor over the kit's events.
struct Case(TransformWithState);

impl Case {
    fn new(processor: impl StatefulProcessor + 'static, time_mode: TimeMode) -> Self {
        let int = DataType::Int64;
        let output = schema(&[("key", int.clone()), ("n", int.clone()), ("sum", int.clone())]);
        let transform = Transform::new(processor, output, time_mode, OutputMode::Append).unwrap();
        let rows =
            schema(&[("key", int.clone()), ("time", EventTime::data_type()), ("value", int)]);
        let keys = vec![Arc::clone(&rows.fields()[0])];
        Self(TransformWithState::new(Arc::new(transform), keys, rows, Some(1)).unwrap())
    }
}

impl Subject for Case {
    fn operator(&self) -> &dyn Operator {
        &self.0
    }

    fn mode(&self) -> OutputMode {
        OutputMode::Append
    }

    fn rows(&self, _: usize, events: &[Event]) -> RecordBatch {
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(events.iter().map(|e| e.key)));
        let times = TimestampMicrosecondArray::from_iter_values(events.iter().map(|e| e.time));
        let values = Int64Array::from_iter_values(events.iter().map(|e| e.value));
        let config = &self.0.config;
        let columns: Vec<ArrayRef> =
            vec![Arc::clone(&keys), keys, Arc::new(times.with_timezone("UTC")), Arc::new(values)];
        RecordBatch::try_new(definition::input_schema(&config.keys, &config.rows), columns).unwrap()
    }

    fn groups(&self, _: usize, rows: &RecordBatch, key_groups: KeyGroupCount) -> Vec<KeyGroup> {
        let keys = &rows.columns()[..1];
        self.0.key_codec(key_groups).unwrap().encode(keys, None, rows.num_rows()).unwrap().groups
    }

    fn reach(&self) -> EventDuration {
        EventDuration(REACH_MS * 1000)
    }

    fn rows_in(&self, contents: &Contents) -> u64 {
        // Values, entries of maps, lengths of lists; elements have eight bytes more.
        let list = self.0.config.transform.variables.iter().find(|v| v.name == "values");
        let element =
            |key: &[u8]| list.is_some_and(|list| key[3..6] == list.id && key.len() == 6 + 9 + 8);
        contents.keys().filter(|key| key[2] == 1 && !element(key)).count() as u64
    }
}

fluvial_conformance::operator!(
    timed: sums_by_timers,
    || Case::new(Sums::default(), TimeMode::EventTime)
);
fluvial_conformance::operator!(
    timeless: values_and_lists,
    || Case::new(Remembers::default(), TimeMode::None)
);
