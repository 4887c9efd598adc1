//! One value with an array, a map, a struct, a time and a null.

use super::{Call, EventTime, HandlerResult, InputRows, Key, StatefulProcessor, Variables, name};
use fluvial::arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, ListArray, MapArray, StringArray, StructArray,
};
use fluvial::arrow::buffer::OffsetBuffer;
use fluvial::arrow::datatypes::{DataType, Fields, Int64Type};
use fluvial::datafusion::scalar::ScalarValue;
use fluvial::transform::{Record, ValueState};
use std::collections::BTreeMap;
use std::sync::Arc;

const STATE: &str = "arr ARRAY<BIGINT>, m MAP<STRING,BIGINT>, st STRUCT<a: BIGINT, b: STRING>, \
                     ts TIMESTAMP, note STRING";

/// Appends v, counts per u, keeps the last row and the latest event time.
#[derive(Default)]
pub(super) struct CompositeState {
    state: ValueState<Record>,
    fields: Fields,
}

/// The state, as Rust has it.
#[derive(Default)]
struct State {
    values: Vec<Option<i64>>,
    counts: BTreeMap<String, i64>,
    last: (Option<i64>, Option<String>),
    latest: Option<i64>,
}

impl State {
    fn read(record: &Record) -> Result<Self, String> {
        let [values, counts, last, latest, _] = record.0.as_slice() else {
            return Err("the state has five columns".into());
        };
        let ScalarValue::List(values) = values else { return Err("no list".into()) };
        let ScalarValue::Map(counts) = counts else { return Err("no map".into()) };
        let ScalarValue::Struct(last) = last else { return Err("no struct".into()) };
        let ScalarValue::TimestampMicrosecond(latest, _) = latest else {
            return Err("no time".into());
        };
        let entries = counts.value(0);
        let keys = entries.column(0).as_string::<i32>();
        let numbers = entries.column(1).as_primitive::<Int64Type>();
        let (a, b) =
            (last.column(0).as_primitive::<Int64Type>(), last.column(1).as_string::<i32>());
        let values = values.value(0);
        Ok(Self {
            values: values.as_primitive::<Int64Type>().iter().collect(),
            counts: (0..keys.len()).map(|i| (keys.value(i).to_owned(), numbers.value(i))).collect(),
            last: (a.is_valid(0).then(|| a.value(0)), b.is_valid(0).then(|| b.value(0).to_owned())),
            latest: *latest,
        })
    }

    fn list(&self, data_type: &DataType) -> Result<ScalarValue, HandlerError> {
        let DataType::List(item) = data_type else { return Err("no list".into()) };
        let values: ArrayRef = Arc::new(Int64Array::from(self.values.clone()));
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        Ok(ScalarValue::List(Arc::new(ListArray::try_new(
            Arc::clone(item),
            offsets,
            values,
            None,
        )?)))
    }

    fn record(&self, fields: &Fields) -> Result<Record, HandlerError> {
        let DataType::Map(entries, _) = fields[1].data_type() else { return Err("no map".into()) };
        let DataType::Struct(parts) = entries.data_type() else { return Err("no entries".into()) };
        let DataType::Struct(of_last) = fields[2].data_type() else {
            return Err("no struct".into());
        };
        let keys: ArrayRef = Arc::new(StringArray::from_iter_values(self.counts.keys()));
        let numbers: ArrayRef =
            Arc::new(Int64Array::from_iter_values(self.counts.values().copied()));
        let offsets = OffsetBuffer::from_lengths([keys.len()]);
        let pairs = StructArray::try_new(parts.clone(), vec![keys, numbers], None)?;
        let counts = MapArray::try_new(Arc::clone(entries), offsets, pairs, None, false)?;
        let last: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![self.last.0])),
            Arc::new(StringArray::from(vec![self.last.1.clone()])),
        ];
        let last = StructArray::try_new(of_last.clone(), last, None)?;
        Ok(Record(vec![
            self.list(fields[0].data_type())?,
            ScalarValue::Map(Arc::new(counts)),
            ScalarValue::Struct(Arc::new(last)),
            ScalarValue::TimestampMicrosecond(self.latest, Some("UTC".into())),
            ScalarValue::Utf8(None),
        ]))
    }
}

type HandlerError = fluvial::transform::HandlerError;

impl StatefulProcessor for CompositeState {
    fn init(&mut self, variables: &mut Variables) -> fluvial::Result<()> {
        self.fields = super::fields(STATE)?;
        self.state = variables.value(super::variable("c", STATE)?)?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let stored = self.state.get(call)?;
        let mut state = stored.as_ref().map(State::read).transpose()?.unwrap_or_default();
        for row in rows {
            let (value, user) = (row.get::<Option<i64>>("v")?, row.get::<String>("u")?);
            state.values.push(value);
            *state.counts.entry(user.clone()).or_default() += 1;
            state.last = (value, Some(user));
            state.latest = state.latest.max(row.get::<Option<EventTime>>("ts")?.map(|t| t.0));
        }
        let record = state.record(&self.fields)?;
        self.state.update(call, record)?;
        let counts = state.counts.iter().map(|(user, count)| format!("{user}={count}"));
        call.emit(Record(vec![
            ScalarValue::Utf8(name(key)?),
            state.list(self.fields[0].data_type())?,
            ScalarValue::Utf8(Some(counts.collect::<Vec<_>>().join(","))),
            ScalarValue::Int64(state.last.0),
            ScalarValue::Utf8(state.last.1.clone()),
            ScalarValue::TimestampMicrosecond(state.latest, Some("UTC".into())),
        ]))?;
        Ok(())
    }
}
