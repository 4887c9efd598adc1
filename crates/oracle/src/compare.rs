//! Our outcome beside Spark's.

use crate::case::{Case, ExpectedBatch};
use crate::differences::{Difference, Field, deliberate};
use crate::run::{Batch, Outcome};
use serde_json::Value;

/// As progress shows it.
const EPOCH: &str = "1970-01-01T00:00:00.000Z";

/// What the comparison says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// All agrees.
    Agrees,
    /// All agrees but for deliberate differences, with their reasons.
    AgreesBut(String),
    /// What differs, at which batch.
    Differs(Vec<String>),
}

/// Compares an outcome with what was recorded.
pub fn judge(case: &Case, outcome: &Outcome) -> Verdict {
    let mut judge = Judge { case, allowed: deliberate(case), found: Vec::new(), used: Vec::new() };
    judge.whole(outcome);
    match (judge.found.is_empty(), judge.used.is_empty()) {
        (true, true) => Verdict::Agrees,
        (true, false) => Verdict::AgreesBut(judge.used.join("; ")),
        (false, _) => Verdict::Differs(judge.found),
    }
}

struct Judge<'c> {
    case: &'c Case,
    allowed: Vec<&'static Difference>,
    found: Vec<String>,
    /// The reasons of what differs on purpose.
    used: Vec<&'static str>,
}

impl Judge<'_> {
    /// Whether a difference in a field is deliberate; the reason is noted.
    fn allows(&mut self, field: Field) -> bool {
        let Some(difference) = self.allowed.iter().find(|d| d.field == field) else {
            return false;
        };
        if !self.used.contains(&difference.why) {
            self.used.push(difference.why);
        }
        true
    }

    fn whole(&mut self, outcome: &Outcome) {
        self.allows(Field::NullKeys);
        if let Some(step) = self.refused(outcome)
            && self.allows(Field::Refused)
        {
            self.batches(outcome, step);
            return;
        }
        self.errors(outcome);
        let found = self.found.len();
        self.batches(outcome, usize::MAX);
        let refused = outcome.errors.keys().next().copied();
        if let Some(step) = refused.filter(|step| *step > 0)
            && self.found.len() > found
            && self.case.expected.error.is_none()
            && self.allows(Field::AfterRefusal)
        {
            self.found.truncate(found);
            self.batches(outcome, step);
        }
        let deliberate = self.found.len() > found
            && (self.allows(Field::Rows)
                || (self.has_all_rows(outcome) && self.allows(Field::MoreRows)));
        if deliberate {
            self.found.truncate(found);
        }
        self.sink(outcome);
    }

    /// The restart that was refused where Spark went on.
    fn refused(&self, outcome: &Outcome) -> Option<usize> {
        let spark = |step: &usize| self.case.expected.step_errors.contains_key(&step.to_string());
        let first = outcome.errors.keys().find(|step| !spark(step))?;
        (*first > 0 && self.case.expected.error.is_none()).then_some(*first)
    }

    fn errors(&mut self, outcome: &Outcome) {
        if self.case.expected.error.is_some() {
            if outcome.errors.is_empty() && !self.allows(Field::Accepted) {
                self.found.push("should fail, and did not".into());
            }
            return;
        }
        let expected = &self.case.expected.step_errors;
        for (step, error) in &outcome.errors {
            if !expected.contains_key(&step.to_string()) {
                self.found.push(format!("step {step} failed: {error}"));
            }
        }
        for step in expected.keys() {
            if !step.parse().is_ok_and(|s: usize| outcome.errors.contains_key(&s)) {
                self.found.push(format!("step {step} should fail, and did not"));
            }
        }
    }

    /// Compares the batches of the steps before `until`.
    fn batches(&mut self, outcome: &Outcome, until: usize) {
        if self.case.expected.error.is_some() && outcome.errors.is_empty() {
            return;
        }
        let expected = &self.case.expected.batches;
        for want in expected.iter().filter(|want| want.step < until) {
            let same = |b: &&Batch| b.step == want.step && b.id == want.batch_id;
            match outcome.batches.iter().find(same) {
                Some(have) => self.batch(want, have),
                // Where Spark fails while it runs we refuse at once.
                None if self.case.expected.error.is_some() => {}
                None => {
                    let (id, step) = (want.batch_id, want.step);
                    self.found.push(format!("batch {id} (step {step}) is missing"));
                }
            }
        }
        for have in outcome.batches.iter().filter(|have| have.step < until) {
            let known = |w: &ExpectedBatch| w.step == have.step && w.batch_id == have.id;
            if !expected.iter().any(known) {
                let (id, step) = (have.id, have.step);
                self.found.push(format!("batch {id} (step {step}) is too many"));
            }
        }
    }

    fn batch(&mut self, want: &ExpectedBatch, have: &Batch) {
        let at = format!("batch {}", want.batch_id);
        if let Some(rows) = &want.rows
            && !same_rows(rows, &have.rows, self.case.ordered)
            && !(has_sets(self.case)
                && same_rows(&sorted(rows), &sorted(&have.rows), self.case.ordered))
        {
            self.found.push(format!(
                "{at}: rows are {}, should be {}",
                Value::Array(have.rows.clone()),
                Value::Array(rows.clone())
            ));
        }
        let Some(progress) = &have.progress else {
            self.found.push(format!("{at}: no progress"));
            return;
        };
        if let Some(rows) = want.num_input_rows {
            let read = progress["numInputRows"].as_u64().unwrap_or(0);
            if read != rows && !(read > rows && self.allows(Field::InputRows)) {
                self.found.push(format!("{at}: numInputRows is {read}, should be {rows}"));
            }
        }
        if let Some(watermark) = want.event_time.get("watermark")
            && progress["eventTime"]["watermark"].as_str() != Some(watermark)
        {
            let have = &progress["eventTime"]["watermark"];
            // Spark's watermark begins at the epoch; ours may be before it.
            let before_epoch = have.as_str().is_some_and(|have| have < EPOCH);
            if !(before_epoch && watermark == EPOCH) {
                self.found.push(format!("{at}: watermark is {have}, should be {watermark}"));
            }
        }
        self.state(&at, want, progress);
    }

    fn state(&mut self, at: &str, want: &ExpectedBatch, progress: &Value) {
        let none = Vec::new();
        let have = progress["stateOperators"].as_array().unwrap_or(&none);
        if have.len() != want.state_operators.len() {
            let (have, want) = (have.len(), want.state_operators.len());
            self.found.push(format!("{at}: {have} stateful operators, should be {want}"));
            return;
        }
        for (i, (want, have)) in want.state_operators.iter().zip(have).enumerate() {
            for name in ["numRowsTotal", "numRowsUpdated", "numRowsRemoved"] {
                let (want, have) = (&want[name], &have[name]);
                let number = |value: &Value| value.as_u64().unwrap_or(0);
                let (w, h) = (number(want), number(have));
                let differs = want != have && !(w == 2 * h && self.allows(Field::Doubled));
                if differs {
                    self.found
                        .push(format!("{at}: operator {i}: {name} is {have}, should be {want}"));
                }
            }
            // Ours counts rows of the input, Spark's rows after partial aggregation.
            let dropped = |v: &Value| v["numRowsDroppedByWatermark"].as_u64().unwrap_or(0);
            let (want, have) = (dropped(want), dropped(have));
            if have < want {
                self.found.push(format!(
                    "{at}: operator {i}: {have} rows dropped, should be {want} or more"
                ));
            }
        }
    }

    /// Whether every row that came out of Spark, in whatever batch, came out here too.
    fn has_all_rows(&self, outcome: &Outcome) -> bool {
        let mut have: Vec<&Value> = outcome.batches.iter().flat_map(|b| &b.rows).collect();
        let want = self.case.expected.batches.iter().flat_map(|b| b.rows.iter().flatten());
        outcome.errors.is_empty() && take_all(&mut have, want)
    }

    fn sink(&mut self, outcome: &Outcome) {
        for want in &self.case.expected.sink {
            let Some((_, rows, dirs)) = outcome.sink.iter().find(|(step, ..)| *step == want.step)
            else {
                self.found.push(format!("step {}: the sink was not read", want.step));
                continue;
            };
            if let Some(expected) = &want.rows
                && !same_rows(expected, rows, false)
            {
                self.found.push(format!(
                    "step {}: the sink holds {}, should hold {}",
                    want.step,
                    Value::Array(rows.clone()),
                    Value::Array(expected.clone())
                ));
            }
            // For a batch without rows Spark writes a file without rows, too.
            let without_rows = rows.is_empty() && dirs.is_empty() && want.dirs == ["."];
            if dirs != &want.dirs && !without_rows {
                self.found.push(format!(
                    "step {}: folders are {dirs:?}, should be {:?}",
                    want.step, want.dirs
                ));
            }
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
    take_all(&mut have.iter().collect(), want)
}

/// Whether arrays of a case come from sets, whose order means nothing.
fn has_sets(case: &Case) -> bool {
    let text = case.plan.to_string();
    text.contains("collect_set") && !text.contains("sort_array")
}

/// The values with the items of every array in order.
fn sorted(values: &[Value]) -> Vec<Value> {
    values.iter().map(ordered).collect()
}

fn ordered(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items = sorted(items);
            items.sort_by_key(Value::to_string);
            Value::Array(items)
        }
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), ordered(value))).collect()
        }
        other => other.clone(),
    }
}

/// Takes one of ours for each row that is wanted. These are small multisets.
fn take_all<'v>(have: &mut Vec<&'v Value>, want: impl IntoIterator<Item = &'v Value>) -> bool {
    want.into_iter().all(|w| match have.iter().position(|h| same(w, h)) {
        Some(at) => {
            have.swap_remove(at);
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
