//! Streams beside DataFusion's own batch operators over everything received: random rows with
//! nulls, NaN and both zeros, cut into random batches. A failure names its seed.

use fluvial::MemorySource;
use fluvial::arrow::array::{
    ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, TimestampMicrosecondArray,
};
use fluvial::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use fluvial::arrow::util::display::{ArrayFormatter, FormatOptions};
use fluvial::datafusion::prelude::SessionContext;
use fluvial::prelude::*;
use std::sync::Arc;

const SEEDS: std::ops::Range<u64> = 0..6;
const SECOND: i64 = 1_000_000;
/// Rows of these times are in no window of the random ones: they only move the watermark.
const FAR: i64 = 1_000_000 * SECOND;

/// A small generator of numbers (xorshift).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

#[derive(Debug, Clone)]
struct Row {
    k: Option<String>,
    f: Option<f64>,
    at: i64,
    v: Option<i64>,
}

fn row(random: &mut Random) -> Row {
    let k = random.below(5);
    let f = match random.below(7) {
        0 => None,
        1 => Some(f64::NAN),
        2 => Some(-f64::NAN),
        3 => Some(0.0),
        4 => Some(-0.0),
        n => Some(n as f64),
    };
    let v = random.below(9);
    Row {
        k: (k > 0).then(|| format!("k{k}")),
        f,
        at: random.below(1200) as i64 * SECOND,
        v: (v > 0).then_some(v as i64),
    }
}

fn schema() -> SchemaRef {
    let time = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Utf8, true),
        Field::new("f", DataType::Float64, true),
        Field::new("at", time, true),
        Field::new("v", DataType::Int64, true),
    ]))
}

fn batch(rows: &[Row]) -> RecordBatch {
    let times = TimestampMicrosecondArray::from_iter_values(rows.iter().map(|row| row.at));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|row| row.k.clone()).collect::<StringArray>()),
        Arc::new(rows.iter().map(|row| row.f).collect::<Float64Array>()),
        Arc::new(times.with_timezone("UTC")),
        Arc::new(rows.iter().map(|row| row.v).collect::<Int64Array>()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// The same rows with one NaN and one zero, as keys of streams are: DataFusion tells them apart.
fn normal(rows: &[Row]) -> Vec<Row> {
    let one = |f: f64| if f.is_nan() { f64::NAN } else { f + 0.0 };
    rows.iter().map(|row| Row { f: row.f.map(one), ..row.clone() }).collect()
}

fn texts(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("null");
    let mut all = Vec::new();
    for rows in batches {
        let columns: Vec<_> = rows
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap())
            .collect();
        for row in 0..rows.num_rows() {
            let cells = columns.iter().map(|column| column.value(row).to_string());
            all.push(cells.collect::<Vec<_>>().join("|"));
        }
    }
    all.sort();
    all
}

/// What DataFusion itself makes of tables of these rows.
async fn in_batch(tables: &[(&str, &[Row])], sql: &str) -> Vec<String> {
    let context = SessionContext::new();
    for (name, rows) in tables {
        context.register_batch(*name, batch(&normal(rows))).unwrap();
    }
    texts(&context.sql(sql).await.unwrap().collect().await.unwrap())
}

/// Other partitions for each seed, and for every second so little memory that rows wait in files.
fn session(seed: u64) -> Session {
    let builder = Session::builder().config("state.partitions", 1 + seed % 3);
    match seed % 2 {
        0 => builder.build().unwrap(),
        _ => builder.config("batch.memory", "16k").build().unwrap(),
    }
}

/// A stream of rows of its own, by name, in the session.
fn stream(session: &Session, name: &str) -> (Arc<MemorySource>, DataFrame) {
    let source = Arc::new(MemorySource::new(name, schema()));
    let frame = session.read_stream().name(name).source(Arc::clone(&source) as _).unwrap();
    (source, frame.with_watermark("at", "1 hour").unwrap())
}

/// Writes a stream into the memory table `out`, feeding `sources` in random pieces and then with
/// `last`, and reads what came out.
async fn streamed(
    session: &Session,
    frame: DataFrame,
    mode: OutputMode,
    random: &mut Random,
    sources: &[(&MemorySource, &[Row])],
    last: &[Row],
) -> Vec<String> {
    let writer = frame.write_stream().unwrap().format("memory").query_name("out");
    let query = writer.output_mode(mode).start().await.unwrap();
    let mut left: Vec<&[Row]> = sources.iter().map(|(_, rows)| *rows).collect();
    while left.iter().any(|rows| !rows.is_empty()) {
        for ((source, _), rows) in sources.iter().zip(&mut left) {
            let size = rows.len().min(random.below(30) as usize);
            let (piece, rest) = rows.split_at(size);
            *rows = rest;
            source.add_data(batch(piece)).unwrap();
        }
        query.process_all_available().await.unwrap();
    }
    for (source, _) in sources.iter().filter(|_| !last.is_empty()) {
        source.add_data(batch(last)).unwrap();
    }
    query.process_all_available().await.unwrap();
    query.stop().await.unwrap();
    for progress in query.recent_progress() {
        for operator in &progress.state_operators {
            assert_eq!(operator.num_rows_dropped_by_watermark, 0, "nothing is late here");
        }
    }
    texts(&session.table("out").await.unwrap().collect().await.unwrap())
}

fn rows(random: &mut Random, count: u64) -> Vec<Row> {
    (0..count).map(|_| row(random)).collect()
}

#[tokio::test]
async fn an_aggregation_is_a_group_by() {
    let select = "SELECT k, f, count(*) AS n, count(v) AS vs, sum(v) AS total, min(v) AS low, \
                  max(at) AS newest FROM l GROUP BY k, f";
    for seed in SEEDS {
        let mut random = Random::new(seed + 1);
        let all = rows(&mut random, 200);
        let session = Session::builder().config("state.partitions", 1 + seed % 3).build().unwrap();
        let (source, frame) = stream(&session, "l");
        session.context().register_table("l", frame.into_view()).unwrap();
        let frame = session.sql(select).await.unwrap();
        let sources: [(&MemorySource, &[Row]); 1] = [(&source, &all)];
        let mode = OutputMode::Complete;
        let found = streamed(&session, frame, mode, &mut random, &sources, &[]).await;
        assert_eq!(found, in_batch(&[("l", &all)], select).await, "seed {seed}");
    }
}

#[tokio::test]
async fn dropping_duplicates_is_distinct() {
    for seed in SEEDS {
        let mut random = Random::new(seed + 100);
        let all = rows(&mut random, 150);
        let session = session(seed);
        let (source, frame) = stream(&session, "l");
        let once = frame.drop_duplicates(&["k", "f", "v"]).unwrap();
        let once = once.select(vec![col("k"), col("f") + lit(0.0), col("v")]).unwrap();
        let sources: [(&MemorySource, &[Row]); 1] = [(&source, &all)];
        let mode = OutputMode::Append;
        let found = streamed(&session, once, mode, &mut random, &sources, &[]).await;
        let expected = in_batch(&[("l", &all)], "SELECT DISTINCT k, f, v FROM l").await;
        assert_eq!(found, expected, "seed {seed}");
    }
}

#[tokio::test]
async fn a_join_of_streams_is_a_join() {
    let on = "l.k = r.k AND r.at >= l.at AND r.at <= l.at + INTERVAL '5 minutes'";
    let both = "l.k, l.at, l.v, r.k, r.at, r.v";
    let kinds = [
        ("JOIN", both, on.to_owned()),
        ("LEFT JOIN", both, format!("{on} AND l.v + r.v > 6")),
        ("RIGHT JOIN", both, format!("{on} AND r.v > 2")),
        ("FULL JOIN", both, on.to_owned()),
        ("LEFT SEMI JOIN", "l.k, l.at, l.v", on.to_owned()),
    ];
    for (number, (kind, columns, on)) in kinds.iter().enumerate() {
        let names = ["a", "b", "c", "d", "e", "g"];
        let named: Vec<String> =
            columns.split(", ").zip(names).map(|(c, name)| format!("{c} AS {name}")).collect();
        let select = format!("SELECT {} FROM l {kind} r ON {on}", named.join(", "));
        for seed in SEEDS {
            let mut random = Random::new(seed + 1000 * number as u64 + 7);
            let (left, right) = (rows(&mut random, 80), rows(&mut random, 80));
            let session = session(seed);
            let (l, frame) = stream(&session, "l");
            session.context().register_table("l", frame.into_view()).unwrap();
            let (r, frame) = stream(&session, "r");
            session.context().register_table("r", frame.into_view()).unwrap();
            let frame = session.sql(&select).await.unwrap();
            // Two rows that wait when all is over: what was before them leaves.
            // Their values are there, and fulfil every condition: rows that cannot match do not move the
            // watermark.
            let far = Row { k: Some("far".into()), f: None, at: FAR, v: Some(9) };
            let sources: [(&MemorySource, &[Row]); 2] = [(&l, &left), (&r, &right)];
            let mode = OutputMode::Append;
            let mut found = streamed(&session, frame, mode, &mut random, &sources, &[far]).await;
            found.retain(|row| !row.contains("far"));
            let expected = in_batch(&[("l", &left), ("r", &right)], &select).await;
            assert_eq!(found, expected, "{kind}, seed {seed}");
        }
    }
}

#[tokio::test]
async fn grouping_id_has_a_bit_for_each_group() {
    let mut random = Random::new(42);
    let all = rows(&mut random, 60);
    let session = Session::new().unwrap();
    let (source, frame) = stream(&session, "l");
    session.context().register_table("l", frame.into_view()).unwrap();
    let select =
        |id: &str| format!("SELECT k, v, {id} AS id, count(*) AS n FROM l GROUP BY ROLLUP (k, v)");
    let frame = session.sql(&select("grouping_id()")).await.unwrap();
    let sources: [(&MemorySource, &[Row]); 1] = [(&source, &all)];
    let mode = OutputMode::Complete;
    let found = streamed(&session, frame, mode, &mut random, &sources, &[]).await;
    let bits = select("grouping(k) * 2 + grouping(v)");
    assert_eq!(found, in_batch(&[("l", &all)], &bits).await);
    let named = session.sql(&select("grouping_id(k, v)")).await.unwrap();
    assert_eq!(named.schema().field(2).data_type(), &DataType::Int64);
    assert!(session.sql(&select("grouping_id(v, k)")).await.is_err(), "not the groups in order");
}
