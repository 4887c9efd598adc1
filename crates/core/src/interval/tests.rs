use super::*;

const SECOND: i64 = 1_000_000;

fn interval(months: i32, days: i32, micros: i64) -> CalendarInterval {
    CalendarInterval { months, days, micros }
}

#[test]
fn pairs_of_numbers_and_units_are_read() {
    for (text, expected) in [
        ("10 minutes", interval(0, 0, 600 * SECOND)),
        ("1 hour 30 minutes", interval(0, 0, 5400 * SECOND)),
        ("10 SECONDS", interval(0, 0, 10 * SECOND)),
        (" \t1 Day\n", interval(0, 1, 0)),
        ("-1 day", interval(0, -1, 0)),
        ("- 1 day +2 hours", interval(0, -1, 7200 * SECOND)),
        ("2 years 5 months", interval(29, 0, 0)),
        ("1 week", interval(0, 7, 0)),
        ("0.5 seconds", interval(0, 0, 500_000)),
        ("-.5 second", interval(0, 0, -500_000)),
        ("1.123456789 seconds", interval(0, 0, 1_123_456)),
        ("3 milliseconds 4 microseconds", interval(0, 0, 3004)),
        ("1 second 1 second", interval(0, 0, 2 * SECOND)),
        ("1 month -40 days", interval(1, -40, 0)),
    ] {
        assert_eq!(CalendarInterval::parse(text).unwrap(), expected, "{text}");
    }
}

#[test]
fn sql_literals_are_read() {
    let mixed = interval(0, 1, (2 * 3600 + 3 * 60 + 4) * SECOND);
    for (text, expected) in [
        ("interval 5 seconds", interval(0, 0, 5 * SECOND)),
        ("INTERVAL 10 seconds 5 seconds", interval(0, 0, 15 * SECOND)),
        ("interval '5' day", interval(0, 5, 0)),
        ("interval -'5' day", interval(0, -5, 0)),
        ("interval -'-5' day", interval(0, 5, 0)),
        ("interval - 5 days", interval(0, -5, 0)),
        ("interval '10 minutes'", interval(0, 0, 600 * SECOND)),
        ("interval \"1 day 2 hours\"", interval(0, 1, 7200 * SECOND)),
        ("interval '1 2:3:4' day to second", mixed),
        ("interval '-1 2:3:4' day to second", interval(0, -1, -mixed.micros)),
        ("interval -'-1 2:3:4' day to second", mixed),
        ("interval '1 2:3:4.5' DAY TO SECOND", interval(0, 1, mixed.micros + 500_000)),
        ("interval '1 2' day to hour", interval(0, 1, 7200 * SECOND)),
        ("interval '90:30' minute to second", interval(0, 0, 5430 * SECOND)),
        ("interval '2-3' year to month", interval(27, 0, 0)),
    ] {
        assert_eq!(CalendarInterval::parse(text).unwrap(), expected, "{text}");
    }
}

#[test]
fn what_spark_refuses_is_refused() {
    for text in [
        "",
        "   ",
        "abc",
        "10",
        "10 ",
        "seconds",
        "10seconds",
        "1e3 seconds",
        "10 second s",
        "10 secondss",
        "10 s",
        "1.5 minutes",
        "1. minutes",
        ". seconds",
        "1.1234567890 seconds",
        "-- 1 day",
        "1 day,2 hours",
        "1 day2 hours",
        "10 sécondes",
        "９ days",
        "intrval '3' day",
        "interval",
        "interval ",
        "intervals 5 days",
        "interval '5' foo",
        "interval '5",
        "interval '5 days' days",
        "interval '1 day 2' hour",
        "interval '1 2:3:4' day to hour",
        "interval '1 24:3:4' day to second",
        "interval '1 2:60:4' day to second",
        "interval '1 2:3:4' second to day",
        "interval '1 2' day to day",
        "interval '1 2' day to",
        "interval 1 day '1 2' day to hour",
        "interval 10seconds",
        "interval 1 day 2",
        "9223372036854775808 microseconds",
        "2147483648 days",
        "178956971 years",
        "9223372036854775807 microseconds 1 microsecond",
    ] {
        let error = CalendarInterval::parse(text).unwrap_err();
        assert_eq!(error.condition(), Some("CANNOT_PARSE_INTERVAL"), "{text}: {error}");
    }
}

#[test]
fn faults_are_shown_where_they_are() {
    let error = CalendarInterval::parse("1 day 5 foos").unwrap_err();
    assert!(error.message().contains("a unit from years to microseconds is expected at byte 8"));
    let long = format!("{} days", "9".repeat(1000));
    assert!(CalendarInterval::parse(&long).unwrap_err().message().len() < 400);
}

/// Trap A12.
#[test]
fn a_month_of_delay_has_31_days() {
    let delay = |text: &str| CalendarInterval::parse(text).and_then(CalendarInterval::to_delay);
    assert_eq!(delay("1 month").unwrap(), EventDuration(31 * DAY));
    assert_eq!(delay("2 years 5 months").unwrap(), EventDuration(29 * 31 * DAY));
    assert_eq!(delay("0 seconds").unwrap(), EventDuration(0));
    assert_eq!(delay("1500 microseconds").unwrap(), EventDuration(1000));
    for text in ["-10 seconds", "1 month -40 days", "1 year -13 months", "-1 year"] {
        let error = delay(text).unwrap_err();
        assert!(error.message().contains("should not be negative"), "{error}");
        assert_eq!(error.condition(), Some("WATERMARK_DELAY_NEGATIVE"));
    }
    assert!(delay("178956970 years").is_err());
}

#[test]
fn fixed_lengths_have_no_months() {
    let fixed = |text: &str| CalendarInterval::parse(text).and_then(CalendarInterval::to_fixed);
    assert_eq!(fixed("1 week -1 day").unwrap(), EventDuration(6 * DAY));
    assert_eq!(fixed("-1 minute").unwrap(), EventDuration(-60 * SECOND));
    assert_eq!(fixed("1 month").unwrap_err().condition(), Some("INTERVAL_WITH_MONTHS"));
    assert!(fixed("2147483647 days").is_err());
}

#[test]
fn durations_have_a_short_form() {
    for (text, micros) in [
        ("30s", 30_000_000),
        ("500ms", 500_000),
        ("1h30m", 5_400_000_000),
        (" 5m ", 300_000_000),
        ("2d", 2 * DAY as u64),
        ("7us", 7),
        ("0s", 0),
        ("10 seconds", 10_000_000),
        ("interval 1 minute", 60_000_000),
    ] {
        assert_eq!(parse_duration(text).unwrap(), Duration::from_micros(micros), "{text}");
    }
    for text in ["", "30", "30x", "30sm", "s", "1.5s", "99999999999999999999s", "-30s"] {
        let error = parse_duration(text).unwrap_err();
        assert_eq!(error.condition(), Some("CANNOT_PARSE_INTERVAL"), "{text}");
    }
    assert!(parse_duration("-5 seconds").is_err());
    assert!(parse_duration("1 month").is_err());
}

#[test]
fn what_is_shown_reads_the_same() {
    let intervals = [
        interval(0, 0, 0),
        interval(0, 0, -10 * SECOND),
        interval(14, -3, 3_723_004_005),
        interval(-25, 1, -1),
        interval(i32::MAX, i32::MAX, i64::MAX),
        interval(0, 0, 1_500_000),
    ];
    for expected in intervals {
        assert_eq!(CalendarInterval::parse(&expected.to_string()).unwrap(), expected, "{expected}");
    }
    assert_eq!(interval(0, 0, 90 * SECOND).to_string(), "1 minute 30 seconds");
}

/// Every text of up to four characters from an alphabet that reaches every branch.
#[test]
fn no_text_makes_it_panic() {
    let alphabet = ["1", ".", "-", " ", "'", "day", "interval", "to", "s", "9999999999", "é", ":"];
    let mut texts = vec![String::new()];
    for _ in 0..4 {
        let longer = |text: &String| alphabet.map(|part| format!("{text}{part}"));
        texts = texts.iter().flat_map(longer).collect();
        for text in &texts {
            let _ = CalendarInterval::parse(text).map(|i| (i.to_delay(), i.to_fixed()));
            let _ = parse_duration(text);
        }
    }
}
