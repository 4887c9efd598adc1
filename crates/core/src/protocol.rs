//! The recovery decision, without I/O.
//!
//! Storage code reads the logs and passes what it saw to [`resume`]; the answer is a value.

use crate::error::{Error, Result};
use crate::ids::BatchId;
use crate::log::{Commit, Plan};

/// Where a query stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resume {
    /// Nothing was ever planned.
    Fresh,
    /// `plan` is durable but not committed: run it again on top of `base`.
    Rerun {
        /// The uncommitted plan.
        plan: Box<Plan>,
        /// The commit of the batch before; `None` for batch 0.
        base: Option<Commit>,
    },
    /// Everything planned is committed.
    Next {
        /// The last plan, for source positions and settings.
        plan: Box<Plan>,
        /// Its commit.
        commit: Commit,
    },
}

/// Decides how to go on from the newest plan and the newest commit.
///
/// Level means the next batch; a plan one ahead means to run exactly that plan again.
///
/// # Errors
///
/// `Corrupt` for every other pair, naming both: it is never guessed what is missing.
pub fn resume(plan: Option<Plan>, commit: Option<Commit>) -> Result<Resume> {
    let newest = |batch: Option<BatchId>| batch.map_or("none".into(), |b| b.to_string());
    let (planned, committed) = (plan.as_ref().map(|p| p.batch), commit.as_ref().map(|c| c.batch));
    let torn = |why: &str| {
        Err(Error::corrupt(format!(
            "the checkpoint's logs do not fit together: newest plan {}, newest commit {}: {why}; \
             restore the missing entries of offsets/ and commits/, or start with a new checkpoint",
            newest(planned),
            newest(committed)
        ))
        .with_condition("CHECKPOINT_LOGS_INCONSISTENT"))
    };
    match (plan, commit) {
        (None, None) => Ok(Resume::Fresh),
        (None, Some(_)) => torn("a commit without a plan"),
        (Some(plan), None) if plan.batch == BatchId::FIRST => {
            Ok(Resume::Rerun { plan: Box::new(plan), base: None })
        }
        (Some(_), None) => torn("plans of later batches but no commit at all"),
        (Some(plan), Some(commit)) if plan.batch == commit.batch => {
            Ok(Resume::Next { plan: Box::new(plan), commit })
        }
        (Some(plan), Some(commit)) if plan.batch == commit.batch.next() => {
            Ok(Resume::Rerun { plan: Box::new(plan), base: Some(commit) })
        }
        (Some(plan), Some(commit)) if plan.batch < commit.batch => {
            torn("a commit ahead of its plan")
        }
        (Some(_), Some(_)) => torn("a plan more than one batch ahead"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{commit, plan};

    /// Exhaustive over the small world: every reachable pair goes on, every other is an error.
    #[test]
    fn all_pairs() {
        let numbers = || [None, Some(0), Some(1), Some(2), Some(3)];
        for p in numbers() {
            for c in numbers() {
                let reachable = match (p, c) {
                    (None, None) | (Some(0), None) => true,
                    (Some(p), Some(c)) => p == c || p == c + 1,
                    _ => false,
                };
                let answer = resume(p.map(plan), c.map(commit));
                assert_eq!(answer.is_ok(), reachable, "{p:?} {c:?}");
                if let Err(error) = answer {
                    assert_eq!(error.condition(), Some("CHECKPOINT_LOGS_INCONSISTENT"));
                }
            }
        }
    }
}
