//! Rows for joins, and a way to run batches of them.

use crate::inspect::{StateView, testing::shown};
use crate::join::keys::{GROUP_BYTES, parse_point, parse_stored};
use crate::join::{JoinEviction, JoinKind, JoinRange, JoinSide, Side, StreamJoin, chunk};
use crate::pages::{self, Ledger, Stored};
use arrow::array::{
    Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, TimestampMicrosecondArray,
};
use arrow::datatypes::{
    DataType, Field, Int64Type, Schema, SchemaRef, TimeUnit, TimestampMicrosecondType,
};
use datafusion_common::ScalarValue;
use datafusion_expr::Operator as Op;
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::{BinaryExpr, Column, Literal};
use fluvial_conformance::operator::{Contents, TestStore};
use fluvial_core::{
    BatchId, BatchInfo, BatchTime, EventDuration, EventTime, EvictWatermark, KeyGroupCount,
    LateHandling, LateWatermark, Operator, OperatorCounts, OutputMode, PartitionId,
};
use fluvial_state::ValueCodec;
use std::sync::Arc;

pub(super) const SECOND: i64 = 1_000_000;

/// A row: key, time, value. The key is a float: zeros and NaNs are keys too.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct R {
    pub(super) k: Option<f64>,
    pub(super) t: Option<i64>,
    pub(super) v: i64,
}

/// A row with a key and a time in seconds.
pub(super) fn r(k: i64, seconds: i64, v: i64) -> R {
    R { k: Some(k as f64), t: Some(seconds.saturating_mul(SECOND)), v }
}

fn time_type() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, None)
}

pub(super) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("k", DataType::Float64, true),
        Field::new("t", time_type(), true),
        Field::new("v", DataType::Int64, false),
    ]))
}

pub(super) fn rows(rows: &[R]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(rows.iter().map(|r| r.k).collect::<Float64Array>()),
        Arc::new(rows.iter().map(|r| r.t).collect::<TimestampMicrosecondArray>()),
        Arc::new(rows.iter().map(|r| r.v).collect::<Int64Array>()),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// Column `at` of the rows of both sides.
pub(super) fn column(at: usize) -> Arc<dyn PhysicalExpr> {
    Arc::new(Column::new(["k", "t", "v"][at % 3], at))
}

pub(super) fn binary(
    left: Arc<dyn PhysicalExpr>,
    op: Op,
    right: Arc<dyn PhysicalExpr>,
) -> Arc<dyn PhysicalExpr> {
    Arc::new(BinaryExpr::new(left, op, right))
}

pub(super) fn literal(value: ScalarValue) -> Arc<dyn PhysicalExpr> {
    Arc::new(Literal::new(value))
}

fn plus(time: Arc<dyn PhysicalExpr>, micros: i64) -> Arc<dyn PhysicalExpr> {
    let nanos = i64::saturating_mul(micros, 1000);
    binary(time, Op::Plus, literal(ScalarValue::new_interval_mdn(0, 0, nanos)))
}

/// `left.t + lower <= right.t <= left.t + upper`, in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Within {
    pub(super) lower: i64,
    pub(super) upper: i64,
}

impl Within {
    pub(super) fn condition(self) -> Arc<dyn PhysicalExpr> {
        let from = binary(column(4), Op::GtEq, plus(column(1), self.lower * SECOND));
        let until = binary(column(4), Op::LtEq, plus(column(1), self.upper * SECOND));
        binary(from, Op::And, until)
    }

    pub(super) fn holds(self, left: i64, right: i64) -> bool {
        let apart = i128::from(right) - i128::from(left);
        (i128::from(self.lower * SECOND)..=i128::from(self.upper * SECOND)).contains(&apart)
    }

    /// What the planner derives: left rows that no right row after the watermark can match have
    /// a time before `watermark - upper`; right rows one before `watermark + lower`.
    pub(super) fn evictions(self) -> [JoinEviction; 2] {
        let offset = |seconds: i64| EventDuration(seconds * SECOND - 1000);
        [offset(-self.upper), offset(self.lower)]
            .map(|offset| JoinEviction::Time { column: 1, offset })
    }
}

/// A join of rows `k, t, v` on `k`, within a range of times.
pub(super) fn ranged(kind: JoinKind, within: Within) -> StreamJoin {
    let [left, right] = within.evictions().map(|eviction| side(vec![0], eviction));
    let range = JoinRange {
        left: 1,
        right: 1,
        lower: Some(EventDuration(within.lower * SECOND)),
        upper: Some(EventDuration(within.upper * SECOND)),
    };
    StreamJoin::new(kind, [left, right], vec![false], Some(within.condition()), Some(range))
        .unwrap()
}

/// A join on `k` and `t`, whose rows leave by the time in their keys.
pub(super) fn keyed(kind: JoinKind) -> StreamJoin {
    let both = [(); 2].map(|()| side(vec![0, 1], JoinEviction::Key(1)));
    StreamJoin::new(kind, both, vec![false; 2], None, None).unwrap()
}

pub(super) fn side(keys: Vec<usize>, eviction: JoinEviction) -> JoinSide {
    JoinSide { input: schema(), width: 3, keys, event_time: Some(1), filter: None, eviction }
}

/// A batch's watermarks, in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks {
    pub(super) late: Option<i64>,
    pub(super) evict: Option<i64>,
}

pub(super) fn marks(late: Option<i64>, evict: Option<i64>) -> Marks {
    Marks { late, evict }
}

/// A join that runs batch after batch.
pub(super) struct Query {
    pub(super) join: StreamJoin,
    pub(super) contents: Contents,
    pub(super) batch_rows: usize,
    batch: u64,
}

impl Query {
    pub(super) fn new(join: StreamJoin) -> Self {
        Self { join, contents: Contents::new(), batch_rows: 100, batch: 0 }
    }

    fn info(&self, marks: Marks) -> BatchInfo {
        let time = |seconds: Option<i64>| seconds.map(|s| EventTime(s.saturating_mul(SECOND)));
        BatchInfo {
            batch: BatchId(self.batch),
            late: LateWatermark(time(marks.late)),
            evict: EvictWatermark(time(marks.evict)),
            time: BatchTime(0),
            mode: OutputMode::Append,
            partition: PartitionId(0),
            groups: KeyGroupCount::DEFAULT.all(),
            key_groups: KeyGroupCount::DEFAULT,
            batch_rows: self.batch_rows,
            late_rows: LateHandling::Drop,
        }
    }

    /// The rows that wait, as a table.
    pub(super) fn shown(&self, view: &StateView) -> Vec<String> {
        shown(&self.join, view, &self.contents)
    }

    /// Runs a batch; returns its rows as sorted text, and its counts.
    pub(super) fn run(
        &mut self,
        left: &[R],
        right: &[R],
        marks: Marks,
    ) -> (Vec<String>, OperatorCounts) {
        let info = self.info(marks);
        self.batch += 1;
        let mut store = TestStore::open(&self.contents, info.groups);
        let mut run = self.join.start(info).unwrap();
        run.push(0, rows(left), &mut store).unwrap();
        run.push(1, rows(right), &mut store).unwrap();
        store.bring(&run.prefetch().unwrap());
        run.finish_input(&mut store).unwrap();
        store.bring(&run.prefetch().unwrap());
        let mut out = Vec::new();
        while let Some(rows) = run.drain(&mut store).unwrap() {
            assert!((1..=self.batch_rows).contains(&rows.num_rows()));
            out.extend(texts(&rows));
        }
        out.sort();
        self.contents = store.into_contents();
        let counts = run.counts();
        assert_eq!(counts.rows_total, stored(&self.contents).len() as u64);
        (out, counts)
    }
}

/// The values of output rows: `left-right`, `_` for none.
fn texts(rows: &RecordBatch) -> Vec<String> {
    let values = |at: usize| rows.column(at).as_primitive::<Int64Type>().clone();
    let text = |column: &Int64Array, row: usize| match column.is_valid(row) {
        true => column.value(row).to_string(),
        false => "_".to_owned(),
    };
    let left = values(2);
    match rows.num_columns() {
        3 => (0..rows.num_rows()).map(|row| text(&left, row)).collect(),
        _ => {
            let right = values(5);
            let both = |row| format!("{}-{}", text(&left, row), text(&right, row));
            (0..rows.num_rows()).map(both).collect()
        }
    }
}

/// What waits in a state: side, key, and each row's flag and columns.
pub(super) fn stored(contents: &Contents) -> Vec<(Side, Vec<u8>, bool, Vec<u8>)> {
    let mut all = Vec::new();
    for (key, value) in contents {
        let side = if key[GROUP_BYTES] & 1 == 0 { Side::Left } else { Side::Right };
        let row_key = match key[GROUP_BYTES] & !1 {
            0x10 => parse_point(key).unwrap().1,
            0x20 => &key[3..key.len() - 4],
            0x12 => {
                let rows = in_page(contents, key, value).into_iter();
                all.extend(rows.map(|columns| (side, key[..GROUP_BYTES].to_vec(), false, columns)));
                continue;
            }
            _ => continue,
        };
        for row in chunk::read(value).unwrap().1 {
            let row = row.unwrap();
            all.push((side, row_key.to_vec(), row.matched, row.columns.to_vec()));
        }
    }
    all
}

/// The rows of a page that have not left.
fn in_page(contents: &Contents, key: &[u8], page: &[u8]) -> Vec<Vec<u8>> {
    let Some(Stored::Page(number)) = parse_stored(key) else { return Vec::new() };
    let mut ledger = key[..=GROUP_BYTES].to_vec();
    ledger[GROUP_BYTES] += 2;
    let ledger = Ledger::read(&contents[&ledger]).unwrap();
    let block = ledger.blocks.iter().find(|block| block.number == number).unwrap();
    let rows: Vec<Vec<u8>> =
        pages::read(page).unwrap().map(|row| row.unwrap().1.to_vec()).collect();
    let types = schema().fields().iter().map(|field| field.data_type().clone()).collect();
    let codec = ValueCodec::new(types).unwrap();
    let columns = codec.decode_each(rows.iter().map(Vec::as_slice)).unwrap();
    let times = columns[1].as_primitive::<TimestampMicrosecondType>().clone();
    let left = |row: usize| {
        times.is_valid(row) && block.left_until().is_some_and(|until| times.value(row) <= until)
    };
    rows.into_iter().enumerate().filter(|(row, _)| !left(*row)).map(|(_, row)| row).collect()
}
