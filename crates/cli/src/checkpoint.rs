//! `fluvial checkpoint show`.

mod read;
mod show;
#[cfg(test)]
mod tests;

use crate::args::Show;
use crate::exit::{Exit, UsageError};
use anyhow::Context;
use fluvial::Storage;
use std::collections::BTreeMap;

/// Shows one checkpoint, or each one in a folder of several.
pub(crate) async fn show(args: &Show) -> anyhow::Result<Exit> {
    let base = std::env::current_dir().context("cannot find the working folder")?;
    let place = Storage::new(base, BTreeMap::new()).open(&args.dir)?;
    let roots = read::find(place.store.as_ref(), &place.path).await?;
    if roots.is_empty() {
        return Err(UsageError::of(format!("there is no checkpoint in {}", place.url)));
    }
    let mut exit = Exit::Done;
    for (i, root) in roots.into_iter().enumerate() {
        let name = match root.prefix_match(&place.path).and_then(|mut parts| parts.next()) {
            Some(folder) => format!("{}/{}", args.dir.trim_end_matches('/'), folder.as_ref()),
            None => args.dir.clone(),
        };
        let report = read::read(place.store.clone(), root, name).await?;
        if !report.damaged.is_empty() {
            exit = Exit::Failed;
        }
        let gap = if i == 0 { "" } else { "\n" };
        print!("{gap}{}", show::text(&report, args.batches));
    }
    Ok(exit)
}
