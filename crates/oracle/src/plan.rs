//! What the plan of a case looks like.

use crate::case::Case;
use serde_json::Value;

/// A node of a plan and all below it.
pub(crate) fn nodes(plan: &Value) -> Vec<&Value> {
    let mut all = vec![plan];
    all.extend(children(plan).into_iter().flat_map(nodes));
    all
}

/// Every node of every plan that a case has in turn.
pub(crate) fn all_nodes(case: &Case) -> Vec<&Value> {
    plans(case).flat_map(nodes).collect()
}

/// The plans that a case has in turn.
pub(crate) fn plans(case: &Case) -> impl Iterator<Item = &Value> {
    std::iter::once(&case.plan).chain(case.steps.iter().filter_map(|step| step.plan.as_ref()))
}

/// The inputs of a node.
pub(crate) fn children(node: &Value) -> Vec<&Value> {
    let mut all: Vec<&Value> =
        ["input", "left", "right"].iter().filter_map(|key| node.get(*key)).collect();
    if let Some(inputs) = node["inputs"].as_object() {
        all.extend(inputs.values());
    }
    all
}

/// The operation of a node.
pub(crate) fn op(node: &Value) -> &str {
    node["op"].as_str().unwrap_or_default()
}

/// Whether a stream is read in a plan.
pub(crate) fn streams(plan: &Value) -> bool {
    nodes(plan).into_iter().any(|node| op(node) == "source")
}

/// The words of a query in SQL, in small letters; none for other nodes.
pub(crate) fn words(node: &Value) -> Vec<String> {
    let text = node["query"].as_str().unwrap_or_default().to_ascii_lowercase();
    let parts = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    parts.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}
