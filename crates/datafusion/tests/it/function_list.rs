//! `docs/functions.md` says of every function of Spark 4.1 whether it is here, and it is true.

use datafusion::execution::FunctionRegistry;
use fluvial_datafusion::dialect::session_state_builder;
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../../docs/functions.md");

/// Functions that are syntax: no registry has them.
const SYNTAX: &[&str] = &[
    "and",
    "any",
    "between",
    "bigint",
    "binary",
    "boolean",
    "case",
    "cast",
    "dateadd",
    "decimal",
    "double",
    "equal_null",
    "explode",
    "explode_outer",
    "extract",
    "float",
    "if",
    "ifnull",
    "in",
    "inline",
    "inline_outer",
    "int",
    "map",
    "not",
    "nullif",
    "nullifzero",
    "nvl",
    "nvl2",
    "or",
    "posexplode",
    "posexplode_outer",
    "smallint",
    "some",
    "stack",
    "string",
    "struct",
    "tinyint",
    "typeof",
    "when",
    "zeroifnull",
    "date",
    "timestamp",
    "div",
    "grouping",
    "grouping_id",
    "overlay",
    "substr",
    "substring",
    "trim",
    "position",
];

#[test]
fn the_page_is_true() {
    let state = session_state_builder().build();
    let mut here: BTreeSet<String> = state.udfs().into_iter().collect();
    here.extend(state.udafs());
    here.extend(state.udwfs());
    here.extend(state.higher_order_function_names());
    here.extend(SYNTAX.iter().map(|name| (*name).to_owned()));
    let mut wrong = Vec::new();
    let mut rows = 0;
    for line in PAGE.lines() {
        let Some(row) = line.strip_prefix("| `") else { continue };
        let Some((name, rest)) = row.split_once("` | ") else { continue };
        rows += 1;
        let says = !rest.starts_with("no");
        if says != here.contains(name) {
            wrong.push(format!("{name}: {}", if says { "is not here" } else { "is here" }));
        }
    }
    assert!(rows > 400, "{rows} rows");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
