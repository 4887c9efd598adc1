//! What may change about the variables of a processor: they go by name, and are recorded as
//! `ValueState<n: Int64>`, kind in front.

use super::Differences;
use fluvial_core::StateField;

/// Kinds of operators whose stored columns are variables that a user declared.
const WITH_VARIABLES: &[&str] = &["transformWithStateExec", "flatMapGroupsWithState"];

pub(super) fn has_variables(kind: &str) -> bool {
    WITH_VARIABLES.contains(&kind)
}

/// Compares variables that both have. One that is new begins empty; one that is gone is not read.
pub(super) fn compare(differences: &mut Differences, old: &[StateField], new: &[StateField]) {
    for was in old {
        let Some(is) = new.iter().find(|is| is.name == was.name) else { continue };
        if kind(was) != kind(is) {
            differences.add(
                "STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE",
                format!("state variable {} was a {} and is a {}", was.name, kind(was), kind(is)),
            );
        } else if was.data_type != is.data_type {
            differences.add(
                "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE",
                format!(
                    "state variable {} was a {} and is a {}",
                    was.name, was.data_type, is.data_type
                ),
            );
        }
    }
}

fn kind(variable: &StateField) -> &str {
    variable.data_type.split('<').next().unwrap_or_default()
}
