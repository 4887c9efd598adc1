//! `OPTIMIZE`, `VACUUM` and `DESCRIBE HISTORY` in SQL.

use crate::delta_table::DeltaTable;
use crate::script::Executed;
use crate::session::Session;
use fluvial_core::Result;
use fluvial_datafusion::sql::{Maintain, Maintenance};
use fluvial_delta::VacuumMode;
use std::time::Duration;

/// Runs it.
pub(crate) async fn maintain(session: &Session, maintain: &Maintain) -> Result<Executed> {
    let table = DeltaTable::for_parts(session, maintain.table.parts()).await?;
    let name = &maintain.table;
    match maintain.work {
        Maintenance::Optimize => {
            let report = table.optimize().await?;
            Ok(Executed::Done(format!(
                "{name}: {} files became {}",
                report.files_removed, report.files_added
            )))
        }
        Maintenance::Vacuum { retain_hours, dry_run } => {
            let retain = retain_hours.map(|hours| Duration::from_secs(hours.saturating_mul(3600)));
            let mode = if dry_run { VacuumMode::DryRun } else { VacuumMode::Remove };
            let files = table.vacuum(retain, mode).await?;
            Ok(Executed::Done(match mode {
                VacuumMode::Remove => format!("{name}: {} files removed", files.len()),
                VacuumMode::DryRun => files.join("\n"),
            }))
        }
        Maintenance::History { limit } => {
            let limit = limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
            table.history(limit).await.map(Executed::Rows)
        }
    }
}
