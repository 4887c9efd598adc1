//! What Spark 4.1 answered for the same patterns and texts.

use super::*;

fn instant(pattern: &str, text: &str) -> Option<i64> {
    Pattern::parse(pattern).unwrap().instant(text.as_bytes(), Zone::UTC)
}

/// Microseconds of 2026-01-02 and a time of that day.
fn second(hour: i64, minute: i64, second: i64) -> Option<i64> {
    Some((((20_455 * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000)
}

#[test]
fn times_are_read_as_spark_reads_them() {
    for (pattern, text, expected) in [
        ("yyyy-MM-dd HH:mm:ss", "2026-01-02 03:04:05", second(3, 4, 5)),
        ("dd/MM/yyyy HH:mm", "02/01/2026 03:04", second(3, 4, 0)),
        ("dd/MM/yyyy", "02/01/2026", second(0, 0, 0)),
        ("yyyy-MM-dd'T'HH:mm:ss.SSSXXX", "2026-01-02T03:04:05.00+02:00", second(1, 4, 5)),
        ("yyyy-MM-dd HH:mm:ss.SSS", "2026-01-02 03:04:05.123456", None),
        ("d-MMM-yy h:mm a", "2-JAN-26 3:04 pm", second(15, 4, 0)),
        ("yyyyMMddHHmmss", "20260102030405", second(3, 4, 5)),
        ("yyyy-M-d H:m:s", "2026-1-2 3:4:5", second(3, 4, 5)),
        ("yyyy-M-d", "2026-01-02", second(0, 0, 0)),
        ("yyyy-MM-dd[ HH:mm]", "2026-01-02", second(0, 0, 0)),
        ("yyyy-MM-dd[ HH:mm]", "2026-01-02 05:06", second(5, 6, 0)),
        ("yyyy-MM-dd HH:mm:ss z", "2026-01-02 03:04:05 Europe/Berlin", second(2, 4, 5)),
        ("yyyy-MM-dd HH:mm:ss VV", "2026-01-02 03:04:05 Europe/Berlin", second(2, 4, 5)),
        ("yyyy-MM-dd HH:mm:ss Z", "2026-01-02 03:04:05 +0200", second(1, 4, 5)),
        ("yyyy-MM-dd HH:mm:ssX", "2026-01-02 03:04:05+02", second(1, 4, 5)),
        ("yyyy-MM-dd HH:mm:ssX", "2026-01-02 03:04:05Z", second(3, 4, 5)),
        ("yyyy DDD", "2026 002", second(0, 0, 0)),
        ("yyyy-MM-dd", "2026-02-30", None),
        ("yyyy-MM-dd HH:mm:ss", " 2026-01-02 03:04:05", None),
        ("M/d/yyyy", "13/1/2026", None),
        ("y-MM-dd", "2026-01-02", second(0, 0, 0)),
        ("yyyy-MM-dd hh:mm a", "2026-01-02 12:30 AM", second(0, 30, 0)),
        ("d MMMM yyyy", "2 january 2026", second(0, 0, 0)),
        ("yyyy-MM-dd HH 'o''clock'", "2026-01-02 03 o", None),
        ("yyyy-MM-dd HH 'o''clock'", "2026-01-02 03 o'clock", second(3, 0, 0)),
    ] {
        assert_eq!(instant(pattern, text), expected, "{pattern} <- {text}");
    }
    assert_eq!(instant("HH:mm", "03:04"), Some(11_040_000_000));
    assert_eq!(instant("yy", "99"), instant("yyyy", "2099"));
    assert_eq!(instant("s.SSSSSSSSS", "1.123456789"), Some(1_123_456));
}

#[test]
fn dates_are_read_as_spark_reads_them() {
    for (pattern, text, expected) in [
        ("dd.MM.yyyy", "02.01.2026", Some(20_455)),
        ("dd.MM.yyyy", "2026-01-02", None),
        ("yyyyMMdd", "20260102", Some(20_455)),
        ("MM/yyyy", "01/2026", Some(20_454)),
        ("yyyy-MM-dd", "2026-01-02 05:00", None),
    ] {
        let found = Pattern::parse(pattern).unwrap().date(text.as_bytes());
        assert_eq!(found, expected, "{pattern} <- {text}");
    }
}

#[test]
fn a_local_time_has_no_zone() {
    let pattern = Pattern::parse("dd/MM/yyyy HH:mm[X]").unwrap();
    assert_eq!(pattern.local(b"02/01/2026 03:04"), second(3, 4, 0));
    assert_eq!(pattern.local(b"02/01/2026 03:04Z"), None);
}

#[test]
fn letters_that_spark_refuses_are_refused() {
    for bad in
        ["", "EEEE, MMMM d", "YYYY-ww", "uuuu-MM-dd", "QQQ yyyy", "yyyy-[MM", "yyyy]", "'x", "ddd"]
    {
        assert_eq!(Pattern::parse(bad), None, "{bad}");
    }
}
