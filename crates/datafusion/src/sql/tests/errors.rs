//! What people see when a script is wrong.

use super::error;
use crate::sql::parse_script;

/// Each script and what its error says.
fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let message = error(text);
        assert!(message.contains(expected), "{text}\n{message}");
    }
}

#[test]
fn an_error_says_where_and_shows_it() {
    assert_eq!(
        error("SELECT 1;\nSELECT a,, b\nFROM STREAM t"),
        "[PARSE_SYNTAX_ERROR] line 2, column 10: expected an expression, found ,\n  |\n\
         2 | SELECT a,, b\n  |          ^"
    );
    assert_eq!(
        error("SELECT a FROM"),
        "[PARSE_SYNTAX_ERROR] line 1, column 14: expected a relation, found the end of the \
         statement\n  |\n1 | SELECT a FROM\n  |              ^"
    );
}

#[test]
fn what_stands_aside_still_points_at_its_text() {
    check(&[
        ("SELECT *\nFROM STREAM t WATERMARK a + DELAY OF INTERVAL 1 DAY", "line 2, column 29"),
        ("SELECT *\nFROM STREAM read_files('x', f => ) b", "line 2, column 34: expected a value"),
        ("SELECT * FROM STREAM t AS", "line 1, column 26"),
        ("SELECT 'abc", "line 1, column 8: unterminated string literal"),
        ("SELECT /* x", "line 1"),
    ]);
}

#[test]
fn parentheses_are_matched_first() {
    check(&[
        ("SELECT (1", "line 1, column 8: this ( is never closed"),
        ("SELECT 1)", "line 1, column 9: this ) closes nothing"),
        ("SELECT a[1)", "line 1, column 11: expected ], found )"),
    ]);
}

#[test]
fn arguments_are_literals_with_names() {
    check(&[
        ("SELECT * FROM STREAM rate(a => 1, A => 2)", "line 1, column 35: A is given twice"),
        ("SELECT * FROM STREAM read_files(path => 'x', 'y')", "needs a name too"),
        ("SELECT * FROM STREAM read_files(lower('X'))", "expected a value (a string, number"),
        ("SELECT * FROM STREAM read_files('x' format => 'y')", "expected the end of the arguments"),
        ("SELECT * FROM STREAM s.read_files('x')", "no schema in front of its name"),
    ]);
}

#[test]
fn streams_are_marked_where_they_are_read() {
    check(&[
        ("SELECT * FROM rate()", "rate is a stream: write STREAM rate(...)"),
        ("SELECT * FROM STREAM (SELECT 1)", "write it in front of those inside of the query"),
        ("WITH x AS (SELECT 1) SELECT * FROM STREAM x", "x is a WITH query"),
        ("WITH RECURSIVE x AS (SELECT 1) SELECT * FROM x", "cannot be run incrementally"),
        ("SELECT * FROM a VERSION AS OF b", "expected a version or a time"),
        ("WITH x AS (SELECT 1) SELECT * FROM x VERSION AS OF 1", "x is a WITH query, which has no"),
        ("SELECT * FROM STREAM a WITH (b = 1, B = 2)", "B is given twice"),
        ("SELECT * FROM STREAM (a b)", "expected the end of the name of the table, found b"),
        ("SELECT * FROM __fluvial_relation_0", "names that start with __fluvial_ are reserved"),
    ]);
}

#[test]
fn watermarks_have_a_place_a_name_and_a_delay() {
    let behind = |tail: &str| format!("SELECT * FROM STREAM t {tail}");
    for (tail, expected) in [
        ("AS a WATERMARK ts DELAY OF INTERVAL 1 DAY", "stands before the alias"),
        ("a WATERMARK ts DELAY OF INTERVAL 1 DAY", "stands before the alias"),
        ("WATERMARK ts", "a watermark says how late events may come"),
        ("WATERMARK ts DELAY OF 10 MINUTES", "expected an interval, such as INTERVAL 10 MINUTES"),
        ("WATERMARK ts DELAY OF INTERVAL", "expected a number and a unit"),
        ("WATERMARK ts DELAY OF INTERVAL 10", "CANNOT_PARSE_INTERVAL"),
        ("WATERMARK ts DELAY OF INTERVAL '10 minuets'", "CANNOT_PARSE_INTERVAL"),
        ("WATERMARK ts DELAY OF INTERVAL -1 DAYS", "should not be negative"),
        ("WATERMARK ts DELAY OF INTERVAL 1 MONTH", "a delay is under a month"),
        ("WATERMARK ts + 1 DELAY OF INTERVAL 1 DAY", "needs a name"),
        (
            "WATERMARK ts DELAY OF INTERVAL 1 DAY IDLE AFTER INTERVAL 0 MINUTES",
            "WATERMARK_IDLE_AFTER_NOT_POSITIVE",
        ),
        ("WATERMARK ts DELAY OF INTERVAL 1 DAY IDLE AFTER 5", "expected an interval"),
        (
            "WATERMARK lower(ts) DELAY OF INTERVAL 1 DAY",
            "[REQUIRES_EXPLICIT_NAME_IN_WATERMARK_CLAUSE]",
        ),
        (
            "WATERMARK ts AS a b DELAY OF INTERVAL 1 DAY",
            "expected the end of the event time, found b",
        ),
        (", LATERAL (SELECT 1) WATERMARK a DELAY OF INTERVAL 1 DAY", "behind a LATERAL query"),
    ] {
        let text = behind(tail);
        let message = error(&text);
        assert!(message.contains(expected), "{text}\n{message}");
    }
    check(&[
        ("SELECT * FROM (a JOIN b ON true) WATERMARK t DELAY OF INTERVAL 1 DAY", "behind one"),
        (
            "WITH x AS (SELECT 1) SELECT * FROM (WITH X AS (SELECT 2) SELECT * FROM X) \
             WATERMARK a DELAY OF INTERVAL 1 DAY",
            "a WITH query further out has the name X too",
        ),
    ]);
}

#[test]
fn conditions_are_stable() {
    for (text, condition) in [
        ("SELECT", "PARSE_SYNTAX_ERROR"),
        ("GRANT ALL", "UNSUPPORTED_STATEMENT"),
        ("CREATE STREAMING TABLE t USING x AS SELECT 1", "DATA_SOURCE_NOT_FOUND"),
        ("CREATE STREAMING TABLE t TBLPROPERTIES (x = 1) AS SELECT 1", "UNKNOWN_OPTION"),
        ("SELECT * FROM t WATERMARK a DELAY OF INTERVAL 1 x", "CANNOT_PARSE_INTERVAL"),
    ] {
        assert_eq!(parse_script(text).unwrap_err().condition(), Some(condition), "{text}");
    }
}
