//! Where Fluvial differs from Spark on purpose: one table of rules, a reason each. A rule looks at
//! what a case is, so it holds for cases that nobody has recorded yet; few are known by name.

use crate::case::Case;
use crate::plan::{all_nodes, children, nodes, op, plans, streams, words};
use serde_json::Value;
use std::collections::BTreeSet;

/// What may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    /// A restart is refused where Spark goes on: nothing after it is compared.
    Refused,
    /// Spark refuses the query and we run it: there is nothing to compare.
    Accepted,
    /// `numInputRows`: ours counts rows read, Spark's those that are left after filters and
    /// limits pushed into the reader, or those of a scan that it uses twice.
    InputRows,
    /// Spark ran the aggregation twice in a batch, and counts its state rows twice.
    Doubled,
    /// Rows, and all that follows from them.
    Rows,
    /// What comes after a restart that both refuse.
    AfterRefusal,
    /// Rows come out that Spark loses; all of Spark's come out too.
    MoreRows,
    /// The query is asked with `<=>` where Spark's has `=`.
    NullKeys,
}

/// A deliberate difference.
pub(crate) struct Difference {
    /// What differs.
    pub(crate) field: Field,
    /// Why, for whoever reads the output.
    pub(crate) why: &'static str,
    /// In which cases.
    applies: fn(&Case) -> bool,
}

/// All of them.
const DELIBERATE: &[Difference] = &[
    Difference {
        field: Field::InputRows,
        why: "rows are counted as read, before filters and limits",
        applies: filters_rows,
    },
    Difference {
        field: Field::InputRows,
        why: "a stream that is used twice is read twice, and its rows count twice",
        applies: reads_twice,
    },
    Difference {
        field: Field::Doubled,
        why: "Spark runs the aggregation twice to sample the ranges of its sort, and counts both",
        applies: sorts,
    },
    Difference {
        field: Field::Rows,
        why: "before the first event nothing is late, so windows before 1970 are kept",
        applies: before_1970,
    },
    Difference {
        field: Field::MoreRows,
        why: "Spark takes a comparison of a preserved side with a constant (lv > 1) for a bound of \
              times and never gives up a row of it; here it comes out with nulls",
        applies: compares_with_constant,
    },
    Difference {
        field: Field::MoreRows,
        why: "a row that must come out with nulls does, also where its side has no watermark of its \
              own: Spark keeps it for ever",
        applies: preserves_without_watermark,
    },
    Difference {
        field: Field::AfterRefusal,
        why: "a start that is refused plans nothing, so what arrived for it joins the next batch",
        applies: |case| !case.expected.step_errors.is_empty(),
    },
    Difference {
        field: Field::MoreRows,
        why: "Spark tries a filter on a session on each row before rows are merged, and loses them",
        applies: filters_sessions,
    },
    Difference {
        field: Field::MoreRows,
        why: "Spark ignores a plain file beside key=value folders: no row is lost here",
        applies: |case| case.name == "suite_file_plain_file_beside_partition_directories",
    },
    Difference {
        field: Field::NullKeys,
        why: "null equals nothing: Spark joins null to null in full outer joins of two streams, as \
              `<=>` does here",
        applies: joins_null_to_null,
    },
    Difference {
        field: Field::Accepted,
        why: "as Spark since 4.2: the pairs of an inner join are final, so append and update are one",
        applies: joins_in_update_mode,
    },
    Difference {
        field: Field::Refused,
        why: "another output mode, or other windows, on old state would give wrong results",
        applies: changes_meaning,
    },
];

/// The deliberate differences of a case.
pub(crate) fn deliberate(case: &Case) -> Vec<&'static Difference> {
    DELIBERATE.iter().filter(|difference| (difference.applies)(case)).collect()
}

fn filters_rows(case: &Case) -> bool {
    all_nodes(case).into_iter().any(|n| matches!(op(n), "filter" | "limit" | "join" | "sql"))
}

fn reads_twice(case: &Case) -> bool {
    plans(case).any(|plan| {
        let mut seen = BTreeSet::new();
        let mut sources = nodes(plan).into_iter().filter(|node| op(node) == "source");
        sources.any(|node| !seen.insert(node["id"].as_str()))
    })
}

fn sorts(case: &Case) -> bool {
    let ordered = |node| words(node).windows(2).any(|pair| pair == ["order", "by"]);
    case.output_mode == "complete"
        && all_nodes(case).into_iter().any(|node| op(node) == "sort" || ordered(node))
}

/// Every value that comes, at whatever column.
fn values(case: &Case) -> impl Iterator<Item = &Value> {
    let inputs = case.steps.iter().flat_map(|step| step.input.values().flatten());
    let files = case.steps.iter().flat_map(|step| step.files.values().flatten().flatten());
    inputs.chain(files).flat_map(|row| row.as_object().into_iter().flat_map(|row| row.values()))
}

fn before_1970(case: &Case) -> bool {
    values(case).filter_map(Value::as_str).any(|text| {
        let date = text.len() >= 20 && text.as_bytes()[4] == b'-' && text.ends_with('Z');
        date && text < "1970-01-01T00:00:00"
    })
}

fn joins_null_to_null(case: &Case) -> bool {
    let full = |node: &Value| node["how"].as_str().is_some_and(|how| how.starts_with("full"));
    values(case).any(Value::is_null)
        && all_nodes(case).into_iter().any(|node| joins_streams(node) && full(node))
}

fn joins_streams(node: &Value) -> bool {
    op(node) == "join" && streams(&node["left"]) && streams(&node["right"])
}

fn preserves_without_watermark(case: &Case) -> bool {
    let timed = |plan: &Value| nodes(plan).into_iter().any(|node| op(node) == "watermark");
    all_nodes(case).into_iter().filter(|node| joins_streams(node)).any(|node| {
        let how = node["how"].as_str().unwrap_or_default();
        let preserves = |side: &str| how.starts_with(side) || how.starts_with("full");
        ["left", "right"]
            .into_iter()
            .any(|side| how.contains("outer") && preserves(side) && !timed(&node[side]))
    })
}

fn compares_with_constant(case: &Case) -> bool {
    all_nodes(case).into_iter().filter(|node| joins_streams(node)).any(|node| {
        let outer = node["how"].as_str().is_some_and(|how| how.contains("outer"));
        let condition = node["on"].as_str().unwrap_or_default().to_ascii_lowercase();
        outer && condition.split(" and ").any(|part| part.split(['<', '>']).any(is_number))
    })
}

fn is_number(text: &str) -> bool {
    text.trim().trim_start_matches('=').trim().parse::<f64>().is_ok()
}

/// A filter above sessions that reads none of the aggregates.
fn filters_sessions(case: &Case) -> bool {
    all_nodes(case)
        .into_iter()
        .filter(|node| op(node) == "filter")
        .any(|node| reads_session(&node["input"], node["expr"].as_str().unwrap_or_default()))
}

fn reads_session(below: &Value, expr: &str) -> bool {
    let reads = |expr: &str, name: &str| {
        expr.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == name)
    };
    match op(below) {
        "select" => below["exprs"].as_array().into_iter().flatten().any(|pair| {
            let (inner, name) = (pair[0].as_str(), pair[1].as_str());
            reads(expr, name.unwrap_or_default())
                && reads_session(&below["input"], inner.unwrap_or_default())
        }),
        "aggregate" => below["group"].as_array().into_iter().flatten().any(|group| {
            group["fn"] == "session_window" && reads(expr, group["as"].as_str().unwrap_or_default())
        }),
        "filter" | "alias" => children(below).into_iter().any(|input| reads_session(input, expr)),
        _ => false,
    }
}

fn joins_in_update_mode(case: &Case) -> bool {
    case.output_mode == "update"
        && case.expected.error.is_some()
        && all_nodes(case).into_iter().any(|node| {
            joins_streams(node) && matches!(node["how"].as_str(), Some("inner" | "left_semi"))
        })
}

/// Whether a restart has another output mode, or another window.
fn changes_meaning(case: &Case) -> bool {
    let windows = |plan: &Value| -> Vec<Value> {
        let groups = nodes(plan).into_iter().filter_map(|node| node["group"].as_array());
        groups.flatten().filter(|group| group["size"].is_string()).cloned().collect()
    };
    let known = windows(&case.plan);
    case.steps.iter().any(|step| {
        step.output_mode.as_ref().is_some_and(|mode| *mode != case.output_mode)
            || step.plan.as_ref().is_some_and(|plan| windows(plan) != known)
    })
}
