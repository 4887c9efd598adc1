//! Which cases need operators that are still to come.

use crate::case::Case;
use crate::plan::{children, plans};
use crate::processors;
use serde_json::Value;

/// Whether a case can be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// It can.
    In,
    /// It needs something that is on the roadmap.
    Later(String),
}

/// Operations that are on the roadmap.
const LATER: &[&str] = &[];

/// Cases that need something on the roadmap that their plan does not show.
const LATER_CASES: &[(&str, &str)] = &[];

/// The scope of a case.
pub fn scope_of(case: &Case) -> Scope {
    if let Some((_, missing)) = LATER_CASES.iter().find(|(name, _)| *name == case.name) {
        return Scope::Later((*missing).to_owned());
    }
    for plan in plans(case) {
        if let Some(missing) = missing(plan) {
            return Scope::Later(missing);
        }
    }
    Scope::In
}

fn missing(node: &Value) -> Option<String> {
    let op = node["op"].as_str()?;
    if LATER.contains(&op) {
        return Some(op.to_owned());
    }
    if matches!(op, "transform_with_state" | "apply_in_pandas_with_state") {
        let name = node["processor"].as_str().unwrap_or_default();
        if !processors::is_known(name) {
            return Some(format!("the processor {name}, in Rust"));
        }
    }
    children(node).into_iter().find_map(missing)
}
