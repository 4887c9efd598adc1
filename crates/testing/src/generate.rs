//! Random valid queries over random schemas and inputs.

use crate::backend::Backend;
use crate::input::Input;
use crate::output::Output;
use crate::query::{Cut, Query};
use fluvial::OutputMode;
use fluvial_sim::Rng;
use std::fmt::Write;

/// The delay of every watermark, in seconds, and by how much a random event is older at most than
/// the newest before it: no row is late, so that batches may be cut in any way. Where rows are late
/// they are not.
const DELAY_S: u64 = 10;

/// A column of the random schema.
struct Column {
    name: String,
    kind: &'static str,
}

/// What the columns may be, and their aggregates.
const KINDS: &[&str] = &["int", "bigint", "double", "string", "boolean", "date", "decimal(9,2)"];

fn value(rng: &mut Rng, kind: &str) -> String {
    if rng.chance(15) {
        return "null".into();
    }
    let small = rng.below(6) as i64 - 2;
    match kind {
        "int" | "bigint" => small.to_string(),
        // Sums of these are exact, in whatever order.
        "double" => ["0.0", "-0.0", "1.5", "-2.25", "64.0", "0.125"][rng.index(6)].to_owned(),
        "string" => format!("\"{}\"", ["", "a", "b", "é", "a b"][rng.index(5)]),
        "boolean" => rng.chance(50).to_string(),
        "date" => format!("\"2026-0{}-11\"", 1 + rng.below(3)),
        _ => format!("{small}.25"),
    }
}

/// A random query and an input for it: on either backend, a fifth of them with late rows.
pub fn random_query(seed: u64) -> (Query, Input) {
    let mut rng = Rng::new(seed ^ 0x5eed_0f9e);
    let columns: Vec<Column> = (0..2 + rng.below(3))
        .map(|i| Column { name: format!("c{i}"), kind: KINDS[rng.index(KINDS.len())] })
        .collect();
    let late = rng.chance(20);
    let input = random_input(&mut rng, &columns, late);
    let query = random_plan(&mut rng, seed, &columns);
    let query = if late { query.cut(Cut::Fixed) } else { query };
    let backend = if rng.chance(50) { Backend::Lsm } else { Backend::Memory };
    (query.backend(backend), input)
}

fn random_input(rng: &mut Rng, columns: &[Column], late: bool) -> Input {
    let mut input = Input::new();
    let (waves, mut newest, mut number) = (1 + rng.below(3), 60, 0);
    for wave in 0..waves {
        if wave > 0 {
            input = input.then();
        }
        for _ in 0..1 + rng.below(3) {
            let mut text = String::new();
            for _ in 0..1 + rng.below(5) {
                newest += rng.below(8);
                let behind = if late && rng.chance(30) { 6 * DELAY_S } else { DELAY_S };
                let at_s = newest - rng.below(behind);
                row(rng, &mut text, columns, at_s);
            }
            input = input.file(format!("in/{number}.json"), text);
            number += 1;
        }
    }
    // Closes what is open.
    let mut end = String::new();
    row(rng, &mut end, columns, 3000);
    input.file(format!("in/{number}.json"), end)
}

fn row(rng: &mut Rng, text: &mut String, columns: &[Column], at_s: u64) {
    let (minute, second) = (at_s / 60, at_s % 60);
    // Writing into text cannot fail.
    let _ = write!(text, r#"{{"at":"2026-06-10T10:{minute:02}:{second:02}Z""#);
    for Column { name, kind } in columns {
        let _ = write!(text, r#","{name}":{}"#, value(rng, kind));
    }
    text.push_str("}\n");
}

fn random_plan(rng: &mut Rng, seed: u64, columns: &[Column]) -> Query {
    let schema: Vec<String> = columns.iter().map(|c| format!("{} {}", c.name, c.kind)).collect();
    let schema = schema.join(", ");
    let files = format!(
        "read_files('sim://world/in', format => 'json', maxFilesPerTrigger => {{limit}}, \
         schema => 'at timestamp, {schema}')"
    );
    let stream = format!("STREAM {files} WATERMARK at DELAY OF INTERVAL {DELAY_S} SECONDS");
    let key = &columns[rng.index(columns.len())].name;
    let aggregates = random_aggregates(rng, columns);
    let window = match rng.below(3) {
        0 => format!("window(at, '{} seconds')", 5 + rng.below(20)),
        1 => "window(at, '12 seconds', '4 seconds')".into(),
        _ => "window(at, '7 seconds', '7 seconds', '3 seconds')".into(),
    };
    let filter = match rng.below(3) {
        0 => format!(" WHERE {key} IS NOT NULL"),
        _ => String::new(),
    };
    let (kind, text) = match rng.below(8) {
        0 => ("projection", format!("SELECT *, {key} IS NULL AS empty FROM {stream}{filter}")),
        1 | 2 => (
            "windows",
            format!(
                "SELECT {window} AS w, {key}, {aggregates} FROM {stream}{filter} GROUP BY 1, 2"
            ),
        ),
        3 => (
            "sessions",
            format!(
                "SELECT session_window(at, '4 seconds') AS s, {key}, {aggregates} FROM \
                 {stream}{filter} GROUP BY 1, 2"
            ),
        ),
        4 => ("groups", format!("SELECT {key}, {aggregates} FROM {stream}{filter} GROUP BY {key}")),
        5 => (
            "union",
            format!(
                "SELECT {window} AS w, k, count(*) AS n FROM (SELECT at, {key} AS k FROM {stream} \
                 UNION ALL SELECT at, {key} AS k FROM {stream}{filter}) GROUP BY 1, 2"
            ),
        ),
        6 => (
            "chain",
            format!(
                "SELECT window(w, '30 seconds') AS wide, sum(n) AS n FROM (SELECT {window} AS w, \
                 {key}, count(*) AS n FROM {stream}{filter} GROUP BY 1, 2) GROUP BY 1"
            ),
        ),
        _ => {
            let outer = ["INNER", "LEFT"][rng.index(2)];
            let join = format!(
                "SELECT l.{key}, l.at, r.at AS other FROM {stream} AS l {outer} JOIN {stream} AS r \
                 ON l.{key} = r.{key} AND r.at BETWEEN l.at AND l.at + INTERVAL 5 SECONDS"
            );
            ("join", join)
        }
    };
    let query = Query::sql(format!("random-{kind}-{seed}"), text);
    match (kind, rng.below(4)) {
        ("groups", 0) => query.mode(OutputMode::Complete).output(Output::Table),
        ("groups", 1) => query.mode(OutputMode::Complete).output(Output::Delta),
        ("groups", 2) => query.mode(OutputMode::Update).output(Output::EachBatch),
        ("groups", _) => query.mode(OutputMode::Complete).output(Output::EachBatch),
        (_, 0) => query.output(Output::EachBatch),
        (_, 1) => query.output(Output::Delta),
        _ => query,
    }
}

/// One to three aggregates that do not depend on the order of rows.
fn random_aggregates(rng: &mut Rng, columns: &[Column]) -> String {
    let mut all = vec!["count(*) AS n".to_owned()];
    for number in 0..rng.below(3) {
        let Column { name, kind } = &columns[rng.index(columns.len())];
        let numeric = matches!(*kind, "int" | "bigint" | "double" | "decimal(9,2)");
        let function = match rng.below(if numeric { 5 } else { 3 }) {
            0 => format!("min({name})"),
            1 => format!("max({name})"),
            2 => format!("count({name})"),
            3 => format!("sum({name})"),
            _ => format!("avg({name})"),
        };
        all.push(format!("{function} AS a{number}"));
    }
    all.join(", ")
}
