//! Random schemas and keys: nulls, NaN of both signs, both zeros, texts, times, flags.

use super::*;
use arrow::array::{
    ArrayRef, AsArray, BooleanArray, Float64Array, Int64Array, StringArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::Int64Type;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What a row may have; a schema has some of it, in any order.
#[derive(Debug, Clone)]
struct Values {
    f: Option<f64>,
    s: Option<String>,
    t: Option<i64>,
    b: Option<bool>,
    i: Option<i64>,
}

fn values() -> impl Strategy<Value = Values> {
    let f = prop_oneof![
        Just(None),
        Just(Some(0.0)),
        Just(Some(-0.0)),
        Just(Some(f64::NAN)),
        Just(Some(-f64::NAN)),
        Just(Some(f64::NEG_INFINITY)),
        (0i8..2).prop_map(|n| Some(f64::from(n))),
    ];
    let s = proptest::option::of("[aé]{0,1}");
    let t = prop_oneof![Just(None), Just(Some(i64::MIN)), Just(Some(i64::MAX)), Just(Some(-1))];
    let i = prop_oneof![Just(None), Just(Some(i64::MIN)), Just(Some(7))];
    (f, s, t, any::<Option<bool>>(), i).prop_map(|(f, s, t, b, i)| Values { f, s, t, b, i })
}

/// The names of the columns, and of those that are keys.
fn schemas() -> impl Strategy<Value = (Vec<&'static str>, Vec<&'static str>)> {
    let all = Just(vec!["f", "s", "t", "b", "i", "id"]).prop_shuffle();
    let keys = proptest::sample::subsequence(vec!["f", "s", "t", "b", "i"], 1..=3).prop_shuffle();
    (all, keys, any::<[bool; 6]>()).prop_map(|(all, keys, wanted)| {
        // What the processor reads and what is a key is there; the rest is or is not.
        let needed = |name: &&str| ["f", "s", "id"].contains(name) || keys.contains(name);
        let columns = all.into_iter().zip(wanted).filter(|(name, wanted)| *wanted || needed(name));
        (columns.map(|(name, _)| name).collect(), keys.clone())
    })
}

fn column(name: &str, rows: &[Values], from: i64) -> ArrayRef {
    match name {
        "f" => Arc::new(rows.iter().map(|row| row.f).collect::<Float64Array>()),
        "s" => Arc::new(rows.iter().map(|row| row.s.clone()).collect::<StringArray>()),
        "t" => {
            let times = rows.iter().map(|row| row.t).collect::<TimestampMicrosecondArray>();
            Arc::new(times.with_timezone("UTC"))
        }
        "b" => Arc::new(rows.iter().map(|row| row.b).collect::<BooleanArray>()),
        "i" => Arc::new(rows.iter().map(|row| row.i).collect::<Int64Array>()),
        _ => Arc::new(Int64Array::from_iter_values(from..from + rows.len() as i64)),
    }
}

fn batch(columns: &[&str], rows: &[Values], from: i64) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(
        columns.iter().map(|name| (*name, column(name, rows, from), true)),
    )
    .unwrap()
}

/// The key as text: equal keys have equal texts.
fn key(keys: &[&str], row: &Values) -> String {
    let f = row.f.map(|f| if f.is_nan() { "NaN".to_owned() } else { (f + 0.0).to_string() });
    let part = |name: &&str| match *name {
        "f" => format!("{f:?}"),
        "s" => format!("{:?}", row.s),
        "t" => format!("{:?}", row.t),
        "b" => format!("{:?}", row.b),
        _ => format!("{:?}", row.i),
    };
    keys.iter().map(part).collect::<Vec<_>>().join("|")
}

/// Tells of each row how many came before it, and what the last of them said, bit by bit.
#[derive(Default)]
struct Before {
    count: ValueState<i64>,
    last: ValueState<(Option<f64>, Option<String>)>,
}

/// Of each key: how many rows came, and what the last of them said.
type Model = BTreeMap<String, (i64, (Option<f64>, Option<String>))>;

fn said(last: Option<(Option<f64>, Option<String>)>) -> String {
    match last {
        None => "nothing".to_owned(),
        Some((f, s)) => format!("{:?} {s:?}", f.map(f64::to_bits)),
    }
}

impl StatefulProcessor for Before {
    fn init(&mut self, variables: &mut Variables) -> fluvial_core::Result<()> {
        self.count = variables.value("count")?;
        self.last = variables.value("last")?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        _: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        for row in rows {
            let count = self.count.get(call)?.unwrap_or(0);
            let last = said(self.last.get(call)?);
            call.emit((row.get::<i64>("id")?, count, last))?;
            self.count.update(call, count + 1)?;
            let s = row.get::<Option<&str>>("s")?.map(str::to_owned);
            self.last.update(call, (row.get("f")?, s))?;
        }
        Ok(())
    }
}

fn check(
    (columns, keys): &(Vec<&'static str>, Vec<&'static str>),
    batches: &[Vec<Values>],
) -> Result<(), TestCaseError> {
    let int = DataType::Int64;
    let output = schema(&[("id", int.clone()), ("count", int), ("last", DataType::Utf8)]);
    let transform =
        Transform::new(Before::default(), output, TimeMode::None, OutputMode::Update).unwrap();
    let rows = batch(columns, &[], 0).schema();
    let mut tester = TransformTester::new(transform, rows, keys).unwrap();
    let mut model: Model = BTreeMap::new();
    let mut from = 0;
    for rows in batches {
        let out = tester.run_batch(&batch(columns, rows, from)).unwrap();
        let ids = out.column(0).as_primitive::<Int64Type>();
        let counts = out.column(1).as_primitive::<Int64Type>();
        let lasts = out.column(2).as_string::<i32>();
        let found: BTreeMap<i64, (i64, String)> = (0..out.num_rows())
            .map(|row| (ids.value(row), (counts.value(row), lasts.value(row).to_owned())))
            .collect();
        let mut expected = BTreeMap::new();
        for (row, id) in rows.iter().zip(from..) {
            let known = model.get(&key(keys, row)).cloned();
            let count = known.as_ref().map_or(0, |known| known.0);
            expected.insert(id, (count, said(known.map(|known| known.1))));
            model.insert(key(keys, row), (count + 1, (row.f, row.s.clone())));
        }
        prop_assert_eq!(found, expected);
        let account = tester.counts().rows;
        prop_assert_eq!(account.total(), rows.len() as u64, "{:?}", account);
        // Two variables for each key.
        prop_assert_eq!(tester.counts().rows_total, 2 * model.len() as u64);
        from += rows.len() as i64;
    }
    Ok(())
}

proptest! {
    #[test]
    fn keys_and_values_come_back_as_they_were(
        schema in schemas(),
        batches in proptest::collection::vec(proptest::collection::vec(values(), 0..20), 1..4),
    ) {
        check(&schema, &batches)?;
    }
}
