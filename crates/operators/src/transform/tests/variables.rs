//! Values, lists, maps and their TTL.

use super::*;
use arrow::datatypes::Fields;
use datafusion_common::ScalarValue;
use fluvial_core::Operator;
use std::time::Duration;

/// Drives a list by rows, as the case `suite_tws_list_state_operations`: 1 to 9 are appended, 0
/// shows and clears, -1 clears, -2 puts 5 and 6, -3 says whether there is one, -4 and -5 append
/// and put nothing, 10 appends 1, 2 and 3.
#[derive(Default)]
struct ListOps {
    list: ListState<i64>,
    ttl: Option<Duration>,
}

impl StatefulProcessor for ListOps {
    fn init(&mut self, variables: &mut Variables) -> fluvial_core::Result<()> {
        let variable = Variable::named("l");
        self.list = variables.list(match self.ttl {
            Some(ttl) => variable.ttl(ttl),
            None => variable,
        })?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        for row in rows {
            let key = key.at::<&str>(0)?;
            match row.get::<i64>("v")? {
                0 => {
                    let all = self.list.get(call)?;
                    self.list.clear(call)?;
                    call.emit((key, format!("{all:?}")))?;
                }
                -1 => self.list.clear(call)?,
                -2 => self.list.put(call, [5, 6])?,
                -3 => {
                    let exists = self.list.exists(call)?;
                    call.emit((key, exists.to_string()))?;
                }
                -4 => self.list.append_all(call, [])?,
                -5 => self.list.put(call, [])?,
                10 => self.list.append_all(call, [1, 2, 3])?,
                value => self.list.append(call, value)?,
            }
        }
        Ok(())
    }
}

#[test]
fn lists_and_their_counts_are_as_in_spark() {
    let mut tester = tester(ListOps::default(), TimeMode::None);
    let mut run = |rows: &[(&str, i64)]| {
        let emitted = tester.run(rows).unwrap().join(" ");
        let [total, updated, removed, _] = counts(&tester);
        (emitted, [total, updated, removed])
    };
    assert_eq!(run(&[("k1", 2)]), (String::new(), [1, 1, 0]));
    assert_eq!(run(&[("k1", 0)]), ("k1 [2]".into(), [0, 0, 1]));
    assert_eq!(run(&[("k2", 1), ("k1", 4), ("k2", 2)]), (String::new(), [2, 3, 0]));
    assert_eq!(run(&[("k1", 0), ("k2", 0)]), ("k1 [4] k2 [1, 2]".into(), [0, 0, 3]));
    assert_eq!(run(&[("k3", 10), ("k3", 5)]), (String::new(), [1, 4, 0]));
    assert_eq!(run(&[("k3", 0)]), ("k3 [1, 2, 3, 5]".into(), [0, 0, 4]));
    let rows = [("k4", 2), ("k4", -1), ("k4", -3), ("k4", 0)];
    assert_eq!(run(&rows), ("k4 false k4 []".into(), [0, 1, 1]));
    let rows = [("k5", 10), ("k5", 4), ("k5", -2), ("k5", -3), ("k5", 0)];
    assert_eq!(run(&rows), ("k5 true k5 [5, 6]".into(), [0, 2, 2]));
    assert_eq!(run(&[("k6", 10)]), (String::new(), [1, 3, 0]));
    assert_eq!(run(&[("k6", -2), ("k6", 7)]), (String::new(), [1, 3, 0]));
    assert_eq!(run(&[("k6", 0)]), ("k6 [5, 6, 7]".into(), [0, 0, 3]));
    assert_eq!(tester.entries_of_any_sort(), 0);
}

#[test]
fn an_empty_list_is_not_written() {
    let mut tester = tester(ListOps::default(), TimeMode::None);
    tester.run(&[("k", 1_i64)]).unwrap();
    for nothing in [-4, -5] {
        let (condition, message) = failure(tester.run(&[("k", 2), ("k", nothing)]));
        assert_eq!(condition, "ILLEGAL_STATE_STORE_VALUE.EMPTY_LIST_VALUE");
        assert!(message.contains("variable l"), "{message}");
    }
    assert_eq!(tester.list::<i64>("l", ("k",)).unwrap(), [1]);
}

#[test]
fn elements_of_a_list_expire_one_by_one() {
    let ttl = Some(Duration::from_millis(100));
    let mut tester = tester(ListOps { ttl, ..ListOps::default() }, TimeMode::ProcessingTime);
    tester.run(&[("k", 1_i64)]).unwrap();
    tester.advance_time(Duration::from_millis(60));
    tester.run(&[("k", 2_i64)]).unwrap();
    tester.advance_time(Duration::from_millis(40));
    assert_eq!(tester.list::<i64>("l", ("k",)).unwrap(), [2], "over, if not removed yet");
    tester.run(&[("k", 3_i64)]).unwrap();
    assert_eq!(counts(&tester), [1, 1, 1, 0]);
    assert_eq!(tester.list::<i64>("l", ("k",)).unwrap(), [2, 3]);
    tester.advance_time(Duration::from_millis(1000));
    assert_eq!(tester.run(&[("k", -3_i64)]).unwrap(), ["k false"]);
    assert_eq!(counts(&tester), [0, 0, 2, 0]);
    tester.run(&[("k", 4_i64)]).unwrap();
    tester.run(&[("k", -2_i64)]).unwrap();
    tester.advance_time(Duration::from_millis(100));
    tester.run_empty().unwrap();
    assert_eq!(tester.entries_of_any_sort(), 0, "no index is left of what was replaced");
}

/// One value with a TTL: 0 shows it, anything else is stored.
#[derive(Default)]
struct Ttl {
    value: ValueState<i64>,
}

impl StatefulProcessor for Ttl {
    fn init(&mut self, variables: &mut Variables) -> fluvial_core::Result<()> {
        self.value = variables.value(Variable::named("v").ttl(Duration::from_millis(100)))?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        for row in rows {
            match row.get::<i64>("v")? {
                0 => {
                    let value = self.value.get(call)?;
                    call.emit((key.at::<&str>(0)?, format!("{value:?}")))?;
                }
                value => self.value.update(call, value)?,
            }
        }
        Ok(())
    }
}

/// Trap H3: a value that is written again while its old one expires stays, and no index is left.
#[test]
fn a_value_written_again_in_the_batch_that_would_remove_it_stays() {
    let mut tester = tester(Ttl::default(), TimeMode::ProcessingTime);
    tester.advance_time(Duration::from_millis(1000));
    tester.run(&[("k", 1_i64)]).unwrap();
    tester.advance_time(Duration::from_millis(1000));
    tester.run(&[("k", 0_i64), ("k", 2)]).unwrap();
    assert_eq!(counts(&tester), [1, 1, 0, 0]);
    tester.advance_time(Duration::from_millis(50));
    assert_eq!(tester.run(&[("k", 0_i64)]).unwrap(), ["k Some(2)"]);
    tester.advance_time(Duration::from_millis(150));
    assert_eq!(tester.run(&[("k", 0_i64)]).unwrap(), ["k None"]);
    assert_eq!(tester.entries_of_any_sort(), 0);
}

/// The case `tws_ttl_value`, with its numbers.
#[test]
fn values_expire_by_the_time_of_batches() {
    let mut tester = tester(Ttl::default(), TimeMode::ProcessingTime);
    tester.run(&[("a", 1_i64), ("b", 1)]).unwrap();
    tester.run(&[("a", 2_i64), ("c", 1)]).unwrap();
    assert_eq!(counts(&tester), [3, 2, 0, 0]);
    tester.advance_time(Duration::from_millis(100));
    let rows = [("b", 0), ("a", 0), ("b", 1_i64), ("a", 1)];
    assert_eq!(tester.run(&rows).unwrap(), ["b None", "a None"]);
    assert_eq!(counts(&tester), [2, 2, 1, 0], "only what nobody wrote again is removed");
}

/// Cleared at three, as the case `suite_tws_clear_at_three`.
#[derive(Default)]
struct ClearAtThree {
    count: ValueState<i64>,
}

impl StatefulProcessor for ClearAtThree {
    fn init(&mut self, variables: &mut Variables) -> fluvial_core::Result<()> {
        self.count = variables.value("cnt")?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let count = self.count.get(call)?.unwrap_or(0) + rows.len() as i64;
        if count == 3 {
            return Ok(self.count.clear(call)?);
        }
        self.count.update(call, count)?;
        call.emit((key.at::<&str>(0)?, count.to_string()))?;
        Ok(())
    }
}

#[test]
fn values_and_their_counts_are_as_in_spark() {
    let mut tester = tester(ClearAtThree::default(), TimeMode::None);
    let mut run = |keys: &[&str]| {
        let rows: Vec<(&str, i64)> = keys.iter().map(|key| (*key, 0)).collect();
        (tester.run(&rows).unwrap().join(" "), counts(&tester))
    };
    assert_eq!(run(&["a"]), ("a 1".into(), [1, 1, 0, 0]));
    assert_eq!(run(&["a", "b"]), ("a 2 b 1".into(), [2, 2, 0, 0]));
    assert_eq!(run(&["a", "b"]), ("b 2".into(), [1, 1, 1, 0]));
    assert_eq!(run(&["a", "c"]), ("a 1 c 1".into(), [3, 2, 0, 0]));
    assert_eq!(run(&["d", "d", "d"]), (String::new(), [3, 0, 1, 0]), "cleared, there or not");
}

/// A map from text to a record; adds up what comes.
#[derive(Default)]
struct Counts {
    counts: MapState<Option<String>, Record>,
}

impl StatefulProcessor for Counts {
    fn init(&mut self, variables: &mut Variables) -> fluvial_core::Result<()> {
        let fields: Fields = vec![
            Field::new("n", DataType::Int64, true),
            Field::new_list("all", Field::new_list_field(DataType::Int64, true), true),
        ]
        .into();
        self.counts = variables.map(Variable::named("counts").fields(fields))?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        for row in rows {
            let value = row.get::<i64>("v")?;
            let name = (value >= 0).then(|| format!("n{}", value % 2));
            let found = self.counts.get(call, &name)?;
            let (count, mut all) = match found.as_ref().map(|record| record.0.as_slice()) {
                Some([ScalarValue::Int64(Some(count)), ScalarValue::List(list)]) => {
                    let items = list.value(0);
                    let item = |i: usize| ScalarValue::try_from_array(&items, i).unwrap();
                    (*count, (0..items.len()).map(item).collect())
                }
                _ => (0, vec![]),
            };
            all.push(ScalarValue::Int64(Some(value)));
            let list = ScalarValue::new_list_nullable(&all, &DataType::Int64);
            let record = Record(vec![ScalarValue::Int64(Some(count + 1)), ScalarValue::List(list)]);
            self.counts.update(call, name, record)?;
        }
        let keys = self.counts.keys(call)?;
        call.emit((key.at::<&str>(0)?, format!("{keys:?}")))?;
        Ok(())
    }
}

#[test]
fn maps_keep_entries_of_any_columns_in_the_order_of_their_keys() {
    let mut tester = tester(Counts::default(), TimeMode::None);
    let rows = [("a", 1_i64), ("a", 2), ("b", -1), ("a", 3)];
    let emitted = tester.run(&rows).unwrap();
    assert_eq!(emitted, ["a [Some(\"n0\"), Some(\"n1\")]", "b [None]"]);
    assert_eq!(counts(&tester), [3, 4, 0, 0]);
    assert_eq!(tester.run(&[("a", -5_i64)]).unwrap(), ["a [None, Some(\"n0\"), Some(\"n1\")]"]);
    let stored = tester.map::<Option<String>, Record>("counts", ("a",)).unwrap();
    let list = |values: &[i64]| {
        let values: Vec<_> = values.iter().map(|v| ScalarValue::Int64(Some(*v))).collect();
        ScalarValue::List(ScalarValue::new_list_nullable(&values, &DataType::Int64))
    };
    let record = |n: i64, values: &[i64]| Record(vec![ScalarValue::Int64(Some(n)), list(values)]);
    let expected = [
        (None, record(1, &[-5])),
        (Some("n0".to_owned()), record(1, &[2])),
        (Some("n1".to_owned()), record(2, &[1, 3])),
    ];
    assert_eq!(stored, expected);
}

/// Declares what it is told to.
struct Declares<F>(F);

impl<F> StatefulProcessor for Declares<F>
where
    F: Fn(&mut Variables) -> fluvial_core::Result<()> + Send + Sync,
{
    fn init(&mut self, variables: &mut Variables) -> fluvial_core::Result<()> {
        (self.0)(variables)
    }

    fn handle_input_rows(&self, _: &Key<'_>, _: InputRows<'_>, _: &mut Call<'_>) -> HandlerResult {
        Ok(())
    }
}

fn declare(
    time_mode: TimeMode,
    init: impl Fn(&mut Variables) -> fluvial_core::Result<()> + Send + Sync + 'static,
) -> fluvial_core::Result<Transform> {
    Transform::new(Declares(init), rows(), time_mode, OutputMode::Update)
}

#[test]
fn wrong_declarations_are_refused() {
    let second = Duration::from_secs(1);
    let refused = |time_mode, init: fn(&mut Variables) -> fluvial_core::Result<()>| {
        failure(declare(time_mode, init).map(drop))
    };
    let (condition, message) = refused(TimeMode::None, |variables| {
        variables.value::<i64>("n")?;
        variables.list::<i64>("n").map(drop)
    });
    assert_eq!(condition, "STATEFUL_PROCESSOR_DUPLICATE_STATE_VARIABLE_DEFINED");
    assert!(message.contains("name n"), "{message}");
    let zero = refused(TimeMode::ProcessingTime, |variables| {
        variables.value::<i64>(Variable::named("n").ttl(Duration::ZERO)).map(drop)
    });
    assert_eq!(zero.0, "STATEFUL_PROCESSOR_TTL_DURATION_MUST_BE_POSITIVE");
    for time_mode in [TimeMode::None, TimeMode::EventTime] {
        let ttl = declare(time_mode, move |variables| {
            variables.value::<i64>(Variable::named("n").ttl(second)).map(drop)
        });
        let (condition, _) = failure(ttl.map(drop));
        assert_eq!(condition, "STATEFUL_PROCESSOR_INCORRECT_TIME_MODE_TO_ASSIGN_TTL");
    }
    let untyped = refused(TimeMode::None, |variables| variables.value::<Record>("n").map(drop));
    assert!(untyped.1.contains("variable n"), "{}", untyped.1);
    let others = refused(TimeMode::None, |variables| {
        let fields = vec![Field::new("t", DataType::Utf8, true)];
        variables.value::<i64>(Variable::named("n").fields(fields)).map(drop)
    });
    assert!(others.1.contains("variable n"), "{}", others.1);
}

#[test]
fn the_shape_of_the_state_is_recorded() {
    let transform = declare(TimeMode::ProcessingTime, |variables| {
        variables.value::<(i64, String)>("pair")?;
        variables.list::<f64>(Variable::named("all").ttl(Duration::from_secs(1)))?;
        variables.map::<String, bool>("seen").map(drop)
    });
    let keys = vec![Field::new("k", DataType::Utf8, true)];
    let operator =
        TransformWithState::new(Arc::new(transform.unwrap()), keys, rows(), None).unwrap();
    let schema = operator.state_schema();
    let values: Vec<String> =
        schema.values.iter().map(|v| format!("{}: {}", v.name, v.data_type)).collect();
    let expected = [
        "pair: ValueState<_1: Int64, _2: Utf8>",
        "all: ListState<value: Float64> with TTL",
        "seen: MapState<value: Utf8 -> value: Boolean>",
    ];
    assert_eq!(values, expected);
    assert_eq!(schema.meaning["timeMode"], "ProcessingTime");
    assert_eq!(schema.meaning["outputMode"], "Update");
    assert_eq!(schema.kind, "transformWithStateExec");
}

#[test]
fn a_processor_is_closed_once() {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    struct Closes(Arc<AtomicU32>);
    impl StatefulProcessor for Closes {
        fn init(&mut self, _: &mut Variables) -> fluvial_core::Result<()> {
            Ok(())
        }
        fn handle_input_rows(
            &self,
            _: &Key<'_>,
            _: InputRows<'_>,
            _: &mut Call<'_>,
        ) -> HandlerResult {
            Ok(())
        }
        fn close(&self) {
            self.0.fetch_add(1, SeqCst);
        }
    }

    let closed = Arc::new(AtomicU32::new(0));
    let mut tester = tester(Closes(Arc::clone(&closed)), TimeMode::None);
    tester.run(&[("a", 1_i64)]).unwrap();
    assert_eq!(closed.load(SeqCst), 0);
    drop(tester);
    assert_eq!(closed.load(SeqCst), 1);
}

/// Every kind of variable, and a timer.
#[derive(Default)]
struct Everything {
    value: ValueState<i64>,
    list: ListState<i64>,
    map: MapState<String, (i64, Option<String>)>,
}

impl StatefulProcessor for Everything {
    fn init(&mut self, variables: &mut Variables) -> fluvial_core::Result<()> {
        self.value = variables.value("last")?;
        self.list = variables.list(Variable::named("all").ttl(Duration::from_secs(1)))?;
        self.map = variables.map("by")?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let name = key.at::<&str>(0)?;
        for row in rows {
            let value = row.get::<i64>("v")?;
            self.value.update(call, value)?;
            self.list.append(call, value)?;
            self.map.update(call, format!("{name}{value}"), (value, None))?;
            call.register_timer(1_000_000 + value)?;
        }
        Ok(())
    }
}

#[test]
fn variables_and_timers_are_shown_without_their_processor() {
    use crate::inspect::StateView;
    let mut tester = tester(Everything::default(), TimeMode::ProcessingTime);
    tester.run(&[("a", 7), ("a", 8), ("ab", 9)]).unwrap();
    let shown = |view: StateView| tester.shown(&view);
    let variable = |name: &str| shown(StateView::Variable(name.to_owned()));
    assert_eq!(variable("last"), ["key={k: ab} value={value: 9}", "key={k: a} value={value: 8}"]);
    let all = [7, 8].map(|value| {
        format!("key={{k: a}} list_element={{value: {value}}} expiration_timestamp_ms=1000")
    });
    assert_eq!(variable("all")[1..], all);
    assert_eq!(variable("all").len(), 3, "the length of a list is no element");
    let by = "key={k: a} user_map_key={value: a7} user_map_value={_1: 7, _2: null}";
    assert_eq!(variable("by")[1], by);
    assert_eq!(variable("by").len(), 3);
    assert_eq!(shown(StateView::Timers)[1], "key={k: a} expiration_timestamp_ms=1000007");
}
