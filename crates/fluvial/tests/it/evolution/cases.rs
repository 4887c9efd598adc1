//! The changes, and how each is judged.

/// Windows and keys, counted; two aggregates.
const KEYED: &str = "CREATE STREAMING TABLE t USING noop \
    TBLPROPERTIES ('checkpointLocation' = 'cp', 'outputMode' = 'update', 'trigger' = 'available-now') AS \
    SELECT window(at, '5 minutes') AS w, page, count(*) AS views, min(v) AS x FROM STREAM \
    read_files('in', format => 'json', maxFilesPerTrigger => 10, \
    schema => 'page string, user string, at timestamp, v double') \
    WATERMARK at DELAY OF INTERVAL 10 MINUTES GROUP BY 1, 2";

/// Two streams, joined.
const JOINED: &str = "CREATE STREAMING TABLE t USING noop \
    TBLPROPERTIES ('checkpointLocation' = 'cp') AS \
    SELECT a.page, a.user, b.v FROM STREAM read_files('in', format => 'json', \
    schema => 'page string, user string, at timestamp, v double') \
    WATERMARK at DELAY OF INTERVAL 10 MINUTES AS a \
    JOIN STREAM read_files('in2', format => 'json', schema => 'page string, at timestamp, v double') \
    WATERMARK at DELAY OF INTERVAL 10 MINUTES AS b \
    ON a.page = b.page AND b.at BETWEEN a.at AND a.at + INTERVAL 5 MINUTES";

/// No state.
const PLAIN: &str = "CREATE STREAMING TABLE t USING noop \
    TBLPROPERTIES ('checkpointLocation' = 'cp', 'outputMode' = 'append') AS \
    SELECT page FROM STREAM read_files('in', format => 'json', schema => 'page string, v double')";

/// A Delta table.
const DELTA: &str = "CREATE STREAMING TABLE t USING delta LOCATION 'out' \
    TBLPROPERTIES ('checkpointLocation' = 'cp') AS \
    SELECT page FROM STREAM read_files('in', format => 'json', schema => 'page string, v double')";

/// Numbers.
const RATE: &str = "CREATE STREAMING TABLE t USING noop \
    TBLPROPERTIES ('checkpointLocation' = 'cp') AS \
    SELECT value FROM STREAM rate_micro_batch(rowsPerBatch => 10, numPartitions => 2)";

#[derive(Debug)]
pub(super) enum Verdict {
    Accepted,
    /// With a warning that says so.
    Ignored(&'static str),
    /// With a condition, and words that name what changed.
    Refused(&'static str, &'static [&'static str]),
}
use Verdict::{Accepted, Ignored, Refused};

pub(super) struct Case {
    /// The change as the docs have it.
    pub(super) row: &'static str,
    /// The query as it was.
    pub(super) query: &'static str,
    /// What is replaced in it, and by what.
    pub(super) edits: &'static [(&'static str, &'static str)],
    /// The settings of the second run.
    pub(super) settings: &'static [(&'static str, &'static str)],
    pub(super) verdict: Verdict,
}

impl Case {
    pub(super) fn changed(&self) -> String {
        self.edits.iter().fold(self.query.to_owned(), |query, (from, to)| {
            assert!(query.contains(from), "{from:?} is not in {query}");
            query.replacen(from, to, 1)
        })
    }
}

const fn case(
    row: &'static str,
    query: &'static str,
    edits: &'static [(&'static str, &'static str)],
    verdict: Verdict,
) -> Case {
    Case { row, query, edits, settings: &[], verdict }
}

const fn setting(
    row: &'static str,
    settings: &'static [(&'static str, &'static str)],
    verdict: Verdict,
) -> Case {
    Case { row, query: KEYED, edits: &[], settings, verdict }
}

/// Rows whose test is a function of its own: the next two in this file's parent, the last one
/// with the engine, because there is one backend so far.
pub(super) const ELSEWHERE: &[&str] = &[
    "order in which named sources or named operators are written down",
    "the state backend's format",
    "another grouping key becomes event time, or none is any more",
];

const LIMITS: &str =
    "rate limits (`maxFilesPerTrigger`, `maxBytesPerTrigger`), the options of a rate source";
const DELAY: &str = "watermark delay";
const FILTERS: &str = "filters, and projections of columns that are neither keys nor aggregates";
const KEY_NAME: &str = "a grouping key gets another name";
const RESULT_NAME: &str = "a result, aggregated or not, gets another name";
const SINK: &str = "another sink or place";
const SOURCES: &str = "a source added, removed, or of another kind (another file format too)";
const MODE: &str = "output mode";
const OPERATORS: &str = "a stateful operator added, removed, or of another kind";
const KEYS: &str = "keys added, removed, reordered, or of another type";
const AGGREGATES: &str = "aggregates added, removed, reordered, of another type, or another \
    function or argument under the same name";
const WINDOW: &str = "window size, slide or start";
const RANGE: &str = "the range of times and the further condition of a join";
const JOIN: &str = "keys or kind of a join, and what makes its rows leave";
const STORED: &str =
    "columns that a join stores: those selected from it, its keys and what its condition reads";

const SOURCES_CHANGED: &str = "SOURCES_CHANGED";
const CONFIG: &str = "STATE_STORE_INVALID_CONFIG_AFTER_RESTART";
const KEY_SCHEMA: &str = "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE";
const VALUE_SCHEMA: &str = "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE";
const OPERATOR: &str = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA";

pub(super) const CASES: &[Case] = &[
    case(LIMITS, KEYED, &[("maxFilesPerTrigger => 10", "maxFilesPerTrigger => 1")], Accepted),
    case(LIMITS, KEYED, &[("maxFilesPerTrigger => 10", "maxBytesPerTrigger => 100")], Accepted),
    case(LIMITS, KEYED, &[("maxFilesPerTrigger => 10, ", "")], Accepted),
    case(LIMITS, RATE, &[("rowsPerBatch => 10", "rowsPerBatch => 25")], Accepted),
    case(LIMITS, RATE, &[("numPartitions => 2", "advanceMillisPerBatch => 7")], Accepted),
    case("trigger", KEYED, &[("'available-now'", "'once'")], Accepted),
    case(DELAY, KEYED, &[("INTERVAL 10 MINUTES", "INTERVAL 1 MINUTE")], Accepted),
    case(DELAY, KEYED, &[("INTERVAL 10 MINUTES", "INTERVAL 1 HOUR")], Accepted),
    setting("number of state partitions", &[("state.partitions", "5")], Accepted),
    setting("number of state partitions", &[("spark.sql.shuffle.partitions", "1")], Accepted),
    case(FILTERS, KEYED, &[("GROUP BY", "WHERE v > 0 GROUP BY")], Accepted),
    case(FILTERS, KEYED, &[("1, 2", "1, 2 HAVING count(*) > 1")], Accepted),
    case(FILTERS, KEYED, &[("count(*) AS", "count(*) + 1 AS")], Accepted),
    case(
        FILTERS,
        KEYED,
        &[
            ("window(at, '5 minutes') AS w, page, count", "count"),
            ("GROUP BY 1, 2", "GROUP BY window(at, '5 minutes'), page"),
        ],
        Accepted,
    ),
    case(FILTERS, KEYED, &[("user string, ", "")], Accepted),
    case(FILTERS, PLAIN, &[("SELECT page", "SELECT v * 2 AS twice, upper(page)")], Accepted),
    case(
        "options of the sink",
        DELTA,
        &[("'checkpointLocation'", "'mergeSchema' = 'true', 'checkpointLocation'")],
        Accepted,
    ),
    case(SINK, DELTA, &[("TABLE t", "TABLE u"), ("'out'", "'elsewhere'")], Accepted),
    case(SINK, DELTA, &[("delta LOCATION 'out'", "noop")], Accepted),
    case(KEY_NAME, KEYED, &[("page, count", "page AS p, count")], Accepted),
    case(KEY_NAME, KEYED, &[("AS w", "AS slot")], Accepted),
    case(RESULT_NAME, KEYED, &[("AS views", "AS clicks")], Accepted),
    case(RESULT_NAME, KEYED, &[("min(v) AS x", "min(v)")], Accepted),
    case(RESULT_NAME, PLAIN, &[("SELECT page", "SELECT page AS p")], Accepted),
    case("the state backend under another of its names", KEYED, &[], Accepted),
    Case {
        row: "the state backend under another of its names",
        query: KEYED,
        edits: &[],
        settings: &[(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
        )],
        verdict: Accepted,
    },
    case(
        SOURCES,
        PLAIN,
        &[(
            "SELECT page",
            "SELECT page FROM STREAM read_files('in2', format => 'json', schema => 'page string') \
             UNION ALL SELECT page",
        )],
        Refused(SOURCES_CHANGED, &["added: source-1", "source-0"]),
    ),
    case(
        SOURCES,
        PLAIN,
        &[("'json'", "'csv'")],
        Refused(SOURCES_CHANGED, &["source-0", "json", "csv"]),
    ),
    case(
        SOURCES,
        RATE,
        &[(
            "value FROM STREAM rate_micro_batch(rowsPerBatch => 10, numPartitions => 2)",
            "page FROM STREAM read_files('in', format => 'json', schema => 'page string')",
        )],
        Refused(SOURCES_CHANGED, &["\"rate-micro-batch\"", "source-0"]),
    ),
    case(
        "the folder of a source",
        PLAIN,
        &[("'in'", "'in2'")],
        Refused(SOURCES_CHANGED, &["source-0", "/in]", "/in2]"]),
    ),
    case(RANGE, JOINED, &[("INTERVAL 5 MINUTES", "INTERVAL 1 HOUR")], Accepted),
    case(RANGE, JOINED, &[("5 MINUTES", "5 MINUTES AND a.user <> b.page")], Accepted),
    case(JOIN, JOINED, &[("JOIN", "LEFT JOIN")], Refused(CONFIG, &["inner", "left outer"])),
    case(
        JOIN,
        JOINED,
        &[(" AND b.at BETWEEN a.at AND a.at + INTERVAL 5 MINUTES", "")],
        Refused(CONFIG, &["by the time of at", "for ever"]),
    ),
    case(
        JOIN,
        JOINED,
        &[("a.page = b.page", "a.user = b.page")],
        Refused(CONFIG, &["page = page", "user = page"]),
    ),
    case(STORED, JOINED, &[("b.v FROM", "a.v FROM")], Refused(VALUE_SCHEMA, &["left.v"])),
    case(MODE, KEYED, &[("'update'", "'append'")], Refused(CONFIG, &["was update and is append"])),
    case(
        MODE,
        KEYED,
        &[("'update'", "'complete'")],
        Refused(CONFIG, &["was update and is complete"]),
    ),
    case(
        MODE,
        PLAIN,
        &[("'append'", "'update'")],
        Refused("OUTPUT_MODE_CHANGED", &["was append and is update"]),
    ),
    case(
        OPERATORS,
        PLAIN,
        &[("'page string, v double')", "'page string, v double') LIMIT 10")],
        Refused(OPERATOR, &["added: limit"]),
    ),
    case(
        OPERATORS,
        KEYED,
        &[
            ("window(at, '5 minutes') AS w, page, count(*) AS views, min(v) AS x", "page"),
            (" GROUP BY 1, 2", ""),
        ],
        Refused(OPERATOR, &["gone: aggregate"]),
    ),
    case(
        KEYS,
        KEYED,
        &[("page, count", "page, user, count"), ("1, 2", "1, 2, 3")],
        Refused(KEY_SCHEMA, &["operator aggregate", "user", "added"]),
    ),
    case(
        KEYS,
        KEYED,
        &[("page, count", "count"), ("1, 2", "1")],
        Refused(KEY_SCHEMA, &["page", "removed"]),
    ),
    case(KEYS, KEYED, &[("1, 2", "2, 1")], Refused(KEY_SCHEMA, &["page", "reordered"])),
    case(
        KEYS,
        KEYED,
        &[("page, count", "length(page), count")],
        Refused(KEY_SCHEMA, &["page", "type"]),
    ),
    case(
        AGGREGATES,
        KEYED,
        &[("min(v) AS x", "min(v) AS x, sum(v) AS total")],
        Refused(VALUE_SCHEMA, &["sum(", "added"]),
    ),
    case(AGGREGATES, KEYED, &[(", min(v) AS x", "")], Refused(VALUE_SCHEMA, &["min(", "removed"])),
    case(
        AGGREGATES,
        KEYED,
        &[("min(v) AS x", "max(v) AS x")],
        Refused(VALUE_SCHEMA, &["min(", "max("]),
    ),
    case(
        AGGREGATES,
        KEYED,
        &[("min(v) AS x", "min(-v) AS x")],
        Refused(VALUE_SCHEMA, &["min(", "not the same"]),
    ),
    case(
        AGGREGATES,
        KEYED,
        &[("min(v) AS x", "min(user) AS x")],
        Refused(VALUE_SCHEMA, &["Float64", "Utf8"]),
    ),
    case(
        AGGREGATES,
        KEYED,
        &[("count(*) AS views, min(v) AS x", "min(v) AS x, count(*) AS views")],
        Refused(VALUE_SCHEMA, &["reordered"]),
    ),
    case(
        WINDOW,
        KEYED,
        &[("'5 minutes'", "'10 minutes'")],
        Refused(CONFIG, &["window", "was", "and is"]),
    ),
    case(
        WINDOW,
        KEYED,
        &[("'5 minutes'", "'5 minutes', '1 minute'")],
        Refused(CONFIG, &["window", "was", "and is"]),
    ),
    case(
        WINDOW,
        KEYED,
        &[("'5 minutes'", "'5 minutes', '5 minutes', '1 minute'")],
        Refused(CONFIG, &["window", "was", "and is"]),
    ),
    setting(
        "watermark policy and scope, number of key groups",
        &[("watermark.policy", "max")],
        Ignored("the watermark policy"),
    ),
];
