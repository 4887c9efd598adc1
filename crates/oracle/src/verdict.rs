//! One case from its file to its verdict.

use crate::case::Case;
use crate::compare::{Verdict, judge};
use crate::run::{Options, run};
use std::path::Path;

/// Runs a case. After a restart Spark has forgotten the watermarks of single inputs and we have
/// not: where there are several, what one long-running query did is right too.
pub async fn verdict_of(case: &Case, path: &Path, options: &Options) -> Verdict {
    let outcome = match run(case, options).await {
        Ok(outcome) => outcome,
        Err(_) if case.expected.error.is_some() => return Verdict::Agrees,
        Err(error) => return Verdict::Differs(vec![format!("{error:#}")]),
    };
    let verdict = judge(case, &outcome);
    let continuous = path.with_file_name(format!("{}__cont.json", case.name));
    if matches!(verdict, Verdict::Differs(_))
        && case.sources.len() > 1
        && let Ok(sibling) = Case::load(&continuous)
        && !matches!(judge(&sibling, &outcome), Verdict::Differs(_))
    {
        return Verdict::AgreesBut(
            "the watermark of every input survives a restart, and rows are counted as read".into(),
        );
    }
    verdict
}

/// What the query of a case that Spark refuses, or fails, says here: the first error.
pub async fn error_of(case: &Case, options: &Options) -> Option<String> {
    match run(case, options).await {
        Ok(outcome) => outcome.errors.into_values().next(),
        Err(error) => Some(format!("{error:#}")),
    }
}
