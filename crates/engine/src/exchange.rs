//! Cutting rows by the partition that owns their key.

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use fluvial_core::{Error, KeyGroup, KeyGroupCount, PartitionId, Result};

/// The rows of each partition, in their order; partitions without rows are left out.
///
/// # Errors
///
/// `Invalid` if there is not one group per row.
pub(crate) fn split(
    rows: &RecordBatch,
    groups: &[KeyGroup],
    key_groups: KeyGroupCount,
    partitions: u32,
) -> Result<Vec<(PartitionId, RecordBatch)>> {
    if groups.len() != rows.num_rows() {
        return Err(Error::invalid(format!(
            "{} key groups were given for {} rows",
            groups.len(),
            rows.num_rows()
        )));
    }
    if let Some(group) = groups.iter().find(|group| group.0 >= key_groups.get()) {
        return Err(Error::invalid(format!(
            "key group {} was given, but there are only {}",
            group.0,
            key_groups.get()
        )));
    }
    let mut indices: Vec<Vec<u32>> = vec![Vec::new(); partitions as usize];
    for (row, group) in groups.iter().enumerate() {
        indices[key_groups.partition_of(*group, partitions).0 as usize].push(row as u32);
    }
    let mut parts = Vec::new();
    for (partition, indices) in (0..).map(PartitionId).zip(indices) {
        match indices.len() {
            0 => {}
            all if all == rows.num_rows() => parts.push((partition, rows.clone())),
            _ => {
                parts.push((partition, take_record_batch(rows, &UInt32Array::from(indices))?));
            }
        }
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;
    use std::sync::Arc;

    fn rows(values: &[i64]) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int64Array::from(values.to_vec()));
        RecordBatch::try_from_iter([("k", column)]).unwrap()
    }

    #[test]
    fn each_row_goes_to_the_partition_of_its_group_in_order() {
        let groups = [0, 127, 1, 127].map(KeyGroup);
        let parts = split(&rows(&[10, 20, 11, 21]), &groups, KeyGroupCount::DEFAULT, 3).unwrap();
        let seen: Vec<(u32, Vec<i64>)> = parts
            .iter()
            .map(|(p, rows)| (p.0, rows.column(0).as_primitive::<Int64Type>().values().to_vec()))
            .collect();
        assert_eq!(seen, [(0, vec![10, 11]), (2, vec![20, 21])]);
    }

    #[test]
    fn wrong_groups_are_refused() {
        let count = KeyGroupCount::DEFAULT;
        assert!(split(&rows(&[1, 2]), &[KeyGroup(0)], count, 3).is_err());
        assert!(split(&rows(&[1]), &[KeyGroup(128)], count, 3).is_err());
        assert!(split(&rows(&[]), &[], count, 3).unwrap().is_empty());
    }
}
