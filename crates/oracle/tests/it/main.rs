//! Every recorded case that is in scope agrees with what Spark did.

#![allow(clippy::unwrap_used)]

mod refusals;

use fluvial_oracle::{Case, Options, Scope, Verdict, scope_of, verdict_of};
use futures::StreamExt;
use std::path::{Path, PathBuf};

/// Cases that run side by side.
const TOGETHER: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn recorded_cases_agree() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cases");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let options = Options::default();
    let verdicts = futures::stream::iter(paths)
        .map(|path| {
            let options = options.clone();
            async move {
                let case = Case::load(&path).unwrap();
                match scope_of(&case) {
                    Scope::In => {
                        Some((case.name.clone(), verdict_of(&case, &path, &options).await))
                    }
                    Scope::Later(_) => None,
                }
            }
        })
        .buffer_unordered(TOGETHER)
        .filter_map(|verdict| async { verdict })
        .collect::<Vec<_>>()
        .await;
    assert!(verdicts.len() > 150, "only {} cases ran", verdicts.len());
    let differing: Vec<String> = verdicts
        .into_iter()
        .filter_map(|(name, verdict)| match verdict {
            Verdict::Differs(found) => Some(format!("{name}: {}", found.join("; "))),
            Verdict::Agrees | Verdict::AgreesBut(_) => None,
        })
        .collect();
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}
