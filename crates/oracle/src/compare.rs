//! Our outcome beside Spark's.

use crate::case::{Case, ExpectedBatch};
use crate::differences::{Field, deliberate};
use crate::run::{Batch, Outcome};
use serde_json::Value;

/// As progress shows it.
const EPOCH: &str = "1970-01-01T00:00:00.000Z";

/// What the comparison says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// All agrees.
    Agrees,
    /// All agrees but for a deliberate difference, with its reason.
    AgreesBut(&'static str),
    /// What differs, at which batch.
    Differs(Vec<String>),
}

/// Compares an outcome with what was recorded.
pub fn judge(case: &Case, outcome: &Outcome) -> Verdict {
    let mut found = Vec::new();
    let difference = deliberate(&case.name);
    if difference.is_some_and(|d| d.field == Field::Accepted) {
        found.extend(outcome.errors.values().map(|error| format!("failed: {error}")));
    } else if difference.is_some_and(|d| d.field == Field::Refused) {
        if outcome.errors.is_empty() {
            found.push("should be refused, and was not".into());
        }
    } else {
        errors(case, outcome, &mut found);
        if difference.is_none_or(|d| d.field != Field::Rows) {
            batches(case, outcome, &mut found);
        }
        sink(case, outcome, &mut found);
    }
    match (found.is_empty(), difference) {
        (true, Some(difference)) => Verdict::AgreesBut(difference.why),
        (true, None) => Verdict::Agrees,
        (false, _) => Verdict::Differs(found),
    }
}

fn errors(case: &Case, outcome: &Outcome, found: &mut Vec<String>) {
    if case.expected.error.is_some() {
        if outcome.errors.is_empty() {
            found.push("should fail, and did not".into());
        }
        return;
    }
    for (step, error) in &outcome.errors {
        if !case.expected.step_errors.contains_key(&step.to_string()) {
            found.push(format!("step {step} failed: {error}"));
        }
    }
    for step in case.expected.step_errors.keys() {
        if !step.parse().is_ok_and(|s: usize| outcome.errors.contains_key(&s)) {
            found.push(format!("step {step} should fail, and did not"));
        }
    }
}

fn batches(case: &Case, outcome: &Outcome, found: &mut Vec<String>) {
    let expected = &case.expected.batches;
    for want in expected {
        let have = outcome.batches.iter().find(|b| b.step == want.step && b.id == want.batch_id);
        match have {
            Some(have) => batch(case, want, have, found),
            None => found.push(format!("batch {} (step {}) is missing", want.batch_id, want.step)),
        }
    }
    for have in &outcome.batches {
        let known = |w: &ExpectedBatch| w.step == have.step && w.batch_id == have.id;
        if !expected.iter().any(known) {
            found.push(format!("batch {} (step {}) is too many", have.id, have.step));
        }
    }
}

fn batch(case: &Case, want: &ExpectedBatch, have: &Batch, found: &mut Vec<String>) {
    let at = format!("batch {}", want.batch_id);
    let field = deliberate(&case.name).map(|d| d.field);
    if let Some(rows) = &want.rows
        && !same_rows(rows, &have.rows, case.ordered)
    {
        found.push(format!(
            "{at}: rows are {}, should be {}",
            Value::Array(have.rows.clone()),
            Value::Array(rows.clone())
        ));
    }
    let Some(progress) = &have.progress else {
        found.push(format!("{at}: no progress"));
        return;
    };
    if let Some(rows) = want.num_input_rows {
        let read = progress["numInputRows"].as_u64().unwrap_or(0);
        let may_be_more = matches!(field, Some(Field::InputRows | Field::Doubled));
        if read != rows && !(may_be_more && read > rows) {
            found.push(format!("{at}: numInputRows is {read}, should be {rows}"));
        }
    }
    if let Some(watermark) = want.event_time.get("watermark")
        && progress["eventTime"]["watermark"].as_str() != Some(watermark)
    {
        let have = &progress["eventTime"]["watermark"];
        // Spark's watermark begins at the epoch; ours may be before it.
        let before_epoch = have.as_str().is_some_and(|have| have < EPOCH);
        if !(before_epoch && watermark == EPOCH) {
            found.push(format!("{at}: watermark is {have}, should be {watermark}"));
        }
    }
    state(&at, field, want, progress, found);
}

fn state(
    at: &str,
    field: Option<Field>,
    want: &ExpectedBatch,
    progress: &Value,
    found: &mut Vec<String>,
) {
    let none = Vec::new();
    let have = progress["stateOperators"].as_array().unwrap_or(&none);
    if have.len() != want.state_operators.len() {
        let (have, want) = (have.len(), want.state_operators.len());
        found.push(format!("{at}: {have} stateful operators, should be {want}"));
        return;
    }
    for (i, (want, have)) in want.state_operators.iter().zip(have).enumerate() {
        for name in ["numRowsTotal", "numRowsUpdated", "numRowsRemoved"] {
            let (want, have) = (&want[name], &have[name]);
            let number = |value: &Value| value.as_u64().unwrap_or(0);
            let doubled = field == Some(Field::Doubled) && number(want) == 2 * number(have);
            let fewer = field == Some(Field::StateRows) && number(want) < number(have);
            if want != have && !doubled && !fewer {
                found.push(format!("{at}: operator {i}: {name} is {have}, should be {want}"));
            }
        }
        // Ours counts rows of the input, Spark's rows after partial aggregation.
        let dropped = |v: &Value| v["numRowsDroppedByWatermark"].as_u64().unwrap_or(0);
        if dropped(have) < dropped(want) {
            let (want, have) = (dropped(want), dropped(have));
            found
                .push(format!("{at}: operator {i}: {have} rows dropped, should be {want} or more"));
        }
    }
}

fn sink(case: &Case, outcome: &Outcome, found: &mut Vec<String>) {
    for want in &case.expected.sink {
        let Some((_, rows, dirs)) = outcome.sink.iter().find(|(step, ..)| *step == want.step)
        else {
            found.push(format!("step {}: the sink was not read", want.step));
            continue;
        };
        if let Some(expected) = &want.rows
            && !same_rows(expected, rows, false)
        {
            found.push(format!(
                "step {}: the sink holds {}, should hold {}",
                want.step,
                Value::Array(rows.clone()),
                Value::Array(expected.clone())
            ));
        }
        if dirs != &want.dirs {
            found.push(format!(
                "step {}: folders are {dirs:?}, should be {:?}",
                want.step, want.dirs
            ));
        }
    }
}

fn same_rows(want: &[Value], have: &[Value], ordered: bool) -> bool {
    if want.len() != have.len() {
        return false;
    }
    if ordered {
        return want.iter().zip(have).all(|(w, h)| same(w, h));
    }
    // Small multisets: each wanted row takes one of ours.
    let mut left: Vec<&Value> = have.iter().collect();
    want.iter().all(|w| match left.iter().position(|h| same(w, h)) {
        Some(at) => {
            left.swap_remove(at);
            true
        }
        None => false,
    })
}

/// Equal, but for the last digits of floating-point numbers.
fn same(want: &Value, have: &Value) -> bool {
    match (want, have) {
        (Value::Number(w), Value::Number(h)) if w.is_f64() || h.is_f64() => {
            let (w, h) = (w.as_f64().unwrap_or(f64::NAN), h.as_f64().unwrap_or(f64::NAN));
            w == h || (w - h).abs() <= 1e-9 * w.abs().max(h.abs())
        }
        (Value::Array(w), Value::Array(h)) => {
            w.len() == h.len() && w.iter().zip(h).all(|(w, h)| same(w, h))
        }
        (Value::Object(w), Value::Object(h)) => {
            w.len() == h.len() && w.iter().all(|(key, w)| h.get(key).is_some_and(|h| same(w, h)))
        }
        _ => want == have,
    }
}
