//! A source of your own: the lines of one file that grows, a log say.
//!
//! ```text
//! cargo run -p fluvial --example own_source
//! ```
//!
//! A source answers questions and the engine asks them: where a new query begins, what is there
//! now, what the next batch takes, and the rows of that. A range that was planned must give the
//! same rows whenever it is read, which a file that only grows does.

use async_trait::async_trait;
use fluvial::arrow::array::{RecordBatch, StringArray};
use fluvial::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use fluvial::prelude::*;
use fluvial_core::{Frontier, Offset, PlanRequest, RowStream, Source, SourceRange, Split};
use futures::StreamExt;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// The whole lines of a file, in the column `line`. An offset is a number of bytes.
pub(crate) struct LogTail(pub(crate) PathBuf);

impl LogTail {
    fn error(&self, what: &str, cause: std::io::Error) -> fluvial::Error {
        fluvial::Error::unavailable(format!("{what} {}", self.0.display())).with_source(cause)
    }

    /// The bytes from `from` up to `to`, or to the end of the file.
    fn bytes(&self, from: u64, to: Option<u64>) -> fluvial::Result<Vec<u8>> {
        let read = || {
            let mut file = File::open(&self.0)?;
            file.seek(SeekFrom::Start(from))?;
            let mut bytes = Vec::new();
            file.take(to.map_or(u64::MAX, |to| to - from)).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        read().map_err(|e| self.error("cannot read", e))
    }
}

#[async_trait]
impl Source for LogTail {
    fn description(&self) -> String {
        format!("LogTail[{}]", self.0.display())
    }

    fn kind(&self) -> &str {
        "log-tail"
    }

    fn schema(&self) -> SchemaRef {
        Arc::new(Schema::new(vec![Field::new("line", DataType::Utf8, true)]))
    }

    async fn initial(&self) -> fluvial::Result<Offset> {
        Offset::of(&0_u64)
    }

    async fn frontier(&self) -> fluvial::Result<Frontier> {
        let file = fs::metadata(&self.0).map_err(|e| self.error("cannot look at", e))?;
        Ok(Frontier(file.len().into()))
    }

    async fn plan(&self, request: PlanRequest<'_>) -> fluvial::Result<Option<SourceRange>> {
        let from: u64 = request.start.read()?;
        let until = request.until.and_then(|until| until.0.as_u64());
        if until.is_some_and(|until| until <= from) {
            return Ok(None);
        }
        let bytes = self.bytes(from, until)?;
        // Whole lines, one at least, as many as the limits admit. A line is a unit of its own.
        let limit = request.limit;
        let (mut rows, mut end) = (0, 0);
        for (at, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
            let full =
                |most: Option<std::num::NonZeroU64>, now| most.is_some_and(|m| now > m.get());
            let too_many = full(limit.rows, rows + 1) || full(limit.files, rows + 1);
            if too_many || (rows > 0 && full(limit.bytes, at as u64 + 1)) {
                break;
            }
            (rows, end) = (rows + 1, at as u64 + 1);
        }
        if end == 0 {
            return Ok(None);
        }
        let to = from + end;
        Ok(Some(SourceRange {
            start: request.start.clone(),
            end: Offset::of(&to)?,
            splits: vec![Split(serde_json::json!([from, to]))],
            log: None,
        }))
    }

    async fn adopt(&self, _: &SourceRange) -> fluvial::Result<()> {
        // Nothing is remembered here: offsets say it all.
        Ok(())
    }

    fn read(
        &self,
        _: &SourceRange,
        split: &Split,
        projection: Option<&[usize]>,
    ) -> fluvial::Result<RowStream> {
        let (from, to): (u64, u64) = serde_json::from_value(split.0.clone())
            .map_err(|e| fluvial::Error::corrupt("not a split of a log").with_source(e))?;
        let text = String::from_utf8_lossy(&self.bytes(from, Some(to))?).into_owned();
        let lines = StringArray::from(text.lines().collect::<Vec<_>>());
        let rows = RecordBatch::try_new(self.schema(), vec![Arc::new(lines)])?;
        let rows = match projection {
            Some(columns) => rows.project(columns)?,
            None => rows,
        };
        Ok(futures::stream::iter([Ok(rows)]).boxed())
    }

    async fn release(&self, _: &SourceRange) -> fluvial::Result<()> {
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("app.log");
    let mut log = OpenOptions::new().create(true).append(true).open(&path)?;
    writeln!(log, "INFO started\nWARN disk is nearly full\nINFO stopped")?;

    let session = Session::new()?;
    // The name is what the checkpoint calls the source.
    let lines = session.read_stream().name("app-log").source(Arc::new(LogTail(path)))?;
    let level = session.expr("split(line, ' ')[0] AS level", &lines)?;
    let query = lines
        .group_by(vec![level])
        .count()?
        .write_stream()?
        .format("memory")
        .query_name("levels")
        .output_mode(OutputMode::Complete)
        .start()
        .await?;
    for more in ["", "INFO started again\nERROR disk is full\nhalf a li"] {
        write!(log, "{more}")?;
        query.process_all_available().await?;
        session.sql("SELECT * FROM levels ORDER BY level").await?.show().await?;
    }
    session.stop().await?;
    Ok(())
}
