//! A recorded case, as it stands in its file.

use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// A query, what arrives, and what Spark did.
#[derive(Debug, Clone, Deserialize)]
pub struct Case {
    /// Its name, which is its file's.
    pub name: String,
    /// What it is about.
    pub category: String,
    /// `append`, `update` or `complete`.
    pub output_mode: String,
    /// Settings that differ from the defaults.
    #[serde(default)]
    pub conf: BTreeMap<String, String>,
    /// The sources.
    pub sources: Vec<SourceSpec>,
    /// The query as a tree.
    pub plan: Value,
    /// What arrives, start by start.
    pub steps: Vec<Step>,
    /// `continuous`: one long-running query. Absent: each step is a fresh start.
    #[serde(default)]
    pub driving: Option<String>,
    /// `once`, or absent for available-now.
    #[serde(default)]
    pub trigger: Option<String>,
    /// A file sink instead of collecting.
    #[serde(default)]
    pub sink: Option<SinkSpec>,
    /// Whether the order of rows counts.
    #[serde(default)]
    pub ordered: bool,
    /// What Spark did.
    pub expected: Expected,
}

/// A source.
#[derive(Debug, Clone, Deserialize)]
pub struct SourceSpec {
    /// Its name in the plan.
    pub id: String,
    /// Names and Spark types.
    pub schema: Vec<(String, String)>,
    /// Options of the reader.
    #[serde(default)]
    pub options: BTreeMap<String, Value>,
    /// File format.
    #[serde(default)]
    pub format: Option<String>,
    /// Text added to the source folder.
    #[serde(default)]
    pub path_suffix: Option<String>,
}

/// A file sink.
#[derive(Debug, Clone, Deserialize)]
pub struct SinkSpec {
    /// File format.
    pub format: String,
    /// Columns that name folders.
    #[serde(default)]
    pub partition_by: Vec<String>,
    /// The folder's name.
    #[serde(default)]
    pub path: Option<String>,
    /// Options of the writer.
    #[serde(default)]
    pub options: BTreeMap<String, Value>,
    /// Options for reading back.
    #[serde(default)]
    pub read_options: BTreeMap<String, Value>,
    /// The schema for reading back.
    #[serde(default)]
    pub read_schema: Option<String>,
}

/// What arrives before one start.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Step {
    /// One new file per source with these rows.
    pub input: BTreeMap<String, Vec<Value>>,
    /// Several files at once.
    pub files: BTreeMap<String, Vec<Vec<Value>>>,
    /// Files with given path and text.
    pub raw_files: BTreeMap<String, Vec<RawFile>>,
    /// Files that are removed.
    pub delete_files: BTreeMap<String, Vec<String>>,
    /// Replaces the case's plan from here on.
    pub plan: Option<Value>,
    /// Replaces the case's sources.
    pub sources: Option<Vec<SourceSpec>>,
    /// Replaces the case's settings.
    pub conf: Option<BTreeMap<String, String>>,
    /// Replaces the case's output mode.
    pub output_mode: Option<String>,
    /// Replaces the case's trigger.
    pub trigger: Option<String>,
    /// Logs whose newest entry is removed.
    pub drop_last: Vec<String>,
    /// Whether the start may fail.
    pub expect_error: bool,
    /// A wait in processing time.
    pub sleep_ms: u64,
}

/// A file with given path and text.
#[derive(Debug, Clone, Deserialize)]
pub struct RawFile {
    /// Below the source's folder.
    pub path: String,
    /// Its lines.
    pub lines: Vec<String>,
    /// Its modification time, seconds since the epoch.
    #[serde(default)]
    pub mtime_s: Option<i64>,
}

/// What Spark did.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Expected {
    /// Batch by batch.
    pub batches: Vec<ExpectedBatch>,
    /// The query fails while running.
    pub error: Option<Value>,
    /// Starts that failed, by step.
    pub step_errors: BTreeMap<String, Value>,
    /// What the file sink held after each step.
    pub sink: Vec<ExpectedSink>,
}

/// One batch of Spark's.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExpectedBatch {
    /// The step it ran in.
    pub step: usize,
    /// Its id.
    pub batch_id: u64,
    /// Rows read.
    #[serde(default)]
    pub num_input_rows: Option<u64>,
    /// `watermark` and statistics.
    #[serde(default)]
    pub event_time: BTreeMap<String, String>,
    /// Its stateful operators.
    #[serde(default)]
    pub state_operators: Vec<Value>,
    /// Its output.
    #[serde(default)]
    pub rows: Option<Vec<Value>>,
}

/// What a file sink held.
#[derive(Debug, Clone, Deserialize)]
pub struct ExpectedSink {
    /// After this step.
    pub step: usize,
    /// Rows read back.
    #[serde(default)]
    pub rows: Option<Vec<Value>>,
    /// Folders with files.
    #[serde(default)]
    pub dirs: Vec<String>,
}

impl Case {
    /// Reads a case from its text.
    ///
    /// # Errors
    ///
    /// If it is not a case.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(serde_json::from_str(text)?)
    }

    /// Reads a case from a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is not a case.
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    /// Whether one query runs through all steps.
    pub fn is_continuous(&self) -> bool {
        self.driving.as_deref() == Some("continuous")
    }
}
