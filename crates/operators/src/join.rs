//! Joins of two streams.
//!
//! Every row waits in the state of its side until nothing can match it any more, and is met there
//! by the rows of the other side. A batch is joined as columns: the keys of both sides are
//! numbered, the rows that wait for them are fetched in one read, pairs are made of positions, the
//! condition is tested on whole columns, and what is left is taken from them.
//!
//! A row that must remember whether it matched is stored under its key. Where rows leave in silence
//! when their time has passed, they are stored as they come, in pages of a few hundred: see
//! [`ledger`].

mod arrived;
mod chunk;
mod counts;
mod distinct;
mod evict;
mod expiry;
mod inspect;
mod keys;
mod kind;
mod leaving;
mod lists;
mod matching;
mod paged;
mod run;
mod settle;
mod side;
mod stored;

pub(crate) use inspect::SideTable;
pub use kind::{JoinKind, Side};
pub use side::{JoinEviction, JoinRange, JoinSide};

use crate::watermark::OutputWatermark;
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion_physical_expr::PhysicalExpr;
use fluvial_core::{
    BatchInfo, Error, EventDuration, EvictWatermark, KeyGroupCount, Operator, OperatorRun,
    OutputMode, PageLayout, Result, StateField, StateLayout, StateSchema,
};
use fluvial_state::{KeyCodec, KeyLayout, ValueCodec};
use side::Condition;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Version of what is stored: key spaces, chunks and runs, ledgers and pages.
const FORMAT: u32 = 2;

/// A join of two streams on equal keys and any further condition.
///
/// - Keys are equal as state keys are: -0.0 is 0.0, NaN is NaN. A null key matches nothing, unless
///   its position is null-safe (`<=>`).
/// - Each pair comes out once, in the batch in which the later of its rows came.
/// - A row of a preserved side that never matched comes out with nulls when it leaves the state,
///   that is, when the watermark says that nothing can match it any more. Whether it ever matched
///   is stored with it.
/// - Rows that come too late for their side are dropped and counted. A row that nothing later can
///   match still meets what is stored and what comes in its batch, and is not stored.
///
/// Memory: a batch's input, the stored rows of its keys, and one output batch. The pairs of a hot
/// key are never held together.
///
/// ```
/// use arrow::array::{ArrayRef, Int64Array, RecordBatch, TimestampMicrosecondArray};
/// # use fluvial_conformance::operator::{Contents, TestStore};
/// use fluvial_core::{
///     BatchId, BatchInfo, BatchTime, EventDuration, EventTime, EvictWatermark, KeyGroupCount,
///     LateHandling, LateWatermark, Operator, OutputMode, PartitionId,
/// };
/// use fluvial_operators::{JoinEviction, JoinKind, JoinSide, StreamJoin};
/// use std::sync::Arc;
///
/// // Rows `id, at`, joined on `id` where both came within ten seconds.
/// let rows = |ids: Vec<i64>, at: Vec<i64>| {
///     let at = TimestampMicrosecondArray::from_iter_values(at.iter().map(|s| s * 1_000_000));
///     RecordBatch::try_from_iter([
///         ("id", Arc::new(Int64Array::from(ids)) as ArrayRef),
///         ("at", Arc::new(at) as ArrayRef),
///     ])
/// };
/// let side = || -> fluvial_core::Result<JoinSide> {
///     let offset = EventDuration(-10_000_000);
///     Ok(JoinSide {
///         input: rows(vec![], vec![])?.schema(),
///         width: 2,
///         keys: vec![0],
///         event_time: Some(1),
///         filter: None,
///         eviction: JoinEviction::Time { column: 1, offset },
///     })
/// };
/// let join = StreamJoin::new(JoinKind::Left, [side()?, side()?], vec![false], None, None)?;
///
/// // One batch on one partition, with any state store.
/// let batch = |number: u64, watermark: i64| {
///     let watermark = Some(EventTime(watermark * 1_000_000));
///     BatchInfo {
///         batch: BatchId(number),
///         late: LateWatermark(None),
///         evict: EvictWatermark(watermark),
///         time: BatchTime(0),
///         mode: OutputMode::Append,
///         partition: PartitionId(0),
///         groups: KeyGroupCount::DEFAULT.all(),
///         key_groups: KeyGroupCount::DEFAULT,
///         batch_rows: 8192,
///         late_rows: LateHandling::Drop,
///     }
/// };
/// # let groups = KeyGroupCount::DEFAULT.all();
/// # let mut store = TestStore::open(&Contents::new(), groups);
/// # store.bring(&fluvial_core::Prefetch::Ranges(vec![fluvial_core::KeyRange::all()]));
/// # let state = &mut store;
/// let mut run = join.start(batch(0, 0))?;
/// run.push(0, rows(vec![1, 2], vec![5, 6])?, state)?;
/// run.push(1, rows(vec![1], vec![8])?, state)?;
/// run.finish_input(state)?;
/// let pairs = run.drain(state)?.map(|pairs| pairs.num_rows());
/// assert_eq!(pairs, Some(1), "the rows with id 1");
/// assert!(run.drain(state)?.is_none());
///
/// // Once nothing can match it any more, the other left row comes out, with nulls.
/// let mut run = join.start(batch(1, 20))?;
/// run.finish_input(state)?;
/// let alone = run.drain(state)?.map(|alone| alone.column(2).null_count());
/// assert_eq!(alone, Some(1));
/// # use arrow::array::Array;
/// # while run.drain(state)?.is_some() {}
/// assert_eq!(run.counts().rows_total, 0);
/// # Ok::<(), fluvial_core::Error>(())
/// ```
#[derive(Debug)]
pub struct StreamJoin {
    config: Arc<Config>,
}

/// What every run needs.
#[derive(Debug)]
struct Config {
    kind: JoinKind,
    sides: [JoinSide; 2],
    null_safe: Vec<bool>,
    condition: Option<Condition>,
    range: Option<JoinRange>,
    output: SchemaRef,
}

impl Config {
    fn key_codec(&self, key_groups: KeyGroupCount) -> Result<KeyCodec> {
        KeyCodec::new(KeyLayout::Key, self.sides[0].key_types(), key_groups)
    }

    fn value_codecs(&self) -> Result<[ValueCodec; 2]> {
        let types = |side: Side| {
            let config = self.side(side);
            let mut types = config.row_types();
            if self.is_paged(side) {
                let extra = config.keys.iter().filter(|key| **key >= config.width);
                types.extend(extra.map(|key| config.input.field(*key).data_type().clone()));
            }
            types
        };
        Ok([ValueCodec::new(types(Side::Left))?, ValueCodec::new(types(Side::Right))?])
    }

    /// Whether the stored rows of a side lie in pages: they leave by their time, and nobody need
    /// know of each whether it matched.
    fn is_paged(&self, side: Side) -> bool {
        let by_time = matches!(self.side(side).eviction, JoinEviction::Time { .. });
        by_time && !self.kind.flags(side)
    }

    /// Where the keys of a side are among the columns of its rows in pages: behind them, if they
    /// are no column of the row.
    fn stored_keys(&self, side: Side) -> Vec<usize> {
        let config = self.side(side);
        let mut extra = config.width..;
        let place = |key: &usize| if *key < config.width { Some(*key) } else { extra.next() };
        config.keys.iter().filter_map(place).collect()
    }

    fn side(&self, side: Side) -> &JoinSide {
        &self.sides[side.index()]
    }
}

impl StreamJoin {
    /// A join of rows whose keys are equal. `null_safe` says for each key whether null equals null.
    /// `condition` reads the columns of the left row, then those of the right; `range` is what it
    /// implies for their times, if anything.
    ///
    /// # Errors
    ///
    /// `Invalid` if the sides do not fit together, or without a key.
    pub fn new(
        kind: JoinKind,
        [left, right]: [JoinSide; 2],
        null_safe: Vec<bool>,
        condition: Option<Arc<dyn PhysicalExpr>>,
        range: Option<JoinRange>,
    ) -> Result<Self> {
        left.check(Side::Left)?;
        right.check(Side::Right)?;
        let sides = [left, right];
        check(&sides, &null_safe, range)?;
        let condition = condition.map(|expr| Condition::new(expr, &sides)).transpose()?;
        let output = output_schema(kind, &sides);
        let config = Config { kind, sides, null_safe, condition, range, output };
        config.key_codec(KeyGroupCount::DEFAULT)?;
        config.value_codecs()?;
        Ok(Self { config: Arc::new(config) })
    }

    /// The codec of its keys: the exchanges in front of it must use the same one, over
    /// [`JoinSide::keys`].
    ///
    /// # Errors
    ///
    /// None after a successful [`Self::new`].
    pub fn key_codec(&self, key_groups: KeyGroupCount) -> Result<KeyCodec> {
        self.config.key_codec(key_groups)
    }

    /// The kind of the join.
    pub fn join_kind(&self) -> JoinKind {
        self.config.kind
    }

    /// How the watermark of its inputs passes it: rows may come out as old as what still waits.
    pub fn output_watermark(&self) -> OutputWatermark {
        join_output_watermark(self.config.sides.each_ref().map(|side| side.eviction))
    }
}

/// How a watermark passes a join whose sides are evicted like this: rows of either side may come
/// out as long as they wait, so the slower side counts.
pub fn join_output_watermark(evictions: [JoinEviction; 2]) -> OutputWatermark {
    let behind = evictions.map(|eviction| match eviction {
        JoinEviction::Time { offset, .. } => offset.0.saturating_neg().max(0),
        JoinEviction::Never | JoinEviction::Key(_) => 0,
    });
    match behind[0].max(behind[1]) {
        0 => OutputWatermark::Passes,
        delay => OutputWatermark::Delayed(EventDuration(delay)),
    }
}

fn check(sides: &[JoinSide; 2], null_safe: &[bool], range: Option<JoinRange>) -> Result<()> {
    let [left, right] = sides;
    if left.keys.is_empty() || left.key_types() != right.key_types() {
        let (left, right) = (left.key_types(), right.key_types());
        return Err(Error::invalid(format!(
            "a join of two streams needs keys of equal types, not {left:?} and {right:?}"
        )));
    }
    if null_safe.len() != left.keys.len() {
        let (keys, flags) = (left.keys.len(), null_safe.len());
        return Err(Error::invalid(format!("{keys} join keys have {flags} flags for their nulls")));
    }
    let key = |side: &JoinSide| match side.eviction {
        JoinEviction::Key(key) => Some(key),
        JoinEviction::Never | JoinEviction::Time { .. } => None,
    };
    if key(left) != key(right) {
        return Err(Error::invalid(
            "a watermark on a key of a join is one on both sides: equal keys have equal times",
        ));
    }
    let timed = |range: JoinRange| left.is_time(range.left) && right.is_time(range.right);
    if range.is_some_and(|range| !timed(range)) {
        return Err(Error::invalid("the range of a join is over timestamps in microseconds"));
    }
    Ok(())
}

/// The rows that come out: both sides, or the left one; whatever may be filled with nulls is
/// nullable.
fn output_schema(kind: JoinKind, [left, right]: &[JoinSide; 2]) -> SchemaRef {
    let field = |field: &Arc<Field>, filled: bool| match filled {
        true => Arc::new(field.as_ref().clone().with_nullable(true)),
        false => Arc::clone(field),
    };
    let mut fields: Vec<Arc<Field>> =
        left.row_fields().map(|f| field(f, kind.preserves(Side::Right))).collect();
    if kind != JoinKind::LeftSemi {
        fields.extend(right.row_fields().map(|f| field(f, kind.preserves(Side::Left))));
    }
    Arc::new(Schema::new(fields))
}

impl Operator for StreamJoin {
    fn kind(&self) -> &str {
        "symmetricHashJoin"
    }

    fn ports(&self) -> usize {
        2
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.config.output)
    }

    fn state_schema(&self) -> StateSchema {
        let named = |name: String, field: &Field| StateField::of(name, field.data_type());
        let [left, right] = &self.config.sides;
        let keys = left.keys.iter().zip(&right.keys).map(|(l, r)| {
            let (l, r) = (left.input.field(*l), right.input.field(*r));
            named(format!("{} = {}", l.name(), r.name()), l)
        });
        let values = Side::BOTH.into_iter().flat_map(|side| {
            let fields = self.config.side(side).row_fields();
            fields.map(move |field| named(format!("{side}.{}", field.name()), field))
        });
        let kept = |side: Side| {
            let config = self.config.side(side);
            (format!("{side} rows are kept"), config.eviction.meaning(config))
        };
        let mut meaning = BTreeMap::from(Side::BOTH.map(kept));
        let keys: Vec<StateField> = keys.collect();
        // A stored column cannot get another name, so another name is another key.
        let names: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
        meaning.insert("keys".to_owned(), names.join(", "));
        meaning.insert("join type".to_owned(), self.config.kind.to_string());
        let paged = Side::BOTH.into_iter().filter(|side| self.config.is_paged(*side));
        let pages = paged.filter_map(|side| match self.config.side(side).eviction {
            JoinEviction::Time { column, .. } => Some(PageLayout {
                side: side.index(),
                keys: self.config.stored_keys(side),
                time: column,
            }),
            JoinEviction::Never | JoinEviction::Key(_) => None,
        });
        StateSchema {
            kind: self.kind().to_owned(),
            format: FORMAT,
            keys,
            values: values.collect(),
            meaning,
            layout: Some(StateLayout { pages: pages.collect(), ..StateLayout::default() }),
        }
    }

    fn wants_empty_batch(
        &self,
        mode: OutputMode,
        from: EvictWatermark,
        to: EvictWatermark,
    ) -> bool {
        let evicts = self.config.sides.iter().any(|side| side.eviction != JoinEviction::Never);
        mode != OutputMode::Complete && evicts && to > from
    }

    fn start(&self, info: BatchInfo) -> Result<Box<dyn OperatorRun>> {
        let final_rows = matches!(self.config.kind, JoinKind::Inner | JoinKind::LeftSemi);
        if info.mode == OutputMode::Complete || (info.mode == OutputMode::Update && !final_rows) {
            return Err(Error::invalid(format!(
                "a {} join of two streams needs append mode, not {}",
                self.config.kind, info.mode
            ))
            .with_condition("STREAM_STREAM_JOIN_NOT_SUPPORTED_IN_MODE"));
        }
        Ok(Box::new(run::Run::new(&self.config, info)?))
    }
}

#[cfg(test)]
mod tests;
