//! Comparing what came to an operator with what it says became of it.

use fluvial_core::{Error, OperatorCounts, OperatorId, PartitionId, Result, RowAccount};
use std::collections::BTreeMap;

/// Checks, in debug builds, that an operator accounts for every row that was pushed into it.
///
/// # Errors
///
/// `Invalid` (`ROWS_UNACCOUNTED_FOR`) if it does not: an error in the operator.
pub fn check_account(
    operator: &OperatorId,
    partition: PartitionId,
    pushed: u64,
    counts: &OperatorCounts,
) -> Result<()> {
    if !cfg!(debug_assertions) || counts.rows.total() == pushed {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "{pushed} rows came to operator {operator} on partition {partition}, and it accounts for \
         {}: {:?}; this is an error in the operator",
        counts.rows.total(),
        counts.rows
    ))
    .with_condition("ROWS_UNACCOUNTED_FOR"))
}

/// The account as custom metrics: what came, was kept and was emitted, and every reason for which
/// rows were dropped. Late rows have a field of their own in a progress.
pub(crate) fn metrics(rows_in: u64, rows: &RowAccount) -> BTreeMap<String, i64> {
    let [_late, reasons @ ..] = rows.dropped();
    let reasons = reasons.into_iter().filter(|(_, rows)| *rows > 0);
    let came =
        [("numInputRows", rows_in), ("numKeptRows", rows.kept), ("numEmittedRows", rows.emitted)];
    let all = came.into_iter().chain(reasons);
    all.map(|(name, rows)| (name.to_owned(), i64::try_from(rows).unwrap_or(i64::MAX))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_add_up_is_an_error() {
        let (id, partition) = (OperatorId::new("op").unwrap(), PartitionId(3));
        let rows = RowAccount { kept: 2, late: 1, ..RowAccount::default() };
        let counts = OperatorCounts { rows, ..OperatorCounts::default() };
        check_account(&id, partition, 3, &counts).unwrap();
        let error = check_account(&id, partition, 4, &counts).unwrap_err();
        assert_eq!(error.condition(), Some("ROWS_UNACCOUNTED_FOR"));
        assert!(error.message().contains("operator op on partition 3"), "{error}");
    }

    #[test]
    fn reasons_without_rows_are_left_out() {
        let rows = RowAccount { kept: 2, late: 1, filtered: 4, ..RowAccount::default() };
        let shown = metrics(7, &rows);
        let shown: Vec<_> = shown.iter().map(|(name, rows)| (name.as_str(), *rows)).collect();
        let expected = [
            ("numDroppedFilteredRows", 4),
            ("numEmittedRows", 0),
            ("numInputRows", 7),
            ("numKeptRows", 2),
        ];
        assert_eq!(shown, expected);
    }
}
