//! Prints each batch as a table.

use crate::in_process::{ALL_MODES, Claim, InProcess};
use crate::table::{TableStyle, draw};
use async_trait::async_trait;
use chrono_tz::Tz;
use fluvial_core::options::Options;
use fluvial_core::{
    BatchId, CommitOutcome, Error, Note, OutputMode, PartitionId, Result, Sink, SinkSpec,
    SinkWriter, Staged,
};
use std::fmt;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// What happens to long cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truncate {
    /// Cut after so many characters; columns lean right.
    At(usize),
    /// Shown whole; columns lean left.
    Never,
}

/// Prints the batch number and the first rows of each batch to a writer, for people.
///
/// *At least once:* after a crash a batch may be printed again. It forgets with the process.
/// All rows of a batch are in memory until it is printed.
pub struct ConsoleSink {
    writer: Mutex<Box<dyn Write + Send>>,
    rows_max: usize,
    truncate: Truncate,
    zone: Tz,
    memory: Arc<InProcess>,
    schema: Mutex<Option<arrow::datatypes::SchemaRef>>,
}

impl ConsoleSink {
    /// Prints to `writer`: 20 rows, cells cut after 20 characters, times in UTC.
    pub fn new(writer: Box<dyn Write + Send>) -> Self {
        Self {
            writer: Mutex::new(writer),
            rows_max: 20,
            truncate: Truncate::At(20),
            zone: Tz::UTC,
            memory: Arc::default(),
            schema: Mutex::default(),
        }
    }

    /// Prints to the standard output.
    pub fn stdout() -> Self {
        Self::new(Box::new(std::io::stdout()))
    }

    /// Shows at most `rows_max` rows per batch.
    #[must_use]
    pub fn with_rows_max(mut self, rows_max: usize) -> Self {
        self.rows_max = rows_max;
        self
    }

    /// Cuts long cells, or not.
    #[must_use]
    pub fn with_truncate(mut self, truncate: Truncate) -> Self {
        self.truncate = truncate;
        self
    }

    /// Shows points in time in `zone`.
    #[must_use]
    pub fn with_zone(mut self, zone: Tz) -> Self {
        self.zone = zone;
        self
    }

    /// Takes `numRows` and `truncate` (`true`, `false` or a number of characters) out of
    /// `options`.
    ///
    /// # Errors
    ///
    /// `Invalid` for a name or a value that is wrong.
    pub fn with_options(mut self, mut options: Options) -> Result<Self> {
        if let Some(rows) = options.take_parsed("numRows", "a number of rows")? {
            self.rows_max = rows;
        }
        let parse = |text: &str| match text.to_lowercase().as_str() {
            "true" => Some(Truncate::At(20)),
            "false" | "0" => Some(Truncate::Never),
            number => number.parse().ok().map(Truncate::At),
        };
        let expected = "'true', 'false' or a number of characters";
        if let Some(truncate) = options.take_with("truncate", expected, parse)? {
            self.truncate = truncate;
        }
        options.finish(&["numRows", "truncate"])?;
        Ok(self)
    }

    fn print(&self, batch: BatchId, rows: &[arrow::array::RecordBatch]) -> Result<()> {
        let schema = self.schema.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let schema = schema.or_else(|| rows.first().map(|r| r.schema())).ok_or_else(|| {
            Error::invalid(format!("batch {batch}: ConsoleSink was not opened before its commit"))
        })?;
        let width_max = match self.truncate {
            Truncate::At(width) => Some(width),
            Truncate::Never => None,
        };
        let style = TableStyle { rows_max: self.rows_max, width_max, zone: self.zone };
        let table = draw(&schema, rows, style)?;
        let rule = "-".repeat(43);
        let text = format!("{rule}\nBatch: {batch}\n{rule}\n{table}\n");
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.write_all(text.as_bytes()).and_then(|()| writer.flush()).map_err(|e| {
            Error::unavailable(format!("batch {batch}: the console cannot be written: {e}"))
                .with_source(e)
        })
    }
}

impl fmt::Debug for ConsoleSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConsoleSink")
            .field("rows_max", &self.rows_max)
            .field("truncate", &self.truncate)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Sink for ConsoleSink {
    fn description(&self) -> String {
        "ConsoleSink".into()
    }

    fn modes(&self) -> &[OutputMode] {
        ALL_MODES
    }

    async fn open(&self, spec: &SinkSpec) -> Result<Option<BatchId>> {
        let last = self.memory.open("ConsoleSink", spec)?;
        let mut schema = self.schema.lock().unwrap_or_else(PoisonError::into_inner);
        *schema = Some(spec.schema.clone());
        Ok(last)
    }

    async fn writer(&self, batch: BatchId, partition: PartitionId) -> Result<Box<dyn SinkWriter>> {
        Ok(self.memory.writer(batch, partition))
    }

    async fn commit(
        &self,
        batch: BatchId,
        staged: Vec<Staged>,
        note: &Note,
    ) -> Result<CommitOutcome> {
        match self.memory.claim(batch, &staged)? {
            Claim::Already(outcome) => Ok(outcome),
            Claim::Publish(claimed, rows) => {
                self.print(batch, &rows)?;
                Ok(claimed.done(note))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{numbers, publish, spec};
    use futures::executor::block_on;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn prints_each_batch_once_under_its_number() {
        let page = Page::default();
        let sink = ConsoleSink::new(Box::new(page.clone())).with_rows_max(2);
        block_on(async {
            sink.open(&spec("q", OutputMode::Update)).await.unwrap();
            publish(&sink, 0, &[numbers(&[12]), numbers(&[3, 4])]).await.unwrap();
            publish(&sink, 0, &[numbers(&[5])]).await.unwrap();
            publish(&sink, 1, &[]).await.unwrap();
        });
        let rule = "-------------------------------------------";
        let expected = format!(
            "{rule}\nBatch: 0\n{rule}\n+-----+\n|value|\n+-----+\n|   12|\n|    3|\n+-----+\n\
             only showing top 2 rows\n\n\
             {rule}\nBatch: 1\n{rule}\n+-----+\n|value|\n+-----+\n+-----+\n\n"
        );
        assert_eq!(String::from_utf8(page.0.lock().unwrap().clone()).unwrap(), expected);
    }

    #[test]
    fn options_are_spark_s() {
        let of = |pairs: &[(&str, &str)]| {
            let sink = ConsoleSink::new(Box::new(Page::default()));
            sink.with_options(Options::new(pairs.iter().copied()))
        };
        let sink = of(&[("numRows", "3"), ("truncate", "false")]).unwrap();
        assert_eq!((sink.rows_max, sink.truncate), (3, Truncate::Never));
        assert_eq!(of(&[("truncate", "7")]).unwrap().truncate, Truncate::At(7));
        assert_eq!(of(&[]).unwrap().truncate, Truncate::At(20));
        let error = of(&[("numRow", "3")]).unwrap_err();
        assert!(error.message().contains("numRows"), "{error}");
        assert!(of(&[("numRows", "-1")]).is_err());
    }
}
