//! Functions of groups and their timeouts, with numbers taken from Spark.

use super::*;
use fluvial_core::{EvictWatermark, Operator};
use std::time::Duration;

fn timed() -> SchemaRef {
    schema(&[("k", DataType::Utf8), ("ts", EventTime::data_type()), ("v", DataType::Int64)])
}

fn output() -> SchemaRef {
    schema(&[("k", DataType::Utf8), ("n", DataType::Int64)])
}

fn group(transform: Transform) -> TransformTester {
    TransformTester::with_event_time(transform, timed(), &["k"], "ts").unwrap()
}

/// The latest second; times out five seconds after it: `fm_event_max`.
fn event_max() -> TransformTester {
    let transform = Transform::flat_map_groups(
        "max",
        output(),
        OutputMode::Update,
        GroupTimeout::EventTime,
        |key, rows, state: &mut GroupState<i64>| {
            let k = key.get::<String>("k")?;
            if state.has_timed_out() {
                state.remove();
                return Ok(Some((k, -1)));
            }
            let mut max = state.get().copied().unwrap_or(i64::MIN);
            for row in rows {
                max = max.max(row.get::<EventTime>("ts")?.as_millis() / 1000);
            }
            state.update(max);
            state.set_timeout_timestamp((max + 5) * 1000)?;
            Ok(Some((k, max)))
        },
    );
    group(transform.unwrap())
}

/// The case `suite_fmgws_event_time_timeout`.
#[test]
fn groups_time_out_by_the_watermark() {
    let mut tester = event_max();
    let row = |k: &'static str, second: i64| (k, seconds(second), 0_i64);
    assert_eq!(tester.run(&[row("a", 11), row("a", 13), row("a", 15)]).unwrap(), ["a 15"]);
    assert_eq!(counts(&tester), [1, 1, 0, 0]);
    tester.set_watermark(seconds(5));
    assert!(tester.run_empty().unwrap().is_empty());
    assert!(tester.run(&[row("a", 4)]).unwrap().is_empty(), "late");
    assert_eq!(counts(&tester), [1, 0, 0, 1]);
    assert_eq!(tester.run(&[row("a", 10)]).unwrap(), ["a 15"]);
    assert_eq!(tester.run(&[row("b", 31)]).unwrap(), ["b 31"]);
    tester.set_watermark(seconds(20));
    assert!(
        tester.run_empty().unwrap().is_empty(),
        "a timeout at the watermark waits, as in Spark"
    );
    tester.set_watermark(seconds(21));
    assert_eq!(tester.run_empty().unwrap(), ["a -1"]);
    assert_eq!(counts(&tester), [1, 0, 1, 0]);
}

/// Trap H2: input moves the timeout before anything times out.
#[test]
fn a_group_with_rows_does_not_time_out_in_the_same_batch() {
    let mut tester = event_max();
    let row = |k: &'static str, second: i64| (k, seconds(second), 0_i64);
    tester.run(&[row("a", 5)]).unwrap();
    tester.set_watermark(seconds(11));
    assert_eq!(tester.run(&[row("a", 12), row("z", 11)]).unwrap(), ["a 12", "z 11"]);
    tester.set_watermark(seconds(30));
    assert_eq!(tester.run_empty().unwrap(), ["z -1", "a -1"]);
    assert!(tester.run_empty().unwrap().is_empty(), "once");
    assert_eq!(tester.entries_of_any_sort(), 0);
}

/// The case `suite_fmgws_timeout_dropped_when_not_set_again`.
#[test]
fn a_call_with_rows_that_sets_no_timeout_drops_the_old_one() {
    let transform = Transform::flat_map_groups(
        "n",
        output(),
        OutputMode::Append,
        GroupTimeout::EventTime,
        |key, rows, state: &mut GroupState<i64>| {
            let k = key.get::<String>("k")?;
            if state.has_timed_out() {
                state.remove();
                return Ok(vec![(k, -1)]);
            }
            let count = state.get().copied().unwrap_or(0) + rows.len() as i64;
            state.update(count);
            for row in rows {
                if row.get::<i64>("v")? == 1 {
                    state.set_timeout_timestamp(row.get::<EventTime>("ts")?.as_millis() + 5000)?;
                }
            }
            Ok(vec![(k, count)])
        },
    );
    let mut tester = group(transform.unwrap());
    tester.run(&[("a", seconds(10), 1_i64), ("b", seconds(10), 1)]).unwrap();
    tester.set_watermark(seconds(10));
    assert_eq!(tester.run(&[("a", seconds(12), 0_i64)]).unwrap(), ["a 2"]);
    tester.set_watermark(seconds(40));
    assert_eq!(tester.run_empty().unwrap(), ["b -1"]);
    assert_eq!(counts(&tester), [1, 0, 1, 0]);
}

#[test]
fn groups_time_out_by_the_time_of_batches() {
    let transform = Transform::map_groups(
        "n",
        output(),
        GroupTimeout::ProcessingTime,
        |key, rows, state: &mut GroupState<i64>| {
            let before = state.get().copied().unwrap_or(0);
            let row = key.get::<String>("k")?;
            if state.has_timed_out() {
                state.remove();
                return Ok((row, -before));
            }
            state.update(before + rows.len() as i64);
            state.set_timeout_duration(Duration::from_millis(1))?;
            Ok((row, before + rows.len() as i64))
        },
    );
    let mut tester = group(transform.unwrap());
    let row = |k: &'static str| (k, seconds(1), 0_i64);
    assert_eq!(tester.run(&[row("a"), row("b"), row("a")]).unwrap(), ["a 2", "b 1"]);
    tester.advance_time(Duration::from_millis(50));
    assert_eq!(tester.run(&[row("a"), row("c")]).unwrap(), ["a 3", "c 1", "b -1"]);
    assert_eq!(counts(&tester), [2, 2, 1, 0]);
}

/// The case `suite_fmgws_remove_at_three`.
#[test]
fn a_removed_state_begins_anew() {
    let transform = Transform::flat_map_groups(
        "n",
        output(),
        OutputMode::Update,
        GroupTimeout::None,
        |key, rows, state: &mut GroupState<i64>| {
            let count = state.get().copied().unwrap_or(0) + rows.len() as i64;
            if count == 3 {
                state.remove();
                return Ok(None);
            }
            state.update(count);
            Ok(Some((key.get::<String>("k")?, count)))
        },
    );
    let mut tester = group(transform.unwrap());
    let rows = |keys: &[&'static str]| -> Vec<(&'static str, EventTime, i64)> {
        keys.iter().map(|k| (*k, seconds(1), 0)).collect()
    };
    assert_eq!(tester.run(&rows(&["a"])).unwrap(), ["a 1"]);
    assert_eq!(tester.run(&rows(&["a", "b"])).unwrap(), ["a 2", "b 1"]);
    assert_eq!(tester.run(&rows(&["a", "b"])).unwrap(), ["b 2"]);
    assert_eq!(counts(&tester), [1, 1, 1, 0]);
    assert_eq!(tester.run(&rows(&["a", "c"])).unwrap(), ["a 1", "c 1"]);
}

/// What a function may not do with timeouts: the case `suite_fmgws_timeout_before_watermark_refused`
/// and its kin.
#[test]
fn wrong_timeouts_are_refused() {
    let set = |timeout, set: fn(&mut GroupState<i64>) -> fluvial_core::Result<()>| {
        let transform = Transform::flat_map_groups(
            "n",
            output(),
            OutputMode::Update,
            timeout,
            move |_, _, state: &mut GroupState<i64>| {
                set(state)?;
                Ok(None::<(String, i64)>)
            },
        );
        let mut tester = group(transform.unwrap());
        tester.set_watermark(seconds(10));
        failure(tester.run(&[("a", seconds(40), 1_i64)])).0
    };
    let before = set(GroupTimeout::EventTime, |state| state.set_timeout_timestamp(9_999));
    assert_eq!(before, "INVALID_TIMEOUT_TIMESTAMP");
    let duration = Duration::from_millis(5);
    assert!(duration > Duration::ZERO);
    let by_duration =
        |state: &mut GroupState<i64>| state.set_timeout_duration(Duration::from_millis(5));
    assert_eq!(set(GroupTimeout::EventTime, by_duration), "GROUP_STATE_TIMEOUT_NOT_ALLOWED");
    assert_eq!(set(GroupTimeout::None, by_duration), "GROUP_STATE_TIMEOUT_NOT_ALLOWED");
    let by_timestamp = |state: &mut GroupState<i64>| state.set_timeout_timestamp(99_999);
    assert_eq!(set(GroupTimeout::ProcessingTime, by_timestamp), "GROUP_STATE_TIMEOUT_NOT_ALLOWED");
    let zero =
        set(GroupTimeout::ProcessingTime, |state| state.set_timeout_duration(Duration::ZERO));
    assert_eq!(zero, "INVALID_TIMEOUT_DURATION");
}

#[test]
fn batches_without_data_run_for_what_can_happen_in_them() {
    let wants = |timeout| {
        let transform = Transform::flat_map_groups(
            "n",
            output(),
            OutputMode::Update,
            timeout,
            |_, _, _: &mut GroupState<i64>| Ok(None::<(String, i64)>),
        );
        let keys = vec![Field::new("k", DataType::Utf8, true)];
        let transform = Arc::new(transform.unwrap());
        let operator = TransformWithState::new(transform, keys, timed(), Some(1)).unwrap();
        let (from, to) = (EvictWatermark(None), EvictWatermark(Some(seconds(1))));
        assert!(!operator.wants_empty_batch(OutputMode::Update, to, to));
        operator.wants_empty_batch(OutputMode::Update, from, to)
    };
    assert!(wants(GroupTimeout::EventTime));
    assert!(!wants(GroupTimeout::None));
}
