//! Which files are read together.

use super::data_file::DataFile;
use fluvial_core::{Error, Result, Split};

/// At most `count` splits of about as many bytes.
pub(super) fn cut(files: Vec<DataFile>, count: usize) -> Result<Vec<Split>> {
    // A file costs something, however small it is.
    let cost = |file: &DataFile| u128::from(file.size) + (64 << 10);
    let total: u128 = files.iter().map(cost).sum();
    let share = total.div_ceil(count.max(1) as u128).max(1);
    let mut splits: Vec<Vec<DataFile>> = Vec::new();
    let mut before = 0;
    for file in files {
        let middle = before + cost(&file) / 2;
        let split = usize::try_from(middle / share).unwrap_or(usize::MAX).min(count.max(1) - 1);
        before += cost(&file);
        if splits.is_empty() || split >= splits.len() {
            splits.push(Vec::new());
        }
        if let Some(last) = splits.last_mut() {
            last.push(file);
        }
    }
    let split = |files: Vec<DataFile>| {
        let files = serde_json::to_value(files)
            .map_err(|e| Error::invalid("a split has no JSON form").with_source(e))?;
        Ok(Split(files))
    };
    splits.into_iter().map(split).collect()
}
