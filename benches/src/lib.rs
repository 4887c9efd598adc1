//! Benchmarks of Fluvial: whole queries, small batches, state and codecs. This library makes
//! their input: the same bytes for the same arguments.
//!
//! ```
//! use fluvial_benches::Clicks;
//!
//! let clicks = Clicks { rows: 100, pages: 10, files: 2 };
//! assert_eq!(clicks.batches().map(|rows| rows.num_rows()).sum::<usize>(), 100);
//! assert!(clicks.batches().eq(clicks.batches()));
//! ```

use arrow::array::{
    ArrayRef, AsArray, Float64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{Float64Type, TimestampMicrosecondType};
use fluvial::sql::parse_script;
use fluvial::{Executed, ScriptOptions, Session};
use parquet::arrow::ArrowWriter;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

/// The schema of a click, as the sources take it.
pub const CLICK_SCHEMA: &str =
    "user_id string, page string, event_time timestamp, duration_s double";

/// 2026-01-01 00:00 UTC, in microseconds.
const START: i64 = 1_767_225_600_000_000;
const HOURS: i64 = 4;

/// Page views over four hours, a third of them up to five minutes late.
#[derive(Debug, Clone, Copy)]
pub struct Clicks {
    /// Rows in all files together.
    pub rows: usize,
    /// Distinct pages.
    pub pages: u64,
    /// Files, in the order of event time.
    pub files: usize,
}

/// The format of generated files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON lines.
    Json,
    /// Parquet with snappy.
    Parquet,
}

impl Format {
    /// The name that sources know.
    pub fn name(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Parquet => "parquet",
        }
    }
}

impl Clicks {
    /// The rows of each file.
    pub fn batches(self) -> impl Iterator<Item = RecordBatch> {
        (0..self.files).map(move |file| self.file(file))
    }

    fn file(self, file: usize) -> RecordBatch {
        let rows = self.rows / self.files;
        let span = HOURS * 3_600_000_000 / self.files as i64;
        let low = START + span * file as i64;
        let mut random = SplitMix(file as u64);
        let (mut users, mut pages) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        let (mut times, mut durations) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        for _ in 0..rows {
            let late = if random.below(10) < 3 { random.below(300_000) as i64 * 1000 } else { 0 };
            users.push(format!("u{}", random.below(100_000)));
            pages.push(format!("/page/{:07}", random.below(self.pages)));
            times.push(low + random.below(span as u64 / 1000) as i64 * 1000 - late);
            durations.push(random.below(6000) as f64 / 100.0);
        }
        let times = TimestampMicrosecondArray::from(times).with_timezone("UTC");
        let columns: [(&str, ArrayRef); 4] = [
            ("user_id", Arc::new(StringArray::from(users))),
            ("page", Arc::new(StringArray::from(pages))),
            ("event_time", Arc::new(times)),
            ("duration_s", Arc::new(Float64Array::from(durations))),
        ];
        RecordBatch::try_from_iter(columns).expect("columns have one length")
    }

    /// Writes the files into `folder`, which must exist.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn write(self, folder: &Path, format: Format) -> std::io::Result<()> {
        for (file, rows) in self.batches().enumerate() {
            let path = folder.join(format!("part-{file:05}.{}", format.name()));
            match format {
                Format::Json => std::fs::write(path, json_lines(&rows))?,
                Format::Parquet => {
                    let file = std::fs::File::create(path)?;
                    let mut writer = ArrowWriter::try_new(file, rows.schema(), None)?;
                    writer.write(&rows)?;
                    writer.close()?;
                }
            }
        }
        Ok(())
    }
}

/// Clicks as JSON lines.
fn json_lines(rows: &RecordBatch) -> String {
    let (users, pages) = (rows.column(0).as_string::<i32>(), rows.column(1).as_string::<i32>());
    let times = rows.column(2).as_primitive::<TimestampMicrosecondType>();
    let durations = rows.column(3).as_primitive::<Float64Type>();
    let mut text = String::with_capacity(rows.num_rows() * 110);
    for row in 0..rows.num_rows() {
        let millis = (times.value(row) - START).rem_euclid(86_400_000_000) / 1000;
        let day = if times.value(row) < START { "2025-12-31" } else { "2026-01-01" };
        let (hour, minute) = (millis / 3_600_000, millis / 60_000 % 60);
        let (second, milli) = (millis / 1000 % 60, millis % 1000);
        writeln!(
            text,
            "{{\"user_id\":\"{}\",\"page\":\"{}\",\"event_time\":\"{day}T{hour:02}:{minute:02}:\
             {second:02}.{milli:03}Z\",\"duration_s\":{}}}",
            users.value(row),
            pages.value(row),
            durations.value(row)
        )
        .expect("writing to a string does not fail");
    }
    text
}

/// Runs a script of streaming SQL in a session of its own until its queries have ended.
///
/// # Errors
///
/// What is wrong with the script, or what ended a query.
pub async fn run_script(sql: &str) -> fluvial::Result<()> {
    let session = Session::builder().config("state.partitions", 2).build()?;
    for statement in parse_script(sql)? {
        if let Executed::Query(_, query) =
            session.execute(&statement, &ScriptOptions::default()).await?
        {
            query.await_termination().await?;
        }
    }
    session.stop().await
}

/// SplitMix64: small, and the same everywhere.
#[derive(Debug, Clone)]
pub struct SplitMix(pub u64);

impl SplitMix {
    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.next_u64() % end.max(1)
    }
}
