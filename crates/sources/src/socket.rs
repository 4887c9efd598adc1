//! Lines from a TCP connection: for trying things out, as in Spark.
//!
//! A socket has no past. Lines wait in memory, so a batch can be replayed in this process; a later
//! one goes on with new lines, and a batch that was planned before and not finished cannot run.

use crate::memory::MemorySource;
use arrow::array::{ArrayRef, RecordBatch, StringBuilder, TimestampMicrosecondBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use fluvial_core::{
    Clock, Error, Frontier, Offset, Options, PlanRequest, Result, RowStream, Source, SourceRange,
    Split,
};
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Lines of one record batch, at most.
const LINES_MAX: usize = 1024;
/// Bytes of one line, at most: what sends no line end does not fill the memory.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// Rows of `value`, a line each without its end, and with `includeTimestamp` of `timestamp`: when
/// the line came, in microseconds UTC. Options: `host`, `port`, `includeTimestamp` (false).
///
/// It connects once, when the first batch is planned. *At most once* over restarts: what was read
/// and not yet in a finished batch is gone with the process.
pub struct SocketSource {
    address: (String, u16),
    timestamps: bool,
    clock: Arc<dyn Clock>,
    lines: Arc<MemorySource>,
    reader: Arc<Mutex<Reader>>,
}

#[derive(Debug)]
enum Reader {
    NotStarted,
    Running,
    /// What ended it; `None` if the other side closed the connection.
    Ended(Option<String>),
}

impl SocketSource {
    /// Reads the options.
    ///
    /// # Errors
    ///
    /// `Invalid`: no host or port, an unknown option, or a value that is not allowed.
    pub fn new(clock: Arc<dyn Clock>, mut options: Options) -> Result<Self> {
        let missing = |name: &str| {
            Error::invalid(format!("a socket needs the option '{name}'"))
                .with_condition("MISSING_OPTION")
        };
        let host = options.take("host").ok_or_else(|| missing("host"))?;
        let port = options.take_parsed("port", "a port: 1 to 65535")?;
        let port = port.ok_or_else(|| missing("port"))?;
        let timestamps = options.take_bool("includeTimestamp")?.unwrap_or(false);
        options.finish(&["host", "port", "includeTimestamp"])?;
        let mut fields = vec![Field::new("value", DataType::Utf8, true)];
        if timestamps {
            let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
            fields.push(Field::new("timestamp", utc, true));
        }
        let name = format!("{host}:{port}");
        Ok(Self {
            address: (host, port),
            timestamps,
            clock,
            lines: Arc::new(MemorySource::new(name, Arc::new(Schema::new(fields)))),
            reader: Arc::new(Mutex::new(Reader::NotStarted)),
        })
    }

    fn place(&self) -> String {
        format!("{}:{}", self.address.0, self.address.1)
    }

    /// Connects, unless that was done; says what ended the reader.
    fn connected(&self) -> Result<()> {
        let mut reader = lock(&self.reader);
        match &*reader {
            Reader::Running | Reader::Ended(None) => return Ok(()),
            Reader::Ended(Some(problem)) => {
                return Err(Error::unavailable(format!("socket {}: {problem}", self.place())));
            }
            Reader::NotStarted => {}
        }
        let lines = self.line_reader();
        let (address, state) = (self.address.clone(), self.reader.clone());
        let run = move || {
            let read = || -> std::result::Result<(), String> {
                let stream = TcpStream::connect(&address).map_err(|e| {
                    format!("no connection: {e}; is there a server, such as nc -lk PORT?")
                })?;
                lines.read(&mut BufReader::new(stream))
            };
            let end = Reader::Ended(read().err());
            *lock(&state) = end;
        };
        std::thread::Builder::new()
            .name("fluvial-socket".into())
            .spawn(run)
            .map_err(|e| Error::unavailable("no thread can be started").with_source(e))?;
        *reader = Reader::Running;
        Ok(())
    }

    fn line_reader(&self) -> LineReader {
        LineReader {
            lines: self.lines.clone(),
            timestamps: self.timestamps,
            clock: self.clock.clone(),
        }
    }
}

fn lock(reader: &Mutex<Reader>) -> MutexGuard<'_, Reader> {
    // It is replaced whole, so a poisoned one is whole too.
    reader.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Turns bytes into rows until they end.
struct LineReader {
    lines: Arc<MemorySource>,
    timestamps: bool,
    clock: Arc<dyn Clock>,
}

impl LineReader {
    fn read<R: Read>(&self, from: &mut BufReader<R>) -> std::result::Result<(), String> {
        let (mut values, mut times) = (StringBuilder::new(), TimestampMicrosecondBuilder::new());
        let mut rows = 0;
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = from.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            let read = read.map_err(|e| format!("the connection broke: {e}"))?;
            if read > 0 {
                if read as u64 == LINE_BYTES_MAX && line.last() != Some(&b'\n') {
                    return Err(format!("a line has more than {LINE_BYTES_MAX} bytes"));
                }
                let ends = b"\r\n";
                let end = line.iter().rposition(|b| !ends.contains(b)).map_or(0, |last| last + 1);
                values.append_value(String::from_utf8_lossy(&line[..end]));
                times.append_value(self.clock.now_ms().saturating_mul(1000));
                rows += 1;
            }
            // Whoever waits for a line gets it at once; who sends many has them together.
            let pause = read == 0 || from.buffer().is_empty() || rows == LINES_MAX;
            if pause && rows > 0 {
                self.push(values.finish(), times.finish())?;
                rows = 0;
            }
            if read == 0 {
                return Ok(());
            }
        }
    }

    fn push(
        &self,
        values: arrow::array::StringArray,
        times: arrow::array::TimestampMicrosecondArray,
    ) -> std::result::Result<(), String> {
        let mut columns: Vec<ArrayRef> = vec![Arc::new(values)];
        if self.timestamps {
            columns.push(Arc::new(times.with_timezone("UTC")));
        }
        let rows = RecordBatch::try_new(self.lines.schema(), columns).map_err(|e| e.to_string())?;
        self.lines.add_data(rows).map(drop).map_err(|e| e.to_string())
    }
}

impl fmt::Debug for SocketSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SocketSource").field("place", &self.place()).finish_non_exhaustive()
    }
}

#[async_trait]
impl Source for SocketSource {
    fn description(&self) -> String {
        format!("TextSocketV2[host: {}, port: {}]", self.address.0, self.address.1)
    }

    fn kind(&self) -> &str {
        "socket"
    }

    fn schema(&self) -> SchemaRef {
        self.lines.schema()
    }

    async fn initial(&self) -> Result<Offset> {
        self.lines.initial().await
    }

    async fn frontier(&self) -> Result<Frontier> {
        self.connected()?;
        self.lines.frontier().await
    }

    async fn plan(&self, request: PlanRequest<'_>) -> Result<Option<SourceRange>> {
        let connected = self.connected();
        // What came before the connection broke is read first.
        match self.lines.plan(request).await? {
            Some(range) => Ok(Some(range)),
            None => connected.map(|()| None),
        }
    }

    async fn adopt(&self, range: &SourceRange) -> Result<()> {
        self.lines.go_on_from(range.end.read()?);
        Ok(())
    }

    fn read(
        &self,
        range: &SourceRange,
        split: &Split,
        projection: Option<&[usize]>,
    ) -> Result<RowStream> {
        self.lines
            .read(range, split, projection)
            .map_err(|e| e.at(format!("socket {}", self.place())))
    }

    async fn release(&self, range: &SourceRange) -> Result<()> {
        self.lines.release(range).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use fluvial_core::{BatchId, ErrorKind, ReadLimit, RunId};
    use fluvial_sim::VirtualClock;
    use fluvial_sim::block_on;
    use futures::TryStreamExt;
    use std::io::Write;

    fn source(port: u16, timestamps: bool) -> SocketSource {
        let pairs = [
            ("host".to_owned(), "127.0.0.1".to_owned()),
            ("port".to_owned(), port.to_string()),
            ("includeTimestamp".to_owned(), timestamps.to_string()),
        ];
        SocketSource::new(Arc::new(VirtualClock::default()), Options::new(pairs)).unwrap()
    }

    fn plan(source: &SocketSource, start: &Offset) -> Result<Option<SourceRange>> {
        let run = RunId::new("r").unwrap();
        let (batch, limit, until) = (BatchId(0), ReadLimit::NONE, None);
        block_on(source.plan(PlanRequest { batch, run: &run, start, limit, until, splits: 1 }))
    }

    fn values(source: &SocketSource, range: &SourceRange) -> Result<Vec<String>> {
        let rows = source.read(range, &range.splits[0], None)?;
        let rows: Vec<RecordBatch> = block_on(rows.try_collect())?;
        let texts = |rows: &RecordBatch| -> Vec<String> {
            rows.column(0).as_string::<i32>().iter().map(|t| t.unwrap().to_owned()).collect()
        };
        Ok(rows.iter().flat_map(texts).collect())
    }

    #[test]
    fn lines_come_without_their_ends_and_with_their_time() {
        let source = source(1, true);
        source.line_reader().read(&mut BufReader::new(&b"a\nb\r\n\n\xffend"[..])).unwrap();
        *lock(&source.reader) = Reader::Ended(None);
        let range = plan(&source, &block_on(source.initial()).unwrap()).unwrap().unwrap();
        assert_eq!(values(&source, &range).unwrap(), ["a", "b", "", "\u{fffd}end"]);
        assert_eq!(source.schema().field(1).name(), "timestamp");
    }

    #[test]
    fn a_later_process_goes_on_with_new_lines_and_has_no_old_ones() {
        let source = source(1, false);
        *lock(&source.reader) = Reader::Ended(None);
        let offset = |n: u64| Offset::of(&n).unwrap();
        let splits = crate::numbers::cut(3, 5, 1).unwrap();
        let old = SourceRange { start: offset(3), end: offset(5), splits, log: None };
        block_on(source.adopt(&old)).unwrap();
        assert_eq!(values(&source, &old).unwrap_err().kind(), ErrorKind::NotFound);
        source.line_reader().read(&mut BufReader::new(&b"new\n"[..])).unwrap();
        let range = plan(&source, &offset(5)).unwrap().unwrap();
        assert_eq!(
            (range.end.clone(), values(&source, &range).unwrap()),
            (offset(6), vec!["new".into()])
        );
        block_on(source.adopt(&range)).unwrap();
        assert_eq!(values(&source, &range).unwrap(), ["new"]);
    }

    #[test]
    fn it_reads_a_real_connection_and_says_when_there_is_none() {
        let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = server.local_addr().unwrap().port();
        let reading = source(port, false);
        let initial = block_on(reading.initial()).unwrap();
        assert_eq!(plan(&reading, &initial).unwrap(), None);
        let (mut connection, _) = server.accept().unwrap();
        connection.write_all(b"one\ntwo\n").unwrap();
        drop((connection, server));
        while !matches!(*lock(&reading.reader), Reader::Ended(_)) {
            std::thread::yield_now();
        }
        let range = plan(&reading, &initial).unwrap().unwrap();
        assert_eq!(values(&reading, &range).unwrap(), ["one", "two"]);

        let nobody = source(port, false);
        let error = loop {
            match plan(&nobody, &initial) {
                Ok(None) => std::thread::yield_now(),
                other => break other.unwrap_err(),
            }
        };
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.message().contains("nc -lk"), "{error}");
    }

    #[test]
    fn options_are_checked() {
        let make = |pairs: &[(&str, &str)]| {
            let clock = Arc::new(VirtualClock::default());
            SocketSource::new(clock, Options::new(pairs.iter().copied())).unwrap_err()
        };
        assert!(make(&[("port", "1")]).message().contains("'host'"));
        assert!(make(&[("host", "h"), ("port", "70000")]).message().contains("a port"));
        let error = make(&[("host", "h"), ("port", "1"), ("includeTimestamps", "true")]);
        assert!(error.message().contains("includeTimestamp"), "{error}");
    }
}
