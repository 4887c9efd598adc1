//! `fluvial checkpoint show`.

pub(crate) mod read;
mod show;
#[cfg(test)]
mod tests;

use crate::args::Show;
use crate::exit::{Exit, UsageError};
use crate::output::print;
use anyhow::Context;
use fluvial::Storage;
use object_store::path::Path;
use std::collections::BTreeMap;

/// Shows one checkpoint, or each one in a folder of several.
pub(crate) async fn show(args: &Show) -> anyhow::Result<Exit> {
    let base = std::env::current_dir().context("cannot find the working folder")?;
    // Looking must not make a folder that is not there.
    let (store, _, folder) = Storage::new(base, BTreeMap::new()).look(&args.dir)?;
    let folder = Path::parse(folder.trim_matches('/'))
        .with_context(|| format!("{} cannot be a folder", args.dir))?;
    let roots = read::find(store.as_ref(), &folder).await?;
    if roots.is_empty() {
        return Err(UsageError::of(format!("there is no checkpoint in {}", args.dir)));
    }
    let (mut exit, mut text) = (Exit::Done, String::new());
    for (i, root) in roots.into_iter().enumerate() {
        let name = match root.prefix_match(&folder).and_then(|mut parts| parts.next()) {
            Some(inner) => format!("{}/{}", args.dir.trim_end_matches('/'), inner.as_ref()),
            None => args.dir.clone(),
        };
        let report = read::read(store.clone(), root, name).await?;
        if !report.is_sound() {
            exit = Exit::Failed;
        }
        if i > 0 {
            text.push('\n');
        }
        text.push_str(&show::text(&report, args.batches));
    }
    print(&text).map(|()| exit)
}
