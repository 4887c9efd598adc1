//! Lets input arrive: files that appear by an atomic rename, with rising modification times.

use crate::case::{SourceSpec, Step};
use anyhow::{Context, Result};
use filetime::{FileTime, set_file_mtime};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const FIRST_MTIME_S: i64 = 1_700_000_000;

/// The folders of the sources, and how many files there were.
pub(crate) struct Feeder {
    folders: BTreeMap<String, PathBuf>,
    files: i64,
}

impl Feeder {
    pub(crate) fn new(base: &Path, sources: &[SourceSpec]) -> Result<Self> {
        let mut folders = BTreeMap::new();
        for source in sources {
            let folder = base.join(format!("in_{}", source.id));
            std::fs::create_dir_all(&folder)?;
            folders.insert(source.id.clone(), folder);
        }
        Ok(Self { folders, files: 0 })
    }

    pub(crate) fn folder(&self, source: &str) -> Result<&Path> {
        self.folders.get(source).map(PathBuf::as_path).context("a source without a folder")
    }

    /// What a step brings, all at once.
    pub(crate) fn feed(&mut self, step: &Step) -> Result<()> {
        for (source, paths) in &step.delete_files {
            for path in paths {
                std::fs::remove_file(self.folder(source)?.join(path))?;
            }
        }
        let mut staged = Vec::new();
        let inputs = step.input.iter().map(|(source, rows)| (source, vec![rows.clone()]));
        let inputs: Vec<(&String, Vec<Vec<Value>>)> = match step.files.is_empty() {
            true => inputs.collect(),
            false => step.files.iter().map(|(source, files)| (source, files.clone())).collect(),
        };
        for (source, files) in inputs {
            for rows in files.into_iter().filter(|rows| !rows.is_empty()) {
                self.files += 1;
                let name = format!("f{:05}.json", self.files);
                let lines = rows.iter().map(line).collect::<Vec<_>>();
                staged.push(self.stage(source, &name, &lines, None)?);
            }
        }
        for (source, files) in &step.raw_files {
            for file in files {
                self.files += 1;
                staged.push(self.stage(source, &file.path, &file.lines, file.mtime_s)?);
            }
        }
        for (hidden, path) in staged {
            std::fs::rename(hidden, path)?;
        }
        Ok(())
    }

    fn stage(
        &self,
        source: &str,
        name: &str,
        lines: &[String],
        mtime_s: Option<i64>,
    ) -> Result<(PathBuf, PathBuf)> {
        let path = self.folder(source)?.join(name);
        let folder = path.parent().context("a file lies in a folder")?;
        std::fs::create_dir_all(folder)?;
        let hidden = folder.join(format!(".t{:05}.tmp", self.files));
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(&hidden, text)?;
        let mtime = FileTime::from_unix_time(mtime_s.unwrap_or(FIRST_MTIME_S + self.files), 0);
        set_file_mtime(&hidden, mtime)?;
        Ok((hidden, path))
    }
}

/// A row as Spark's side wrote it, with blanks: how many bytes a file has is part of a case.
fn line(row: &Value) -> String {
    match row {
        Value::Object(members) => {
            let member =
                |(name, value)| format!("{}: {}", Value::from(String::clone(name)), line(value));
            format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
        }
        Value::Array(elements) => {
            format!("[{}]", elements.iter().map(line).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}
