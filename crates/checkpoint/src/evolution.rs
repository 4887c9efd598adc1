//! What may change about a query between two runs on one checkpoint.
//!
//! | change | |
//! |---|---|
//! | read limits, trigger, watermark delay, number of partitions, filters, sink options | accepted |
//! | order in which sources or operators are written down | accepted: they go by name |
//! | a grouping or deduplication key gets another name | accepted |
//! | a source added, removed, of another kind, or of another place | refused |
//! | output mode | refused |
//! | a stateful operator added, removed, or of another kind | refused |
//! | another key as event time, or none any more: it decides where the key stands in the state | refused |
//! | keys added, removed, reordered, or of another type | refused |
//! | aggregates or stored columns added, removed, reordered, renamed, or of another type | refused |
//! | variables of a processor (`transform_with_state`) added or no longer declared | accepted |
//! | a variable of another kind (a value, a list, a map) or with other columns | refused |
//! | settings that give stored rows their meaning (a window's size, the kind of a join, what makes its rows leave) | refused |
//! | a join's range of times and further condition | accepted: they apply to the rows that wait |
//! | format of stored rows, set of stores | refused |
//!
//! Stored names are compared because types alone do not tell `sum(v)` from `max(v)`, or two key
//! columns from the same two swapped. Offsets and state of a refused query would be read with
//! another meaning than they were written with: wrong results, not an error. A changed query
//! starts with a new checkpoint.

mod variables;

use fluvial_core::{Error, OperatorShape, QueryShape, Result, SourceShape, StateField, TimeColumn};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;

/// Compares the query of the newest plan with the one about to run.
///
/// # Errors
///
/// `Invalid` if they may not share a checkpoint. The message names every difference that counts;
/// the condition is that of the first.
pub fn compare(old: &QueryShape, new: &QueryShape) -> Result<()> {
    let mut differences = Differences::default();
    sources(&mut differences, &old.sources, &new.sources);
    if old.mode != new.mode {
        differences.add(
            if old.operators.is_empty() {
                "OUTPUT_MODE_CHANGED"
            } else {
                "STATE_STORE_INVALID_CONFIG_AFTER_RESTART"
            },
            format!("the output mode was {} and is {}", old.mode, new.mode),
        );
    }
    operators(&mut differences, old, new);
    differences.into_result()
}

/// What was found, in the order of finding.
#[derive(Debug, Default)]
struct Differences {
    condition: Option<&'static str>,
    found: Vec<String>,
}

impl Differences {
    fn add(&mut self, condition: &'static str, difference: String) {
        self.condition.get_or_insert(condition);
        self.found.push(difference);
    }

    fn into_result(self) -> Result<()> {
        let Some(condition) = self.condition else { return Ok(()) };
        Err(Error::invalid(format!(
            "the query does not fit its checkpoint: {}; restore the query as it was, or start \
             with a new checkpoint (read limits, the trigger, watermark delays, the number of \
             partitions and names of keys may change)",
            self.found.join("; ")
        ))
        .with_condition(condition))
    }
}

fn names<T: Display>(names: impl IntoIterator<Item = T>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| name.to_string()).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

/// Tells keys of two maps that only one has, if any.
fn one_sided<K: Ord + Display, V>(
    what: &str,
    old: &BTreeMap<K, V>,
    new: &BTreeMap<K, V>,
) -> Option<String> {
    let gone: Vec<&K> = old.keys().filter(|key| !new.contains_key(*key)).collect();
    let added: Vec<&K> = new.keys().filter(|key| !old.contains_key(*key)).collect();
    if gone.is_empty() && added.is_empty() {
        return None;
    }
    Some(format!(
        "the checkpoint has {what} [{}], the query has [{}] (gone: {}; added: {})",
        names(old.keys()),
        names(new.keys()),
        names(gone),
        names(added)
    ))
}

fn sources<K: Ord + Display>(
    differences: &mut Differences,
    old: &BTreeMap<K, SourceShape>,
    new: &BTreeMap<K, SourceShape>,
) {
    const CONDITION: &str = "SOURCES_CHANGED";
    if let Some(difference) = one_sided("sources", old, new) {
        differences.add(CONDITION, difference);
    }
    for (id, was) in old {
        let Some(is) = new.get(id).filter(|is| *is != was) else { continue };
        let mut difference = if is.kind != was.kind {
            format!("source {id} was of kind {:?} and is {:?}", was.kind, is.kind)
        } else {
            format!(
                "source {id} read from {} and now reads from {}",
                was.description, is.description
            )
        };
        if let Some((other, _)) = old.iter().find(|(other, shape)| *other != id && *shape == is) {
            difference.push_str(&format!(
                " (that was source {other}: name the sources if their order may change)"
            ));
        }
        differences.add(CONDITION, difference);
    }
}

fn operators(differences: &mut Differences, old: &QueryShape, new: &QueryShape) {
    if let Some(difference) = one_sided("stateful operators", &old.operators, &new.operators) {
        differences.add("STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA", difference);
    }
    for (id, was) in &old.operators {
        if let Some(is) = new.operators.get(id) {
            let mut inner = Differences::default();
            operator(&mut inner, was, is);
            let Some(condition) = inner.condition else { continue };
            differences.add(condition, format!("operator {id}: {}", inner.found.join(", ")));
        }
    }
}

fn operator(differences: &mut Differences, old: &OperatorShape, new: &OperatorShape) {
    const KEYS: &str = "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE";
    const VALUES: &str = "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE";
    const MEANING: &str = "STATE_STORE_INVALID_CONFIG_AFTER_RESTART";
    let (was, is) = (&old.schema, &new.schema);
    if was.kind != is.kind {
        // Nothing else can be compared.
        let difference = format!("it was a {} and is a {}", was.kind, is.kind);
        let condition = "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA";
        return differences.add(condition, difference);
    }
    if was.format != is.format {
        let difference = format!(
            "its stored rows have format {}, this version of Fluvial uses {}",
            was.format, is.format
        );
        differences.add(VALUES, difference);
    }
    if let Some(difference) = columns("key", &was.keys, &is.keys, Renaming::Accepted) {
        differences.add(KEYS, difference);
    }
    if variables::has_variables(&was.kind) {
        variables::compare(differences, &was.values, &is.values);
    } else if let Some(difference) = columns("value", &was.values, &is.values, Renaming::Refused) {
        differences.add(VALUES, difference);
    }
    if let (Some(old), Some(new)) = (&was.layout, &is.layout)
        && old.event_time != new.event_time
    {
        let shown = |time: Option<TimeColumn>, keys: &[StateField]| match time {
            Some(time) => keys.get(time.column).map_or("unknown", |key| &key.name).to_owned(),
            None => "none".to_owned(),
        };
        let (old, new) = (shown(old.event_time, &was.keys), shown(new.event_time, &is.keys));
        let difference = format!("the event time among its keys was {old} and is {new}");
        differences.add(KEYS, difference);
    }
    let settings: BTreeSet<&String> = was.meaning.keys().chain(is.meaning.keys()).collect();
    for name in settings {
        let (was, is) = (was.meaning.get(name), is.meaning.get(name));
        if was != is {
            let value =
                |value: Option<&String>| value.map_or("not set".into(), |v| format!("{v:?}"));
            let difference = format!("{name} was {} and is {}", value(was), value(is));
            differences.add(MEANING, difference);
        }
    }
    // The cause, if it has one that a user knows, stands above.
    if let (Some(old), Some(new)) = (&was.layout, &is.layout)
        && old.pages != new.pages
    {
        differences.add(VALUES, "the times by which its rows lie changed".to_owned());
    }
    if old.stores != new.stores {
        let difference =
            format!("it had the stores [{}] and has [{}]", names(&old.stores), names(&new.stores));
        differences.add(VALUES, difference);
    }
}

/// Whether columns of the same type may have another name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Renaming {
    Accepted,
    Refused,
}

fn columns(
    what: &str,
    old: &[StateField],
    new: &[StateField],
    renaming: Renaming,
) -> Option<String> {
    if old == new {
        return None;
    }
    let list = |fields: &[StateField]| {
        names(fields.iter().map(|field| format!("{} {}", field.name, field.data_type)))
    };
    let both = || format!("{what} columns were [{}] and are [{}]", list(old), list(new));
    if old.len() != new.len() {
        let verb = if old.len() < new.len() { "added" } else { "removed" };
        return Some(format!("{}: {verb}", both()));
    }
    let pairs = || old.iter().zip(new);
    let moved = pairs()
        .any(|(was, is)| was.name != is.name && old.iter().any(|field| field.name == is.name));
    if moved {
        // `a, b -> b, a` with equal types is no renaming.
        return Some(format!("{}: reordered", both()));
    }
    if let Some((was, is)) = pairs().find(|(was, is)| was.data_type != is.data_type) {
        return Some(format!(
            "{what} column {} was of type {} and is {} {}",
            was.name, was.data_type, is.name, is.data_type
        ));
    }
    match renaming {
        Renaming::Accepted => None,
        Renaming::Refused => Some(format!("{}: not the same", both())),
    }
}

#[cfg(test)]
mod tests;
