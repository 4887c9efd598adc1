//! Lines of JSON to decode.

use std::fmt::Write;

/// Clicks, about as large as in the comparison with Spark: `rows` lines.
pub fn clicks(rows: u64) -> String {
    let mut text = String::new();
    for n in 0..rows {
        let (user, page) = (n * 7919 % 100_000, n * 104_729 % 1000);
        let (second, milli, hundredths) = (n / 50 % 60, n * 37 % 1000, n * 61 % 6000);
        let (whole, part) = (hundredths / 100, hundredths % 100);
        // Writing to a String does not fail.
        let _ = writeln!(
            text,
            "{{\"user_id\":\"u{user}\",\"page\":\"/page/{page:03}\",\"event_time\":\
             \"2026-01-01T00:00:{second:02}.{milli:03}Z\",\"duration_s\":{whole}.{part:02}}}"
        );
    }
    text
}

/// Events of which a query needs two fields of many: `rows` lines.
pub fn events(rows: u64) -> String {
    let mut text = String::new();
    for n in 0..rows {
        let _ = writeln!(
            text,
            "{{\"id\":{n},\"type\":\"push\",\"actor\":{{\"id\":{n},\"login\":\"user{n}\",\"url\":\
             \"https://example.org/users/{n}\",\"tags\":[\"a\",\"b\\n\",\"\\u00e9\"]}},\"payload\":\
             {{\"size\":{},\"commits\":[{{\"sha\":\"{n:040x}\",\"message\":\"a change, number {n}, with \
             some words about why it is\"}}]}},\"public\":true}}",
            n % 9
        );
    }
    text
}
