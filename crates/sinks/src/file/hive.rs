//! Folders of partition values, as Hive and Spark name them: `name=value`.

use super::times::TextTimes;
use crate::cell::push_cell;
use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType, Schema};
use arrow::row::{Row, RowConverter, SortField};
use chrono_tz::Tz;
use fluvial_core::{Error, Result};
use std::collections::BTreeMap;

/// The folder of null, and of the empty text.
const NOTHING: &str = "__HIVE_DEFAULT_PARTITION__";

/// Which columns become folders and which go into the files.
#[derive(Debug, Clone)]
pub(crate) struct Partitioning {
    folders: Vec<usize>,
    files: Vec<usize>,
}

impl Partitioning {
    /// Looks the columns up.
    ///
    /// # Errors
    ///
    /// `Invalid` if one is missing or has a type that makes no folder, or if none is left.
    pub(crate) fn new(schema: &Schema, partition_by: &[String]) -> Result<Self> {
        let mut folders = Vec::with_capacity(partition_by.len());
        for name in partition_by {
            folders.push(find(schema, name)?);
        }
        let files: Vec<_> = (0..schema.fields().len()).filter(|i| !folders.contains(i)).collect();
        if files.is_empty() {
            return Err(Error::invalid("files cannot be partitioned by all of their columns")
                .with_condition("ALL_PARTITION_COLUMNS_NOT_ALLOWED"));
        }
        Ok(Self { folders, files })
    }

    /// The schema of the files.
    pub(crate) fn file_schema(&self, schema: &Schema) -> Result<Schema> {
        Ok(schema.project(&self.files)?)
    }

    /// The rows of each folder, in the order in which folders first appear; without columns that
    /// make folders there is one, called `""`. Times are in the zone of `times`.
    pub(crate) fn split(
        &self,
        rows: &RecordBatch,
        times: &TextTimes,
    ) -> Result<Vec<(String, RecordBatch)>> {
        let files = rows.project(&self.files)?;
        if self.folders.is_empty() {
            return Ok(vec![(String::new(), files)]);
        }
        let values: Vec<ArrayRef> = self.folders.iter().map(|i| rows.column(*i).clone()).collect();
        let fields = values.iter().map(|v| SortField::new(v.data_type().clone())).collect();
        let encoded = RowConverter::new(fields)?.convert_columns(&values)?;
        let mut groups: Vec<Vec<u32>> = Vec::new();
        let mut seen: BTreeMap<Row<'_>, usize> = BTreeMap::new();
        for (row, value) in (0..).zip(encoded.iter()) {
            let group = *seen.entry(value).or_insert_with(|| {
                groups.push(Vec::new());
                groups.len() - 1
            });
            groups[group].push(row);
        }
        let shown = values.iter().map(|column| times.on_clocks(column));
        let shown = shown.collect::<Result<Vec<_>>>()?;
        let folder_of = |group: Vec<u32>| {
            let folder = self.folder(rows, &shown, group[0] as usize)?;
            Ok((folder, take_record_batch(&files, &UInt32Array::from(group))?))
        };
        groups.into_iter().map(folder_of).collect()
    }

    /// `a=1/b=x`.
    fn folder(&self, rows: &RecordBatch, shown: &[ArrayRef], row: usize) -> Result<String> {
        let mut folder = String::new();
        for (level, (column, values)) in self.folders.iter().zip(shown).enumerate() {
            if level > 0 {
                folder.push('/');
            }
            escape(rows.schema_ref().field(*column).name(), &mut folder);
            folder.push('=');
            let mut text = String::new();
            if !values.is_null(row) {
                // Times are on their clocks already.
                push_cell(&mut text, values, row, Tz::UTC)?;
            }
            let text = if text.is_empty() { NOTHING } else { &text };
            escape(text, &mut folder);
        }
        Ok(folder)
    }
}

/// Exactly, or else without regard to case.
fn find(schema: &Schema, name: &str) -> Result<usize> {
    let fields = schema.fields();
    let lower = name.to_lowercase();
    let found = fields
        .iter()
        .position(|f| f.name() == name)
        .or_else(|| fields.iter().position(|f| f.name().to_lowercase() == lower));
    let Some(i) = found else {
        let names: Vec<_> = fields.iter().map(|f| f.name().as_str()).collect();
        return Err(Error::invalid(format!(
            "partition column {name} not found in existing columns ({})",
            names.join(", ")
        ))
        .with_condition("PARTITION_COLUMN_NOT_FOUND"));
    };
    let data_type = fields[i].data_type();
    if data_type.is_nested() || data_type.is_binary() || *data_type == DataType::Null {
        return Err(Error::invalid(format!(
            "column {name} has type {data_type}, of which no folder can be named"
        ))
        .with_condition("INVALID_PARTITION_COLUMN_DATA_TYPE"));
    }
    Ok(i)
}

/// Writes what a folder name cannot hold as `%XX`.
fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        if matches!(c, '\u{1}'..='\u{1f}' | '\u{7f}') || "\"#%'*/:=?\\{[]^".contains(c) {
            out.push_str(&format!("%{:02X}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Int64Array, StringArray, TimestampMicrosecondArray};
    use std::sync::Arc;

    fn rows(values: Vec<Option<&str>>) -> RecordBatch {
        let count = values.len() as i64;
        RecordBatch::try_from_iter([
            ("a", Arc::new(StringArray::from(values)) as ArrayRef),
            ("b", Arc::new(Int64Array::from_iter_values(0..count))),
        ])
        .unwrap()
    }

    fn by(rows: &RecordBatch, columns: &[&str]) -> Result<Partitioning> {
        let columns: Vec<_> = columns.iter().map(ToString::to_string).collect();
        Partitioning::new(&rows.schema(), &columns)
    }

    /// The recorded case `suite_sink_partition_special_values`.
    #[test]
    fn special_values_get_spark_s_folders() {
        let values = vec![
            None,
            Some(""),
            Some("x/y"),
            Some("a b"),
            Some("50%"),
            Some("k=v"),
            Some("t:1"),
            Some("é"),
        ];
        let rows = rows(values);
        let split = by(&rows, &["a"]).unwrap().split(&rows, &TextTimes::default()).unwrap();
        let folders: Vec<_> = split.iter().map(|(folder, _)| folder.as_str()).collect();
        assert_eq!(
            folders,
            [
                "a=__HIVE_DEFAULT_PARTITION__",
                "a=__HIVE_DEFAULT_PARTITION__",
                "a=x%2Fy",
                "a=a b",
                "a=50%25",
                "a=k%3Dv",
                "a=t%3A1",
                "a=é",
            ]
        );
        assert!(split.iter().all(|(_, rows)| rows.schema().field(0).name() == "b"));
    }

    #[test]
    fn rows_keep_their_order_within_a_folder() {
        let rows = rows(vec![Some("x"), Some("y"), Some("x")]);
        let split = by(&rows, &["A"]).unwrap().split(&rows, &TextTimes::default()).unwrap();
        let first = split[0].1.column(0).as_any().downcast_ref::<Int64Array>().unwrap().values();
        assert_eq!((split.len(), first.to_vec()), (2, vec![0, 2]));
    }

    #[test]
    fn a_time_is_a_folder_without_colons() {
        let times = TimestampMicrosecondArray::from(vec![1_500_000]).with_timezone("UTC");
        let rows = RecordBatch::try_from_iter([
            ("at", Arc::new(times) as ArrayRef),
            ("b", Arc::new(Int64Array::from(vec![1]))),
        ])
        .unwrap();
        let split = by(&rows, &["at"]).unwrap().split(&rows, &TextTimes::default()).unwrap();
        assert_eq!(split[0].0, "at=1970-01-01 00%3A00%3A01.5");
        let mut zone = fluvial_core::Options::new([("timeZone", "Europe/Berlin")]);
        let berlin = TextTimes::in_zone(&mut zone).unwrap();
        let split = by(&rows, &["at"]).unwrap().split(&rows, &berlin).unwrap();
        assert_eq!(split[0].0, "at=1970-01-01 01%3A00%3A01.5");
    }

    #[test]
    fn impossible_partitions_are_refused() {
        let rows = rows(vec![Some("x")]);
        let condition =
            |columns: &[&str]| by(&rows, columns).unwrap_err().condition().map(str::to_owned);
        assert_eq!(condition(&["nope"]).as_deref(), Some("PARTITION_COLUMN_NOT_FOUND"));
        assert_eq!(condition(&["a", "b"]).as_deref(), Some("ALL_PARTITION_COLUMNS_NOT_ALLOWED"));
    }
}
