//! A checkpoint as text.

use super::read::{Batch, Next, Report};
use fluvial_core::{BatchId, Commit, Plan, Snapshot, StoreId, Watermarks};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Everything that people want to know, with the newest `shown` batches.
pub(super) fn text(report: &Report, shown: usize) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write_report(&mut out, report, shown);
    out
}

fn write_report(out: &mut String, report: &Report, shown: usize) -> std::fmt::Result {
    writeln!(out, "checkpoint {}", report.name)?;
    match &report.query {
        Some(query) => writeln!(out, "query {query}")?,
        None => writeln!(out, "query unknown")?,
    }
    let newest = report.batches.values().rev().find_map(|batch| batch.plan.as_ref());
    if let Some(plan) = newest {
        write_settings(out, plan)?;
    }
    let left_out = report.batches.len().saturating_sub(shown);
    if left_out > 0 {
        writeln!(out, "\n{left_out} older {} not shown", batches(left_out))?;
    }
    for (id, batch) in report.batches.iter().skip(left_out) {
        write_batch(out, *id, batch)?;
    }
    let commit = report.batches.values().rev().find_map(|batch| batch.commit.as_ref());
    if let Some(commit) = commit {
        write_state(out, commit)?;
    }
    if !report.damaged.is_empty() {
        writeln!(out, "\ndamaged")?;
        report.damaged.iter().try_for_each(|what| writeln!(out, "  {what}"))?;
    }
    let next = match &report.next {
        Next::Begin => "nothing has run yet".to_owned(),
        Next::Again(batch) => {
            format!("batch {batch} is planned, not committed: it will run again")
        }
        Next::Plan(batch) => format!("everything planned is committed: batch {batch} comes next"),
        Next::Refuse(why) => format!("the next run will refuse: {why}"),
    };
    writeln!(out, "\n{next}")
}

fn batches(count: usize) -> &'static str {
    if count == 1 { "batch" } else { "batches" }
}

fn write_settings(out: &mut String, plan: &Plan) -> std::fmt::Result {
    let settings = &plan.settings;
    let policy = format!("{:?}", settings.watermark_policy).to_lowercase();
    writeln!(
        out,
        "mode {}, watermark policy {policy}, {} state partitions, {} key groups",
        plan.shape.mode,
        plan.partitions,
        settings.key_groups.get()
    )?;
    for (id, source) in &plan.shape.sources {
        writeln!(out, "source {id} ({}) {}", source.kind, source.description)?;
    }
    Ok(())
}

fn write_batch(out: &mut String, id: BatchId, batch: &Batch) -> std::fmt::Result {
    let state = match (&batch.plan, &batch.commit) {
        (Some(plan), None) => format!("planned {}", plan.time),
        (None, Some(commit)) => format!("committed {}, its plan is gone", commit.committed_at),
        (Some(_), Some(commit)) => format!("committed {}", commit.committed_at),
        (None, None) => "damaged".to_owned(),
    };
    writeln!(out, "\nbatch {id}  {state}")?;
    let Some(plan) = &batch.plan else { return Ok(()) };
    for (source, range) in &plan.ranges {
        writeln!(out, "  {source}  {} -> {}", range.start, range.end)?;
    }
    if plan.ranges.is_empty() {
        writeln!(out, "  without data")?;
    }
    for (id, evict) in &plan.evict {
        let late = plan.late.get(id).copied().flatten();
        let shown = |what: &str, before: Option<fluvial_core::EventTime>| match before {
            None => format!("nothing {what} yet"),
            Some(time) => format!("{what} before {time}"),
        };
        writeln!(out, "  watermark {id}  {}, {}", shown("late", late), shown("closed", *evict))?;
    }
    Ok(())
}

fn write_state(out: &mut String, commit: &Commit) -> std::fmt::Result {
    write_watermarks(out, commit.batch, &commit.watermarks)?;
    let mut stores: BTreeMap<&StoreId, Vec<&Snapshot>> = BTreeMap::new();
    for snapshot in &commit.snapshots {
        stores.entry(&snapshot.id).or_default().push(snapshot);
    }
    for (id, mut snapshots) in stores {
        snapshots.sort_by_key(|snapshot| snapshot.groups.start);
        let rows: u64 = snapshots.iter().map(|snapshot| snapshot.rows).sum();
        writeln!(out, "\nstate {id} after batch {}: {}", commit.batch, counted(rows))?;
        for (partition, snapshot) in snapshots.iter().enumerate() {
            let (groups, rows) = (snapshot.groups, counted(snapshot.rows));
            writeln!(out, "  partition {partition}  key groups {groups}  {rows}")?;
        }
    }
    Ok(())
}

fn write_watermarks(out: &mut String, batch: BatchId, watermarks: &Watermarks) -> std::fmt::Result {
    for (id, watermark) in watermarks {
        match watermark {
            Some(time) => writeln!(out, "\nwatermark {id} after batch {batch}: {time}")?,
            None => writeln!(out, "\nwatermark {id} after batch {batch}: none yet")?,
        }
    }
    Ok(())
}

fn counted(rows: u64) -> String {
    format!("{rows} {}", if rows == 1 { "row" } else { "rows" })
}
