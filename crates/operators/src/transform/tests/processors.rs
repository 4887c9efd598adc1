//! What processors are given, what they emit, and what becomes of their mistakes.

use super::*;
use arrow::array::{ArrayRef, Int64Array, StringArray};
use datafusion_common::ScalarValue;

/// Emits the rows of each key as text, and how many batches of columns there are.
struct Shows;

impl StatefulProcessor for Shows {
    fn init(&mut self, _: &mut Variables) -> fluvial_core::Result<()> {
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let mut text = String::new();
        for row in rows {
            let value = row.get::<Option<i64>>("v")?;
            text.push_str(&value.map_or("-".into(), |value| value.to_string()));
        }
        call.emit((key.get::<Option<&str>>("k")?, text))?;
        Ok(())
    }
}

#[test]
fn all_rows_of_a_key_come_in_one_call_in_their_order() {
    let mut tester = tester(Shows, TimeMode::None);
    let rows = [
        (Some("b"), Some(1)),
        (Some("a"), Some(2)),
        (None, Some(3)),
        (Some("b"), None),
        (Some("a"), Some(4)),
        (Some("b"), Some(5)),
    ];
    assert_eq!(tester.run(&rows).unwrap(), ["b 1-5", "a 24", "null 3"]);
    assert_eq!(tester.run_empty().unwrap(), Vec::<String>::new());
    let many: Vec<(&str, i64)> = (0..40).map(|i| ("hot", i % 10)).collect();
    let expected = format!("hot {}", "0123456789".repeat(4));
    assert_eq!(tester.run(&many).unwrap(), [expected], "more rows than a piece has");
}

/// Does what the row says, wrongly.
#[derive(Default)]
struct Fails {
    value: ValueState<i64>,
    undeclared: ValueState<i64>,
}

impl StatefulProcessor for Fails {
    fn init(&mut self, variables: &mut Variables) -> fluvial_core::Result<()> {
        self.value = variables.value("n")?;
        Ok(())
    }

    fn handle_input_rows(
        &self,
        _: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        for row in rows {
            let what: i64 = row.at(1)?;
            self.value.update(call, what)?;
            match what {
                0 => {}
                1 => panic!("cannot go on"),
                2 => return Err("no such account".into()),
                3 => call.register_timer(5)?,
                4 => self.undeclared.update(call, 1)?,
                5 => call.emit((1_i64, "x"))?,
                6 => call.emit(("x",))?,
                7 => row.get::<&str>("v").map(drop)?,
                8 => row.get::<&str>("w").map(drop)?,
                9 => return Err(fluvial_core::Error::unavailable("try again").into()),
                _ => row.at::<i64>(9).map(drop)?,
            }
        }
        Ok(())
    }
}

#[test]
fn a_failing_processor_names_the_key_and_leaves_the_state() {
    let mut tester = tester(Fails::default(), TimeMode::None);
    tester.run(&[("a", 0_i64)]).unwrap();
    let mut fails = |what: i64| failure(tester.run(&[("b", 0), ("a", what), ("c", 0)]));
    let user = "STATEFUL_PROCESSOR_USER_FUNCTION_ERROR";
    let (condition, message) = fails(1);
    assert_eq!(condition, user);
    assert_eq!(message, "the processor panicked at key (k=a): cannot go on");
    let (condition, message) = fails(2);
    assert_eq!(condition, user);
    assert_eq!(message, "the processor failed at key (k=a): no such account");
    let time_mode = "STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_TIME_MODE";
    assert_eq!(fails(3).0, time_mode);
    let handle = "STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_HANDLE_STATE";
    assert_eq!(fails(4).0, handle);
    assert_eq!(fails(5).0, "DATATYPE_MISMATCH");
    assert_eq!(fails(6).0, "DATATYPE_MISMATCH");
    assert!(fails(7).1.contains("column v"));
    assert_eq!(fails(8).0, "UNRESOLVED_COLUMN");
    assert!(fails(10).1.starts_with("key (k=a): "));
    let error = tester.run(&[("a", 9_i64)]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "the processor's own kind");
    assert_eq!(tester.value::<i64>("n", ("a",)).unwrap(), Some(0));
    assert_eq!(tester.value::<i64>("n", ("b",)).unwrap(), None);
}

/// Seeds a sum by initial rows.
#[derive(Default)]
struct Seeded {
    sum: ValueState<i64>,
}

impl StatefulProcessor for Seeded {
    fn init(&mut self, variables: &mut Variables) -> fluvial_core::Result<()> {
        self.sum = variables.value("sum")?;
        Ok(())
    }

    fn handle_initial_state(
        &self,
        _: &Key<'_>,
        row: InputRow<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        Ok(self.sum.update(call, row.get("start")?)?)
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let mut sum = self.sum.get(call)?.unwrap_or(0);
        for row in rows {
            sum += row.get::<i64>("v")?;
        }
        self.sum.update(call, sum)?;
        call.emit((key.at::<&str>(0)?, sum.to_string()))?;
        Ok(())
    }
}

fn initial(keys: &[&str], values: &[i64]) -> RecordBatch {
    let columns: [(&str, ArrayRef); 2] = [
        ("name", Arc::new(StringArray::from(keys.to_vec()))),
        ("start", Arc::new(Int64Array::from(values.to_vec()))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// The case `tws_initial_state`.
#[test]
fn initial_rows_count_in_the_first_batch_only() {
    let seeded = tester(Seeded::default(), TimeMode::None);
    let mut tester =
        seeded.with_initial_state(&initial(&["a", "q"], &[100, 7]), &["name"]).unwrap();
    let rows = [("a", 1_i64), ("b", 2), ("a", 1)];
    assert_eq!(tester.run(&rows).unwrap(), ["a 102", "b 2"]);
    assert_eq!(counts(&tester), [3, 4, 0, 0]);
    assert_eq!(tester.run(&[("a", 2_i64), ("c", 5)]).unwrap(), ["a 104", "c 5"]);
    assert_eq!(counts(&tester), [4, 2, 0, 0]);
    assert_eq!(tester.value::<i64>("sum", ("q",)).unwrap(), Some(7));
}

#[test]
fn an_initial_state_has_one_row_for_a_key_and_a_handler() {
    let twice = initial(&["a", "b", "a"], &[1, 2, 3]);
    let seeded = tester(Seeded::default(), TimeMode::None);
    let (condition, message) =
        failure(seeded.with_initial_state(&twice, &["name"]).unwrap().run_empty());
    assert_eq!(condition, "STATEFUL_PROCESSOR_CANNOT_REINITIALIZE_STATE_ON_KEY");
    assert!(message.starts_with("key (k=a)"), "{message}");
    let once = initial(&["a"], &[1]);
    let without = tester(Shows, TimeMode::None).with_initial_state(&once, &["name"]);
    assert!(failure(without.unwrap().run_empty()).1.contains("takes no initial state"));
}

/// Emits rows in every way, and always at the epoch.
struct Emits;

impl StatefulProcessor for Emits {
    fn init(&mut self, _: &mut Variables) -> fluvial_core::Result<()> {
        Ok(())
    }

    fn handle_input_rows(
        &self,
        _: &Key<'_>,
        _: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        let time = EventTime(1000);
        call.emit((1_i32, time, Some(vec![7_u8])))?;
        let record = vec![
            ScalarValue::Int32(Some(2)),
            ScalarValue::TimestampMicrosecond(Some(2000), Some("UTC".into())),
            ScalarValue::Binary(None),
        ];
        call.emit(Record(record))?;
        Ok(())
    }
}

#[test]
fn rows_are_emitted_typed_or_not_but_never_late() {
    let output = schema(&[
        ("n", DataType::Int32),
        ("ts", EventTime::data_type()),
        ("bytes", DataType::Binary),
    ]);
    let new =
        || Transform::new(Emits, Arc::clone(&output), TimeMode::EventTime, OutputMode::Append);
    let transform = new().unwrap().with_event_time("ts").unwrap();
    let mut tester = TransformTester::new(transform, rows(), &["k"]).unwrap();
    let emitted = tester.run(&[("a", 1_i64)]).unwrap();
    assert_eq!(emitted, ["1 1970-01-01T00:00:00.001Z 07", "2 1970-01-01T00:00:00.002Z null"]);
    tester.set_watermark(seconds(1));
    tester.run(&[("a", 1_i64)]).unwrap();
    let (condition, message) = failure(tester.run(&[("a", 1_i64)]));
    assert_eq!(condition, "EMITTING_ROWS_OLDER_THAN_WATERMARK_NOT_ALLOWED");
    assert!(message.contains("column ts"), "{message}");
    let unknown = new().unwrap().with_event_time("nope");
    assert_eq!(failure(unknown.map(drop)).0, "UNRESOLVED_COLUMN.WITH_SUGGESTION");
    let number = new().unwrap().with_event_time("n");
    assert_eq!(failure(number.map(drop)).0, "EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE");
}

#[test]
fn a_complete_result_is_refused() {
    let output = schema(&[("k", DataType::Utf8)]);
    let refused = Transform::new(Shows, output, TimeMode::None, OutputMode::Complete);
    assert_eq!(failure(refused.map(drop)).0, "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION");
}

#[test]
fn a_row_is_read_by_name_and_place() {
    let batch = initial(&["a"], &[5]);
    let row = one_row(&batch);
    assert_eq!(row.get::<String>("name").unwrap(), "a");
    assert_eq!(row.get::<Option<i64>>("start").unwrap(), Some(5));
    assert_eq!(row.at::<ScalarValue>(1).unwrap(), ScalarValue::Int64(Some(5)));
}
