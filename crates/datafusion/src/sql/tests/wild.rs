//! Text that nobody meant: it is refused, and nothing else happens.

use super::error;
use crate::sql::parse_script;
use proptest::prelude::*;

#[test]
fn deep_text_is_refused_before_it_exhausts_the_stack() {
    let deep = 20_000;
    let around = |open: &str, inner: &str, close: &str| {
        format!("SELECT {}{inner}{}", open.repeat(deep), close.repeat(deep))
    };
    for text in [
        around("(", "1", ")"),
        around("f(", "1", ")"),
        around("a[", "1", "]"),
        around("(SELECT * FROM ", "t", ")"),
        around("NOT ", "a", ""),
        around("- ", "a", ""),
        around("INTERVAL ", "a", ""),
        around("CASE WHEN ", "a", ""),
        around("CAST(a AS ARRAY<", "INT", ">"),
        around("1 + ", "1", ""),
        around("a IS NULL AND ", "a", ""),
        around("", "a", "::int"),
        around("", "a", " IS NULL"),
        format!("SELECT 1 {}", "UNION SELECT 1 ".repeat(deep)),
        format!("SELECT * FROM {}t{}", "(".repeat(deep), ")".repeat(deep)),
        format!("SELECT * FROM a {}", "JOIN b ".repeat(deep)),
        format!("SELECT * FROM {}", "STREAM ".repeat(deep)),
    ] {
        let message = error(&text);
        assert!(
            message.contains("nested too deeply") || message.contains("operators"),
            "{message}"
        );
    }
}

#[test]
fn what_the_bounds_allow_does_not_exhaust_the_stack() {
    let sums = format!("SELECT {} 1", "1 + ".repeat(3990));
    assert_eq!(parse_script(&sums).unwrap().len(), 1);
    let list = format!("SELECT * FROM t WHERE a IN ({} 1)", "1, ".repeat(100_000));
    assert_eq!(parse_script(&list).unwrap().len(), 1);
    let unions = format!("SELECT 1 {}", "UNION SELECT 1 ".repeat(1990));
    assert_eq!(parse_script(&unions).unwrap().len(), 1);
    for (open, close) in [("(", ")"), ("f(", ")"), ("a[", "]"), ("(SELECT ", ")"), ("NOT ", "")] {
        for depth in 1..60 {
            let text = format!("SELECT {}1{}", open.repeat(depth), close.repeat(depth));
            let _ = parse_script(&text);
        }
    }
    let types = format!("SELECT CAST(a AS {}INT{})", "ARRAY<".repeat(32), ">".repeat(32));
    assert_eq!(parse_script(&types).unwrap().len(), 1);
    for depth in 1..48 {
        let (open, close) = ("(SELECT * FROM ".repeat(depth), ")".repeat(depth));
        let _ = parse_script(&format!("SELECT * FROM {open} STREAM t {close}"));
        let watermark = ") WATERMARK a DELAY OF INTERVAL 1 DAY".repeat(depth);
        let _ = parse_script(&format!("SELECT * FROM {open} STREAM t {watermark}"));
    }
}

#[test]
fn what_the_parser_tries_twice_does_not_take_forever() {
    // In FROM, what stands in parentheses is tried as a query first and as joins after that.
    for depth in [4, 12, 24] {
        for open in
            ["((SELECT * FROM ", "(SELECT * FROM (", "((", "(((SELECT 1) UNION SELECT * FROM "]
        {
            let _ = error(&format!("SELECT * FROM {} t ,,", open.repeat(depth)));
            let closed = ")".repeat(open.matches('(').count() * depth);
            let _ = parse_script(&format!("SELECT * FROM {} + {closed}", open.repeat(depth)));
        }
    }
}

const WORDS: &[&str] = &[
    "SELECT",
    "FROM",
    "STREAM",
    "WATERMARK",
    "DELAY",
    "OF",
    "INTERVAL",
    "AS",
    "JOIN",
    "ON",
    "WITH",
    "UNION",
    "ALL",
    "VALUES",
    "LATERAL",
    "VIEW",
    "TABLE",
    "CREATE",
    "STREAMING",
    "OR",
    "REFRESH",
    "USING",
    "LOCATION",
    "PARTITIONED",
    "BY",
    "TBLPROPERTIES",
    "SET",
    "TIME",
    "ZONE",
    "SHOW",
    "TABLES",
    "DESCRIBE",
    "DROP",
    "IF",
    "NOT",
    "EXISTS",
    "GROUP",
    "WHERE",
    "ORDER",
    "LIMIT",
    "DISTINCT",
    "rate",
    "read_files",
    "window",
    "t",
    "a",
    "ts",
    "`q`",
    "'s'",
    "'5 minutes'",
    "10",
    "1.5",
    "MINUTES",
    "DAY",
    "(",
    ")",
    "(",
    ")",
    "[",
    "]",
    ",",
    ".",
    "=",
    "=>",
    "-",
    "+",
    "*",
    ";",
    "delta",
    "memory",
    "--",
    "/*",
    "*/",
    "\n",
    "é",
    "\u{0}",
    "null",
    "true",
    "__fluvial_x",
    "\"",
];

const SCRIPT: &str = "CREATE OR REFRESH STREAMING TABLE s.t (a bigint, b array<string>) USING delta
 LOCATION 'x' PARTITIONED BY (a) TBLPROPERTIES ('outputMode' = 'append', trigger = '1 minute') AS
 WITH c AS (SELECT * FROM STREAM (m.s.t) WATERMARK a DELAY OF INTERVAL 1 HOUR x)
 SELECT window(a, '5 minutes').start, count(*) FROM c JOIN read_files('y', `k.l` => -1) f ON true
 WHERE a IN (SELECT b FROM STREAM rate(rowsPerSecond => 200) WATERMARK f(x) AS y DELAY OF INTERVAL
 '1' DAY) GROUP BY 1; SET a.b = 'c'; CREATE TEMP VIEW v AS VALUES (1, 'a'); DROP VIEW IF EXISTS v;";

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn words_in_any_order_never_panic(words in prop::collection::vec(prop::sample::select(WORDS), 0..40)) {
        let _ = parse_script(&words.join(" "));
    }

    #[test]
    fn queries_of_any_words_never_panic(words in prop::collection::vec(prop::sample::select(WORDS), 0..30)) {
        let _ = parse_script(&format!("SELECT * FROM {}", words.join(" ")));
    }

    #[test]
    fn any_text_never_panics(text in any::<String>()) {
        let _ = parse_script(&text);
    }

    #[test]
    fn damaged_scripts_never_panic(from in 0..SCRIPT.len(), length in 0..20_usize, with in "[ -~]{0,4}") {
        let to = SCRIPT.len().min(from + length);
        let _ = parse_script(&[&SCRIPT[..from], &with, &SCRIPT[to..]].concat());
    }
}

#[test]
fn every_prefix_of_a_script_is_whole_or_refused() {
    assert_eq!(parse_script(SCRIPT).unwrap().len(), 4);
    for end in 0..SCRIPT.len() {
        let _ = parse_script(&SCRIPT[..end]);
    }
}
