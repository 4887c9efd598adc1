//! What an entry finds: a fresh folder with input, and a session with streams and tables by name.
//!
//! `events` and `others` are streams of JSON files, `timed` and `others_timed` the same with a
//! watermark, `people` is a table.

use fluvial::prelude::*;
use fluvial::{DataStreamReader, DataStreamWriter, Error, Result, StreamingQuery};
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

/// A query that has not ended by then hangs.
const PATIENCE: Duration = Duration::from_secs(30);

const SCHEMA: &str = "k string, ts timestamp, v bigint, d date, s struct<a: string, t: timestamp>";

/// The world of one entry.
pub(super) struct World {
    pub(super) session: Session,
    folder: TempDir,
}

impl World {
    pub(super) async fn new() -> Result<Self> {
        let folder = TempDir::new().unwrap();
        let session = session_in(&folder, &[])?;
        let world = Self { session, folder };
        world.put("in/1.json", &lines(0));
        world.put(
            "others/1.json",
            "{\"rk\": \"a\", \"rts\": \"2026-01-01T00:01:00Z\", \"rv\": 7}\n",
        );
        world.put("people/1.json", "{\"pk\": \"a\", \"age\": 30}\n");
        world.register().await?;
        Ok(world)
    }

    async fn register(&self) -> Result<()> {
        let events = self.events().await?;
        let others = self.read("rk string, rts timestamp, rv bigint").json("others").await?;
        let people =
            self.session.read().format("json").schema("pk string, age int").load("people").await?;
        let frames = [
            ("timed", events.clone().with_watermark("ts", "10 minutes")?),
            ("events", events),
            ("others_timed", others.clone().with_watermark("rts", "10 minutes")?),
            ("others", others),
            ("people", people),
        ];
        for (name, frame) in frames {
            let table = frame.into_view();
            self.session.context().register_table(name, table).map_err(fluvial::from_datafusion)?;
        }
        Ok(())
    }

    /// The same folder in a new session, with other settings.
    pub(super) async fn again(self, settings: &[(&str, &str)]) -> Result<Self> {
        let session = session_in(&self.folder, settings)?;
        let world = Self { session, folder: self.folder };
        world.register().await?;
        Ok(world)
    }

    /// A path in the folder.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file.
    pub(super) fn put(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    /// One more file of events, an hour later.
    pub(super) fn more_input(&self) {
        self.put("in/2.json", &lines(1));
    }

    /// A reader.
    pub(super) fn read_anything(&self) -> DataStreamReader {
        self.session.read_stream()
    }

    /// A reader with a schema.
    pub(super) fn read(&self, schema: &str) -> DataStreamReader {
        self.session.read_stream().schema(schema)
    }

    /// The stream of events.
    pub(super) async fn events(&self) -> Result<DataFrame> {
        self.read(SCHEMA).json("in").await
    }

    /// The stream of events, with a watermark.
    pub(super) async fn timed(&self) -> Result<DataFrame> {
        self.events().await?.with_watermark("ts", "10 minutes")
    }

    /// Plans a SELECT.
    pub(super) async fn frame(&self, query: &str) -> Result<DataFrame> {
        self.session.sql(query).await
    }

    /// Runs a SELECT to its end, with the world's checkpoint.
    pub(super) async fn run_sql(&self, query: &str, mode: OutputMode) -> Result<()> {
        self.run(self.frame(query).await?, mode).await
    }

    /// Runs a query to its end, with the world's checkpoint.
    pub(super) async fn run(&self, frame: DataFrame, mode: OutputMode) -> Result<()> {
        self.end(self.writer(frame, mode)?).await
    }

    /// Writes nowhere, with the world's checkpoint.
    pub(super) fn writer(&self, frame: DataFrame, mode: OutputMode) -> Result<DataStreamWriter> {
        Ok(frame
            .write_stream()?
            .format("noop")
            .output_mode(mode)
            .option("checkpointLocation", "checkpoint"))
    }

    /// Starts a writer and waits for its end.
    pub(super) async fn end(&self, writer: DataStreamWriter) -> Result<()> {
        wait(&writer.trigger(Trigger::AvailableNow).start().await?).await
    }

    /// The first of two runs, which is not the one that is asked about.
    pub(super) fn first(&self, result: Result<()>) -> Result<()> {
        result.map_err(|e| Error::invalid(format!("the first run: {e}")).with_condition("FIRST"))
    }
}

/// Waits for a query that ends by itself.
pub(super) async fn wait(query: &StreamingQuery) -> Result<()> {
    match query.await_termination_within(PATIENCE).await? {
        true => Ok(()),
        false => Err(Error::invalid("the query does not end").with_condition("HANGS")),
    }
}

fn session_in(folder: &TempDir, settings: &[(&str, &str)]) -> Result<Session> {
    let mut builder = Session::builder().base_dir(folder.path()).config("state.partitions", 2);
    for (name, value) in settings {
        builder = builder.config(*name, value);
    }
    builder.build()
}

fn lines(hour: u32) -> String {
    let line = |k: &str, minute: u32, v: i64| {
        format!(
            "{{\"k\": \"{k}\", \"ts\": \"2026-01-01T0{hour}:{minute:02}:00Z\", \"v\": {v}, \"d\": \"2026-01-01\"}}\n"
        )
    };
    [line("a", 0, 1), line("b", 1, 2), line("a", 40, 3)].concat()
}
