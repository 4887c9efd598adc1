use super::*;
use arrow::array::{Array, AsArray, TimestampMicrosecondArray};
use arrow::datatypes::TimestampMicrosecondType;
use fluvial_core::EventDuration;
use proptest::prelude::*;

const SECOND: i64 = 1_000_000;

fn spec(size: i64, slide: i64, start: i64) -> WindowSpec {
    WindowSpec::new(EventDuration(size), EventDuration(slide), EventDuration(start)).unwrap()
}

fn times(values: &[i64]) -> TimestampMicrosecondArray {
    TimestampMicrosecondArray::from(values.to_vec()).with_timezone("UTC")
}

fn pairs(windows: &arrow::array::StructArray) -> Vec<(i64, i64)> {
    let column = |i: usize| windows.column(i).as_primitive::<TimestampMicrosecondType>().values();
    column(0).iter().copied().zip(column(1).iter().copied()).collect()
}

fn sliding(spec: &WindowSpec, time: i64) -> Vec<(i64, i64)> {
    pairs(spec.sliding(&times(&[time])).unwrap().value(0).as_struct())
}

#[test]
fn what_spark_refuses_is_refused() {
    let condition = |size: &str, slide: Option<&str>, start: Option<&str>| {
        WindowSpec::parse(size, slide, start).unwrap_err().condition().unwrap().to_owned()
    };
    let (range, constraint) = (
        "DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE",
        "DATATYPE_MISMATCH.PARAMETER_CONSTRAINT_VIOLATION",
    );
    assert_eq!(condition("0 seconds", None, None), range);
    assert_eq!(condition("-5 minutes", None, None), range);
    assert_eq!(condition("5 minutes", Some("0 seconds"), None), range);
    assert_eq!(condition("5 minutes", Some("6 minutes"), None), constraint);
    assert_eq!(condition("5 minutes", Some("5 minutes"), Some("5 minutes")), constraint);
    assert_eq!(condition("5 minutes", Some("1 minute"), Some("-1 minute")), constraint);
    assert_eq!(condition("abc", None, None), "CANNOT_PARSE_INTERVAL");
    assert_eq!(condition("1 month", None, None), "INTERVAL_WITH_MONTHS");
    assert_eq!(condition("1 day", Some("1 second"), None), "WINDOW_OVERLAPS");
    assert!(WindowSpec::parse("1 microsecond", None, None).is_ok());
    assert!(WindowSpec::parse("5 minutes", None, Some("-299 seconds")).is_ok());
    let lowest = EventDuration(i64::MIN);
    assert!(WindowSpec::new(EventDuration(1), EventDuration(1), lowest).is_err());
}

#[test]
fn negative_times_lie_in_their_windows() {
    let windows = spec(10 * SECOND, 10 * SECOND, 5 * SECOND).tumbling(&times(&[
        2 * SECOND,
        12 * SECOND,
        -8 * SECOND,
        5 * SECOND,
    ]));
    let second = |(a, b): (i64, i64)| (a / SECOND, b / SECOND);
    let windows: Vec<_> = pairs(&windows).into_iter().map(second).collect();
    assert_eq!(windows, [(-5, 5), (5, 15), (-15, -5), (5, 15)]);
}

#[test]
fn a_negative_start_moves_windows_back() {
    let windows = spec(300, 300, -90).tumbling(&times(&[0, 209, 210, -91]));
    assert_eq!(pairs(&windows), [(-90, 210), (-90, 210), (210, 510), (-390, -90)]);
}

#[test]
fn the_latest_sliding_window_comes_first() {
    assert_eq!(sliding(&spec(10, 5, 0), 12), [(10, 20), (5, 15)]);
    assert_eq!(sliding(&spec(10, 5, 0), -1), [(-5, 5), (-10, 0)]);
}

/// 90 seconds sliding by 40: most times lie in two windows, some in three.
#[test]
fn a_slide_need_not_divide_the_size() {
    let spec = spec(90, 40, 0);
    assert_eq!(sliding(&spec, 60), [(40, 130), (0, 90)]);
    assert_eq!(sliding(&spec, 85), [(80, 170), (40, 130), (0, 90)]);
    assert_eq!(sliding(&spec, 120), [(120, 210), (80, 170), (40, 130)]);
}

#[test]
fn null_times_have_no_window() {
    let times = TimestampMicrosecondArray::from(vec![Some(1), None, Some(7)]);
    let spec = spec(10, 5, 0);
    let windows = spec.tumbling(&times);
    assert!(windows.is_valid(0) && windows.is_null(1));
    let lists = spec.sliding(&times).unwrap();
    let lengths: Vec<usize> = (0..3).map(|i| lists.value(i).len()).collect();
    assert_eq!(lengths, [2, 0, 2]);
    let window_times = window_time(&windows).unwrap();
    assert!(window_times.is_null(1));
    assert_eq!(window_times.value(0), 9);
}

#[test]
fn windows_keep_the_zone() {
    let zoned = spec(10, 5, 0).tumbling(&times(&[3]));
    assert_eq!(zoned.data_type(), &window_type(Some("UTC".into())));
    assert_eq!(window_time(&zoned).unwrap().timezone(), Some("UTC"));
    let local = TimestampMicrosecondArray::from(vec![3]);
    let lists = spec(10, 5, 0).sliding(&local).unwrap();
    assert_eq!(lists.values().data_type(), &window_type(None));
}

#[test]
fn edges_saturate_at_the_ends_of_time() {
    let spec = spec(10 * SECOND, 5 * SECOND, SECOND);
    let ends = times(&[i64::MIN, i64::MIN + 1, i64::MAX - 1, i64::MAX]);
    let windows = pairs(&spec.tumbling(&ends));
    for (time, (start, end)) in ends.values().iter().zip(&windows) {
        assert!(start <= time && time <= end && start < end, "{time}: {start}..{end}");
    }
    assert_eq!(windows[3].1, i64::MAX);
    assert_eq!(spec.sliding(&ends).unwrap().value(3).len(), 2);
}

#[test]
fn too_many_windows_are_refused_before_they_are_made() {
    let spec = spec(10_000, 1, 0);
    let many = times(&vec![0; 300_000]);
    assert!(spec.sliding(&many).is_err());
}

proptest! {
    /// Every window of a time holds it, starts are aligned, and no window is missing.
    #[test]
    fn windows_are_exactly_those_that_hold_the_time(
        size in 1i64..500, slide in 1i64..500, start in -500i64..500, time in -5000i64..5000,
    ) {
        let slide = 1 + slide % size;
        let start = start % slide;
        let spec = spec(size, slide, start);
        let expected: Vec<(i64, i64)> = (time - size..=time)
            .rev()
            .filter(|s| (s - start).rem_euclid(slide) == 0 && *s <= time && time < s + size)
            .map(|s| (s, s + size))
            .collect();
        prop_assert_eq!(&sliding(&spec, time), &expected);
        prop_assert_eq!(pairs(&spec.tumbling(&times(&[time])))[0], expected[0]);
    }
}
