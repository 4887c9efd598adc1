//! When timers fire, and when they do not.

use super::*;
use std::time::Duration;

/// Registers, deletes and lists timers as the rows say; shows those that fire.
///
/// A row registers its value, in milliseconds; a negative one deletes; 0 lists. A timer of a
/// multiple of 1000 registers another one 10 ms later, and one of 7 deletes that of 9.
struct Timing;

impl StatefulProcessor for Timing {
    fn init(&mut self, _: &mut Variables) -> fluvial_core::Result<()> {
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
                    let timers = call.timers()?;
                    call.emit((key.at::<&str>(0)?, format!("{timers:?}")))?;
                }
                time if time < 0 => call.delete_timer(-time)?,
                time => call.register_timer(time)?,
            }
        }
        Ok(())
    }

    fn handle_expired_timer(
        &self,
        key: &Key<'_>,
        ExpiredTimer { expiry_ms }: ExpiredTimer,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        if expiry_ms % 1000 == 0 {
            call.register_timer(expiry_ms + 10)?;
        }
        if expiry_ms == 7 {
            call.delete_timer(9)?;
        }
        call.emit((key.at::<&str>(0)?, expiry_ms.to_string()))?;
        Ok(())
    }
}

fn event_time() -> TransformTester {
    tester(Timing, TimeMode::EventTime)
}

#[test]
fn timers_fire_in_the_order_of_time_and_key() {
    let mut tester = event_time();
    let rows: Vec<(String, i64)> =
        (0..40).map(|i| (format!("k{:02}", i * 7 % 40), 100 + i % 3)).collect();
    tester.run(&rows).unwrap();
    tester.set_watermark(EventTime(101_999));
    let fired = tester.run_empty().unwrap();
    let mut expected: Vec<(i64, String)> = rows.iter().map(|(k, t)| (*t, k.clone())).collect();
    expected.sort();
    expected.retain(|(time, _)| *time <= 101);
    let expected: Vec<String> = expected.iter().map(|(t, k)| format!("{k} {t}")).collect();
    assert_eq!(fired, expected);
    tester.set_watermark(EventTime(102_000));
    assert_eq!(tester.run_empty().unwrap().len(), 13, "a timer at the watermark fires");
    assert_eq!(tester.entries_of_any_sort(), 0);
}

/// The case `tws_multi_timers`, in part.
#[test]
fn the_same_time_twice_is_one_timer() {
    let mut tester = event_time();
    let rows = [("a", 5_i64), ("a", 5), ("a", 20), ("a", 0), ("a", -20), ("a", -21), ("a", 0)];
    assert_eq!(tester.run(&rows).unwrap(), ["a [5, 20]", "a [5]"]);
    assert_eq!(tester.timers(("a",)).unwrap(), [5]);
    assert_eq!(counts(&tester), [0, 0, 0, 0], "timers are no rows of state");
    tester.set_watermark(EventTime(20_000));
    assert_eq!(tester.run(&[("a", 0_i64)]).unwrap(), ["a [5]", "a 5"], "input first, timers then");
    assert_eq!(tester.run_empty().unwrap(), Vec::<String>::new());
}

/// The cases `suite_tws_timer_in_the_past` and `suite_tws_timer_registered_on_expiry`.
#[test]
fn a_timer_in_the_past_fires_at_once_but_not_one_set_on_expiry() {
    let mut tester = event_time();
    tester.set_watermark(EventTime(5_000_000));
    assert_eq!(tester.run(&[("a", 1000_i64), ("b", 4)]).unwrap(), ["b 4", "a 1000"]);
    assert_eq!(tester.timers(("a",)).unwrap(), [1010], "set on expiry, due already");
    assert_eq!(tester.run_empty().unwrap(), ["a 1010"]);
    assert_eq!(tester.entries_of_any_sort(), 0);
}

#[test]
fn a_timer_deleted_on_expiry_does_not_fire() {
    let mut tester = event_time();
    tester.run(&[("a", 7_i64), ("a", 8), ("a", 9), ("b", 9)]).unwrap();
    tester.set_watermark(seconds(1));
    assert_eq!(tester.run_empty().unwrap(), ["a 7", "a 8", "b 9"]);
    assert_eq!(tester.entries_of_any_sort(), 0);
}

#[test]
fn a_timer_that_is_there_fires_though_it_is_registered_again_on_expiry() {
    let mut tester = event_time();
    tester.run(&[("a", 1000_i64), ("a", 1010)]).unwrap();
    tester.set_watermark(seconds(2));
    assert_eq!(tester.run_empty().unwrap(), ["a 1000", "a 1010"]);
    assert_eq!(tester.entries_of_any_sort(), 0);
}

#[test]
fn many_timers_are_read_page_by_page() {
    let mut tester = event_time();
    let rows: Vec<(&str, i64)> = (0..1500).rev().map(|i| ("a", 2 * i + 11)).collect();
    tester.run(&rows).unwrap();
    tester.set_watermark(seconds(100));
    let fired = tester.run_empty().unwrap();
    let expected: Vec<String> = (0..1500).map(|i| format!("a {}", 2 * i + 11)).collect();
    assert_eq!(fired, expected);
}

#[test]
fn processing_time_timers_run_by_the_batch() {
    let mut tester = tester(Timing, TimeMode::ProcessingTime);
    tester.run(&[("a", 50_i64), ("b", 51)]).unwrap();
    tester.set_watermark(seconds(1000));
    assert_eq!(tester.run_empty().unwrap(), Vec::<String>::new(), "the watermark says nothing");
    tester.advance_time(Duration::from_millis(50));
    assert_eq!(tester.run(&[("b", 0_i64)]).unwrap(), ["b [51]", "a 50"]);
    tester.advance_time(Duration::from_millis(1));
    assert_eq!(tester.run_empty().unwrap(), ["b 51"]);
}

#[test]
fn times_at_the_ends_of_the_range_are_times() {
    let mut tester = event_time();
    tester.run(&[("a", i64::MAX), ("b", 1)]).unwrap();
    tester.set_watermark(EventTime(i64::MAX));
    assert_eq!(tester.run_empty().unwrap(), ["b 1"], "the largest time is after every watermark");
    tester.run(&[("a", -i64::MAX)]).unwrap();
    assert_eq!(tester.timers(("a",)).unwrap(), Vec::<i64>::new());
    assert_eq!(tester.entries_of_any_sort(), 0);
}

/// Late rows are dropped in event time only: the rows here are late by their number.
#[test]
fn rows_are_late_only_in_event_time() {
    let rows =
        schema(&[("k", DataType::Utf8), ("v", DataType::Int64), ("ts", EventTime::data_type())]);
    for (time_mode, late) in
        [(TimeMode::EventTime, 1), (TimeMode::ProcessingTime, 0), (TimeMode::None, 0)]
    {
        let output = schema(&[("k", DataType::Utf8), ("what", DataType::Utf8)]);
        let transform = Transform::new(Quiet, output, time_mode, OutputMode::Update).unwrap();
        let rows = Arc::clone(&rows);
        let mut tester = TransformTester::with_event_time(transform, rows, &["k"], "ts").unwrap();
        tester.set_watermark(seconds(10));
        let rows = [("a", 1_i64, Some(seconds(10))), ("a", 2, Some(seconds(11))), ("b", 3, None)];
        assert_eq!(tester.run(&rows).unwrap(), ["a 2", "b 1"], "the batch before had none");
        let emitted = tester.run(&rows).unwrap();
        assert_eq!(emitted, [format!("a {}", 2 - late), "b 1".into()]);
        assert_eq!(counts(&tester)[3], late);
    }
}

/// Says how many rows there are.
struct Quiet;

impl StatefulProcessor for Quiet {
    fn init(&mut self, _: &mut Variables) -> fluvial_core::Result<()> {
        Ok(())
    }

    fn handle_input_rows(
        &self,
        key: &Key<'_>,
        rows: InputRows<'_>,
        call: &mut Call<'_>,
    ) -> HandlerResult {
        call.emit((key.at::<&str>(0)?, rows.len().to_string()))?;
        Ok(())
    }
}
