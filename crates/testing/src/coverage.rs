//! What was tried.

use fluvial_sim::{Call, When};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// How much was explored, and where processes died.
#[derive(Debug, Clone, Default)]
pub struct Coverage {
    /// Schedules that ran.
    pub schedules: u64,
    /// Runs of the query in them.
    pub runs: u64,
    /// Calls to the store in them.
    pub steps: u64,
    /// Crashes by what the process was doing: `Create checkpoint/commits, after`.
    pub crashes: BTreeMap<String, u64>,
    /// Histories that differ in some call or in what was stored.
    distinct: BTreeSet<u64>,
}

impl Coverage {
    /// How many of the schedules had a history of their own.
    pub fn distinct(&self) -> usize {
        self.distinct.len()
    }

    pub(crate) fn crashed(&mut self, call: Option<&Call>, when: When) {
        let side = if when == When::Before { "before" } else { "after" };
        let kind = match call {
            Some(call) => format!("{:?} {}, {side}", call.op, kind_of(&call.path)),
            None => format!("nothing, {side}"),
        };
        *self.crashes.entry(kind).or_default() += 1;
    }

    pub(crate) fn history(&mut self, trace: u64) {
        self.distinct.insert(trace);
    }

    /// Adds what another one has seen.
    pub fn add(&mut self, other: &Self) {
        self.schedules += other.schedules;
        self.runs += other.runs;
        self.steps += other.steps;
        for (kind, count) in &other.crashes {
            *self.crashes.entry(kind.clone()).or_default() += count;
        }
        self.distinct.extend(&other.distinct);
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (distinct, crashes) = (self.distinct(), self.crashes.values().sum::<u64>());
        writeln!(
            f,
            "{} schedules ({distinct} distinct histories), {} runs, {} steps, {crashes} crashes:",
            self.schedules, self.runs, self.steps
        )?;
        for (kind, count) in &self.crashes {
            writeln!(f, "{count:>8}  {kind}")?;
        }
        Ok(())
    }
}

/// The folders of a path: what kind of object it is, whichever.
fn kind_of(path: &str) -> String {
    let folders: Vec<&str> = path.split('/').collect();
    let named = |part: &&&str| !part.contains(|c: char| c.is_ascii_digit());
    let kept: Vec<&str> = folders.iter().take(3).take_while(named).copied().collect();
    if kept.is_empty() { "root".into() } else { kept.join("/") }
}
