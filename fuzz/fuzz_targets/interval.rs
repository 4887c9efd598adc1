//! Text where an interval should be: read or refused, and what was read can be shown.

#![no_main]

use fluvial_core::{CalendarInterval, parse_duration};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = parse_duration(text);
    let Ok(interval) = CalendarInterval::parse(text) else { return };
    let _ = (interval.to_delay(), interval.to_fixed());
    let shown = interval.to_string();
    assert_eq!(CalendarInterval::parse(&shown).expect("it reads what it shows"), interval);
});
