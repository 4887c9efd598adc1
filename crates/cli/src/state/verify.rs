//! `fluvial state verify`: reads and checks every byte that a checkpoint references.

use crate::args::VerifyState;
use crate::checkpoint::read::{self, Report};
use crate::exit::{Exit, UsageError};
use crate::output::print;
use anyhow::Context;
use fluvial::{Session, Storage};
use fluvial_core::{Damage, Snapshot, Verification};
use object_store::path::Path;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Verifies one checkpoint, or each one in a folder of several.
pub(crate) async fn verify(args: &VerifyState) -> anyhow::Result<Exit> {
    let session = super::session(&args.settings)?;
    let base = std::env::current_dir().context("cannot find the working folder")?;
    let (store, _, folder) = Storage::new(base, BTreeMap::new()).look(&args.checkpoint)?;
    let folder = Path::parse(folder.trim_matches('/'))
        .with_context(|| format!("{} cannot be a folder", args.checkpoint))?;
    let roots = read::find(store.as_ref(), &folder).await?;
    if roots.is_empty() {
        return Err(UsageError::of(format!("there is no checkpoint in {}", args.checkpoint)));
    }
    let mut exit = Exit::Done;
    for root in roots {
        let name = match root.prefix_match(&folder).and_then(|mut parts| parts.next()) {
            Some(inner) => {
                format!("{}/{}", args.checkpoint.trim_end_matches('/'), inner.as_ref())
            }
            None => args.checkpoint.clone(),
        };
        let report = read::read(store.clone(), root, name).await?;
        let told = Told::default();
        state(&session, &report, &told).await?;
        let text = told.into_text(&report, &mut exit);
        print(&text)?;
    }
    Ok(exit)
}

/// Checks the state of every commit that is there.
async fn state(session: &Session, report: &Report, told: &Told) -> anyhow::Result<()> {
    let snapshots: Vec<Snapshot> = report
        .batches
        .values()
        .filter_map(|batch| batch.commit.as_ref())
        .flat_map(|commit| commit.snapshots.clone())
        .collect();
    let plan = report.batches.values().rev().find_map(|batch| batch.plan.as_ref());
    let Some(plan) = plan.filter(|_| !snapshots.is_empty()) else { return Ok(()) };
    let format = &plan.settings.state_format;
    session.verify_state(&report.name, format, &snapshots, told).await?;
    Ok(())
}

/// Bytes between two lines of progress that go to a file.
const LINE_BYTES: u64 = 1 << 30;
/// Bytes between two changes of the line on a terminal.
const STEP_BYTES: u64 = 8 << 20;

/// What was read and found.
#[derive(Default)]
struct Told {
    bytes: AtomicU64,
    damage: Mutex<Vec<Damage>>,
}

impl Told {
    fn into_text(self, report: &Report, exit: &mut Exit) -> String {
        let damage = self.damage.into_inner().unwrap_or_else(PoisonError::into_inner);
        let bytes = self.bytes.into_inner();
        let plans = report.batches.values().filter(|batch| batch.plan.is_some()).count();
        let commits = report.batches.values().filter(|batch| batch.commit.is_some()).count();
        let mut lines = vec![
            format!("checkpoint {}", report.name),
            format!("checked {plans} plans, {commits} commits and {bytes} bytes of state"),
        ];
        let state = damage.iter().map(|what| report.named(&what.to_string()));
        let found: Vec<String> = report.damaged.iter().cloned().chain(state).collect();
        if found.is_empty() {
            lines.push("everything is whole".to_owned());
        } else {
            *exit = Exit::Failed;
            lines.push("damaged".to_owned());
            lines.extend(found.iter().map(|what| format!("  {what}")));
        }
        lines.join("\n") + "\n"
    }
}

impl Verification for Told {
    fn checked(&self, bytes: u64) {
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let after = before + bytes;
        let mut out = std::io::stderr();
        let terminal = out.is_terminal();
        let step = if terminal { STEP_BYTES } else { LINE_BYTES };
        if before / step != after / step {
            let end = if terminal { "\r" } else { "\n" };
            // Nobody may be reading.
            let _ = write!(out, "{} MiB of state checked{end}", after >> 20);
            let _ = out.flush();
        }
    }

    fn damaged(&self, damage: Damage) {
        self.damage.lock().unwrap_or_else(PoisonError::into_inner).push(damage);
    }
}
