//! Deduplication: the first row of every key passes, later ones do not.
//!
//! State is a key and, where rows expire, when: nothing else of a row is kept. Of several rows with
//! one key the first in the order of the input survives, and that order is the exchange's, which is
//! the same in every replay.
//!
//! ```
//! use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch};
//! use arrow::datatypes::Int64Type;
//! use fluvial_core::*;
//! use fluvial_operators::Dedup;
//! use fluvial_state_memory::{MemoryBackend, Settings};
//! use std::sync::Arc;
//!
//! # fn main() -> Result<()> {
//! # fluvial_sim::block_on(async {
//! let numbers: ArrayRef = Arc::new(Int64Array::from(vec![7, 8, 7, 7, 8]));
//! let rows = RecordBatch::try_from_iter([("n", numbers)])?;
//! let dedup = Dedup::new(rows.schema(), vec![0], None)?;
//!
//! let store = Arc::new(object_store::memory::InMemory::new());
//! let backend = MemoryBackend::new(store, "state".into(), RunId::new("run")?, Settings::default());
//! let id = StoreId { operator: OperatorId::new("dedup")?, store: StoreName::new("default")? };
//! let key_groups = KeyGroupCount::DEFAULT;
//! let mut state = backend.open(&id, key_groups.all(), StateVersion(0), &[]).await?;
//! let mut run = dedup.start(BatchInfo {
//!     batch: BatchId(0),
//!     late: LateWatermark(None),
//!     evict: EvictWatermark(None),
//!     time: BatchTime(0),
//!     mode: OutputMode::Append,
//!     partition: PartitionId(0),
//!     groups: key_groups.all(),
//!     key_groups,
//!     batch_rows: 8192,
//!     late_rows: LateHandling::Drop,
//! })?;
//! run.push(0, rows, state.as_mut())?;
//! run.finish_input(state.as_mut())?;
//! let first = run.drain(state.as_mut())?.expect("two rows are left");
//! assert_eq!(first.column(0).as_primitive::<Int64Type>().values(), &[7, 8]);
//! assert_eq!(run.counts().rows.duplicate, 3);
//! drop(run);
//! backend.commit(vec![state.seal()?]).await?;
//! # Ok(())
//! # })
//! # }
//! ```

mod inspect;
mod run;
mod within;

pub(crate) use inspect::KeyTable;

use crate::event_time::{EventTimeKey, is_window_type};
use crate::watermark::OutputWatermark;
use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use fluvial_core::{
    BatchInfo, Error, EventDuration, EvictWatermark, KeyGroupCount, Operator, OperatorRun,
    OutputMode, Result, StateField, StateLayout, StateSchema,
};
use fluvial_state::{KeyCodec, KeyLayout};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Version of what is stored where keys are forgotten by a time among them, or never.
const FORMAT: u32 = 1;
/// Within the watermark: pages.
const FORMAT_WITHIN: u32 = 2;

/// Lets the first row of each key pass.
///
/// - With an event time *among the keys* ([`Self::new`]), a key is forgotten when the watermark
///   passes its time: a row with it would be late.
/// - Without, a key is never forgotten: state grows with the number of keys.
/// - *Within the watermark* ([`Self::within_watermark`]), a key is forgotten when the watermark
///   passes the time of its first row plus the delay; later rows of the key do not prolong it.
///
/// Rows that are late by the event time column are dropped and counted, whether or not it is among
/// the keys. The output mode makes no difference: what has passed is never taken back.
#[derive(Debug)]
pub struct Dedup {
    config: Arc<Config>,
}

/// What every run needs.
#[derive(Debug)]
struct Config {
    schema: SchemaRef,
    /// Positions of the key columns, rising.
    keys: Vec<usize>,
    /// Position of the column by which rows are late.
    event_time: Option<usize>,
    forget: Forget,
}

/// When a key is forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Forget {
    /// By the event time among the keys, if there is one; positions are those of the keys.
    ByKey(EventTimeKey),
    /// So long after its first row's time.
    After(EventDuration),
}

impl Config {
    fn key_codec(&self, key_groups: KeyGroupCount) -> Result<KeyCodec> {
        let layout = match self.forget {
            Forget::ByKey(EventTimeKey::None) | Forget::After(_) => KeyLayout::Key,
            Forget::ByKey(_) => KeyLayout::TimeKey,
        };
        let types = self.keys.iter().map(|&at| self.schema.field(at).data_type().clone());
        KeyCodec::new(layout, types.collect(), key_groups)
    }

    fn check_input(&self, port: usize, rows: &RecordBatch) -> Result<()> {
        let (columns, expected) = (rows.num_columns(), self.schema.fields().len());
        match port == 0 && columns == expected {
            true => Ok(()),
            false => Err(Error::invalid(format!(
                "a deduplication takes {expected} columns at port 0, not {columns} at port {port}"
            ))),
        }
    }

    fn key_columns(&self, rows: &RecordBatch) -> Vec<ArrayRef> {
        self.keys.iter().map(|&at| Arc::clone(rows.column(at))).collect()
    }
}

impl Dedup {
    /// Rows of `schema` that are duplicates if the columns `keys` are equal. Rows are late by the
    /// column `event_time`; if that is a key, it is how keys are forgotten.
    ///
    /// # Errors
    ///
    /// `Invalid` for columns that are not there or cannot be keys, and for an event time that is
    /// no time.
    pub fn new(schema: SchemaRef, keys: Vec<usize>, event_time: Option<usize>) -> Result<Self> {
        let keys = in_order(keys);
        let among = event_time.and_then(|time| keys.iter().position(|&key| key == time));
        let forget = match (among, event_time) {
            (Some(at), Some(time)) if is_window_type(data_type(&schema, time)?) => {
                EventTimeKey::Window(at)
            }
            (Some(at), _) => EventTimeKey::Column(at),
            (None, _) => EventTimeKey::None,
        };
        Self::checked(Config { schema, keys, event_time, forget: Forget::ByKey(forget) })
    }

    /// Rows that are duplicates if the columns `keys` are equal and the watermark has not passed
    /// the first one's `event_time` plus `delay`, which is the watermark's own.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn within_watermark(
        schema: SchemaRef,
        keys: Vec<usize>,
        event_time: usize,
        delay: EventDuration,
    ) -> Result<Self> {
        let (keys, event_time) = (in_order(keys), Some(event_time));
        Self::checked(Config { schema, keys, event_time, forget: Forget::After(delay) })
    }

    fn checked(config: Config) -> Result<Self> {
        for &key in &config.keys {
            data_type(&config.schema, key)?;
        }
        if let Some(time) = config.event_time {
            let time = data_type(&config.schema, time)?;
            let key = if is_window_type(time) {
                EventTimeKey::Window(0)
            } else {
                EventTimeKey::Column(0)
            };
            key.check(&[time])?;
        }
        config.key_codec(KeyGroupCount::DEFAULT)?;
        Ok(Self { config: Arc::new(config) })
    }

    /// Positions of the key columns, rising: what the exchange in front of it routes by.
    pub fn keys(&self) -> &[usize] {
        &self.config.keys
    }

    /// The codec of its keys: the exchange in front of it must use the same one, over the columns
    /// [`Self::keys`].
    ///
    /// # Errors
    ///
    /// None after a successful [`Self::new`].
    pub fn key_codec(&self, key_groups: KeyGroupCount) -> Result<KeyCodec> {
        self.config.key_codec(key_groups)
    }

    /// Whether its state is bounded by the watermark. If not, it grows with the number of keys.
    pub fn is_bounded(&self) -> bool {
        self.config.forget != Forget::ByKey(EventTimeKey::None)
    }

    /// How its input's watermark passes it: rows leave in the batch in which they came.
    pub const OUTPUT_WATERMARK: OutputWatermark = OutputWatermark::Passes;
}

/// The next rows of a queue, `limit` at most.
fn next_of(waiting: &mut VecDeque<RecordBatch>, limit: usize) -> Option<RecordBatch> {
    let (rows, limit) = (waiting.pop_front()?, limit.max(1));
    if rows.num_rows() > limit {
        waiting.push_front(rows.slice(limit, rows.num_rows() - limit));
    }
    Some(rows.slice(0, rows.num_rows().min(limit)))
}

fn in_order(mut keys: Vec<usize>) -> Vec<usize> {
    keys.sort_unstable();
    keys.dedup();
    keys
}

fn data_type(schema: &SchemaRef, at: usize) -> Result<&DataType> {
    match schema.fields().get(at) {
        Some(field) => Ok(field.data_type()),
        None => Err(Error::invalid(format!(
            "there is no column {at} to drop duplicates by: there are {}",
            schema.fields().len()
        ))),
    }
}

impl Operator for Dedup {
    fn kind(&self) -> &str {
        match self.config.forget {
            Forget::ByKey(_) => "dedupe",
            Forget::After(_) => "dedupeWithinWatermark",
        }
    }

    fn ports(&self) -> usize {
        1
    }

    fn output_schema(&self) -> SchemaRef {
        Arc::clone(&self.config.schema)
    }

    fn state_schema(&self) -> StateSchema {
        let keys = self.config.keys.iter().map(|&at| self.config.schema.field(at));
        StateSchema {
            kind: self.kind().to_owned(),
            format: match self.config.forget {
                Forget::ByKey(_) => FORMAT,
                Forget::After(_) => FORMAT_WITHIN,
            },
            keys: keys.map(|key| StateField::of(key.name(), key.data_type())).collect(),
            values: match self.config.forget {
                Forget::ByKey(_) => Vec::new(),
                Forget::After(_) => vec![StateField::of("expiresAtMicros", &DataType::Int64)],
            },
            // Which key is the event time decides where it stands in the bytes of a state key. The
            // delay may change: what is stored keeps its expiry.
            meaning: match self.config.forget {
                Forget::ByKey(EventTimeKey::Column(at) | EventTimeKey::Window(at)) => {
                    let name = self.config.schema.field(self.config.keys[at]).name();
                    BTreeMap::from([("event_time".to_owned(), name.clone())])
                }
                Forget::ByKey(EventTimeKey::None) | Forget::After(_) => BTreeMap::new(),
            },
            layout: Some(StateLayout {
                event_time: match self.config.forget {
                    Forget::ByKey(time) => time.recorded(),
                    Forget::After(_) => None,
                },
                ..StateLayout::default()
            }),
        }
    }

    fn wants_empty_batch(&self, _: OutputMode, from: EvictWatermark, to: EvictWatermark) -> bool {
        // As in Spark, also without an event time among the keys.
        to > from
    }

    fn start(&self, info: BatchInfo) -> Result<Box<dyn OperatorRun>> {
        Ok(match self.config.forget {
            Forget::ByKey(time) => Box::new(run::Run::new(&self.config, time, info)?),
            Forget::After(delay) => Box::new(within::Within::new(&self.config, info, delay)?),
        })
    }
}

#[cfg(test)]
mod tests;
