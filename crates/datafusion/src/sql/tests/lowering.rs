//! What becomes of FROM clauses.

use super::{error, one, shown};
use crate::sql::Command;

/// Lowers each query and compares.
fn check(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        let Command::Query(query) = one(text) else { panic!("{text} is not a query") };
        let expected: Vec<&str> = expected.lines().map(str::trim).collect();
        assert_eq!(shown(&query), expected.join("\n"), "{text}");
    }
}

#[test]
fn plain_queries_stay_as_they_are() {
    for text in [
        "SELECT 1",
        "SELECT a, b AS c FROM t WHERE a > 1 GROUP BY a, b HAVING count(*) > 2 ORDER BY 1 LIMIT 3",
        "SELECT * FROM a JOIN b ON a.k = b.k, c",
        "SELECT * FROM (SELECT 1 AS x) AS q",
        "SELECT * FROM (a JOIN b ON a.k = b.k) JOIN c ON true",
        "WITH x AS (SELECT 1 AS a) SELECT * FROM x",
        "SELECT a FROM t UNION ALL SELECT b FROM u",
        "SELECT EXTRACT(YEAR FROM ts) FROM t",
        "SELECT a IS DISTINCT FROM b, c FROM t",
        "SELECT (SELECT max(x) FROM u) AS m FROM t",
        "SELECT stream, watermark, delay FROM t",
        "SELECT * FROM stream",
        "SELECT * FROM stream WHERE x",
        "SELECT * FROM t watermark",
        "SELECT * FROM t AS watermark, u",
        "SELECT window(ts, '5 minutes') AS w, count(*) FROM t GROUP BY 1",
        "SELECT window(ts, '5 minutes').start FROM t GROUP BY window(ts, '5 minutes')",
    ] {
        let Command::Query(query) = one(text) else { panic!("{text}") };
        assert!(query.relations.is_empty(), "{text}");
        assert_eq!(query.query.to_string(), text);
    }
}

#[test]
fn sources_stand_aside() {
    check(&[
        (
            "SELECT page FROM STREAM read_files('in', format => 'json', maxFilesPerTrigger => 10)",
            "$0 = stream read_files(Text(\"in\"), format => Text(\"json\"), \
             maxFilesPerTrigger => Number(\"10\"))
             SELECT page FROM `$0`",
        ),
        ("select * from stream rate() r", "$0 = stream rate()\nSELECT * FROM `$0` r"),
        (
            "SELECT * FROM read_files('in') AS f",
            "$0 = read_files(Text(\"in\"))\nSELECT * FROM `$0` AS f",
        ),
        (
            "SELECT * FROM STREAM rate(rowsPerSecond => 200, `a.b` => -1.5, c.d => TRUE, e => null)",
            "$0 = stream rate(rowsPerSecond => Number(\"200\"), a.b => Number(\"-1.5\"), \
             c.d => Boolean(true), e => Null)
             SELECT * FROM `$0`",
        ),
        (
            "SELECT * FROM range(10) AS r, STREAM Rate_Micro_Batch(rowsPerBatch => 2000L)",
            "$0 = stream rate_micro_batch(rowsPerBatch => Number(\"2000\"))
             SELECT * FROM range(10) AS r, `$0`",
        ),
    ]);
}

#[test]
fn tables_keep_their_names() {
    check(&[
        (
            "SELECT clicks.a FROM STREAM clicks",
            "$0 = stream clicks\nSELECT clicks.a FROM `$0` AS `clicks`",
        ),
        ("SELECT * FROM STREAM s.clicks c", "$0 = stream s.clicks\nSELECT * FROM `$0` c"),
        (
            "SELECT * FROM STREAM (main.s.`click log`) WHERE a",
            "$0 = stream main.s.`click log`\nSELECT * FROM `$0` AS `click log` WHERE a",
        ),
        ("SELECT * FROM STREAM(clicks) AS c", "$0 = stream clicks\nSELECT * FROM `$0` AS c"),
        (
            "SELECT * FROM STREAM a JOIN STREAM b ON a.k = b.k LEFT JOIN c ON c.k = a.k",
            "$0 = stream a
             $1 = stream b
             SELECT * FROM `$0` AS `a` JOIN `$1` AS `b` ON a.k = b.k LEFT JOIN c ON c.k = a.k",
        ),
        (
            "SELECT * FROM t, STREAM u, (STREAM v x JOIN w ON true)",
            "$0 = stream u
             $1 = stream v
             SELECT * FROM t, `$0` AS `u`, (`$1` x JOIN w ON true)",
        ),
    ]);
}

#[test]
fn streams_have_options_and_tables_have_versions() {
    check(&[
        (
            "SELECT * FROM STREAM a WITH (skipChangeCommits = true, 'startingVersion' = '3')
             WATERMARK t DELAY OF INTERVAL 1 DAY AS x",
            "$0 = stream a skipChangeCommits=true startingVersion=3 watermark t delay 86400000000us
             SELECT * FROM `$0` AS x",
        ),
        (
            "SELECT * FROM STREAM delta.`/a/b` WITH ('maxFilesPerTrigger' = 1)",
            "$0 = stream delta.`/a/b` maxFilesPerTrigger=1\nSELECT * FROM `$0` AS `/a/b`",
        ),
        (
            "SELECT * FROM a VERSION AS OF 3 JOIN b FOR VERSION AS OF '4' y ON a.k = y.k",
            "$0 = a versionAsOf=3
             $1 = b versionAsOf=4
             SELECT * FROM `$0` AS `a` JOIN `$1` y ON a.k = y.k",
        ),
        (
            "SELECT * FROM s.a TIMESTAMP AS OF '2026-11-30', c FOR SYSTEM_TIME AS OF TIMESTAMP 'x'",
            "$0 = s.a timestampAsOf=2026-11-30
             $1 = c timestampAsOf=x
             SELECT * FROM `$0` AS `a`, `$1` AS `c`",
        ),
        ("SELECT * FROM a version", "SELECT * FROM a version"),
    ]);
}

#[test]
fn watermarks_stand_behind_any_relation() {
    check(&[
        (
            "SELECT * FROM STREAM read_files('in') WATERMARK ts DELAY OF INTERVAL 10 MINUTES AS c",
            "$0 = stream read_files(Text(\"in\")) watermark ts delay 600000000us
             SELECT * FROM `$0` AS c",
        ),
        (
            "SELECT * FROM STREAM a WATERMARK a.ts DELAY OF INTERVAL '10 seconds' x JOIN b ON true",
            "$0 = stream a watermark a.ts delay 10000000us
             SELECT * FROM `$0` x JOIN b ON true",
        ),
        (
            "SELECT * FROM clicks WATERMARK ts DELAY OF INTERVAL '1' HOUR WHERE ts > 0",
            "$0 = clicks watermark ts delay 3600000000us
             SELECT * FROM `$0` AS `clicks` WHERE ts > 0",
        ),
        (
            "SELECT * FROM STREAM a WATERMARK to_timestamp(t, 'x') AS ts DELAY OF INTERVAL 1 DAY b",
            "$0 = stream a watermark to_timestamp(t, 'x') as ts delay 86400000000us
             SELECT * FROM `$0` b",
        ),
        (
            "SELECT * FROM (SELECT a AS ts FROM STREAM t) WATERMARK ts DELAY OF INTERVAL 1 MINUTE q",
            "$0 = stream t
             $1 = (SELECT a AS ts FROM `$0` AS `t`) watermark ts delay 60000000us
             SELECT * FROM `$1` q",
        ),
        (
            "SELECT * FROM VALUES (1, 2), (3, 4) WATERMARK a DELAY OF INTERVAL 0 SECONDS AS t(a, b)",
            "$0 = (SELECT * FROM (VALUES (1, 2), (3, 4))) watermark a delay 0us
             SELECT * FROM `$0` AS t (a, b)",
        ),
        (
            "SELECT * FROM range(3) WATERMARK id DELAY OF INTERVAL 1 HOUR 30 MINUTES",
            "$0 = (SELECT * FROM range(3)) watermark id delay 5400000000us
             SELECT * FROM `$0`",
        ),
        (
            "SELECT * FROM STREAM a WATERMARK timestamp DELAY OF INTERVAL 1.5 SECONDS, b",
            "$0 = stream a watermark timestamp delay 1500000us
             SELECT * FROM `$0` AS `a`, b",
        ),
    ]);
}

#[test]
fn queries_that_stand_aside_bring_what_they_can_see() {
    check(&[
        (
            "WITH x AS (SELECT * FROM STREAM t), y AS (SELECT 1)
             SELECT * FROM x WATERMARK ts DELAY OF INTERVAL 1 SECOND",
            "$0 = stream t
             $1 = (WITH x AS (SELECT * FROM `$0` AS `t`), y AS (SELECT 1) SELECT * FROM x) \
             watermark ts delay 1000000us
             WITH x AS (SELECT * FROM `$0` AS `t`), y AS (SELECT 1) SELECT * FROM `$1` AS `x`",
        ),
        (
            "WITH x (a, b) AS (SELECT 1, 2)
             SELECT * FROM (WITH z AS (SELECT 3) SELECT * FROM x, z)
             WATERMARK a DELAY OF INTERVAL 1 SECOND q",
            "$0 = (WITH x (a, b) AS (SELECT 1, 2), z AS (SELECT 3) SELECT * FROM x, z) \
             watermark a delay 1000000us
             WITH x (a, b) AS (SELECT 1, 2) SELECT * FROM `$0` q",
        ),
        (
            "WITH x AS (SELECT * FROM STREAM a WATERMARK ts DELAY OF INTERVAL 1 SECOND)
             SELECT * FROM x",
            "$0 = stream a watermark ts delay 1000000us
             WITH x AS (SELECT * FROM `$0` AS `a`) SELECT * FROM x",
        ),
    ]);
}

#[test]
fn streams_are_found_in_every_corner() {
    check(&[
        (
            "SELECT a FROM STREAM t UNION ALL (SELECT b FROM STREAM u) ORDER BY 1",
            "$0 = stream t
             $1 = stream u
             SELECT a FROM `$0` AS `t` UNION ALL (SELECT b FROM `$1` AS `u`) ORDER BY 1",
        ),
        (
            "SELECT * FROM t WHERE k IN (SELECT k FROM STREAM u) AND EXISTS (SELECT 1 FROM STREAM v)",
            "$0 = stream u
             $1 = stream v
             SELECT * FROM t WHERE k IN (SELECT k FROM `$0` AS `u`) \
             AND EXISTS (SELECT 1 FROM `$1` AS `v`)",
        ),
        (
            "SELECT * FROM ((SELECT 1 AS a FROM STREAM t) UNION ALL (SELECT 2)) q",
            "$0 = stream t
             SELECT * FROM ((SELECT 1 AS a FROM `$0` AS `t`) UNION ALL (SELECT 2)) q",
        ),
        (
            "SELECT coalesce((SELECT max(a) FROM STREAM t), 0)",
            "$0 = stream t\nSELECT coalesce((SELECT max(a) FROM `$0` AS `t`), 0)",
        ),
        (
            "SELECT * FROM STREAM t LATERAL VIEW explode(a) e AS x, stream",
            "$0 = stream t\nSELECT * FROM `$0` AS `t` LATERAL VIEW explode(a) e AS x, stream",
        ),
    ]);
}

#[test]
fn a_table_may_be_called_stream_if_quoted() {
    check(&[
        ("SELECT * FROM `stream` s", "SELECT * FROM `stream` s"),
        ("SELECT * FROM STREAM `stream`", "$0 = stream stream\nSELECT * FROM `$0` AS `stream`"),
    ]);
}

#[test]
fn relations_are_in_the_order_in_which_they_can_be_planned() {
    let text = "SELECT * FROM (SELECT * FROM (SELECT * FROM STREAM a) WATERMARK t DELAY OF \
                INTERVAL 1 DAY) WATERMARK t DELAY OF INTERVAL 2 DAYS, STREAM b";
    let Command::Query(query) = one(text) else { panic!("a query") };
    for (at, relation) in query.relations.iter().enumerate() {
        let text = super::shown_relation(relation);
        for later in &query.relations[at..] {
            assert!(!text[1 + relation.name.len()..].contains(&later.name), "{text}");
        }
        assert_eq!(query.relation(&relation.name), Some(relation));
    }
    assert!(query.names_a_stream());
}

#[test]
fn a_query_knows_the_tables_that_it_names() {
    let text = "WITH x AS (SELECT * FROM A) SELECT * FROM x, s.B, STREAM C, read_files('f'), \
                (SELECT * FROM d) WATERMARK t DELAY OF INTERVAL 1 DAY \
                WHERE k IN (SELECT k FROM e WATERMARK t DELAY OF INTERVAL 1 DAY)";
    let Command::Query(query) = one(text) else { panic!("a query") };
    let names: Vec<String> = query.table_names().into_iter().collect();
    assert_eq!(names, ["a", "b", "c", "d", "e", "x"]);
}

#[test]
fn queries_only_read() {
    for text in
        ["WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x", "WITH x AS (SELECT 1) DELETE FROM t"]
    {
        assert!(error(text).contains("a query reads"), "{text}");
    }
}
