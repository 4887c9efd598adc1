//! Settings of a session, by our names and by Spark's.

use chrono_tz::Tz;
use fluvial_core::options::{Options, nearest};
use fluvial_core::{Error, NameCase, Result, WatermarkPolicy, WatermarkScope};
use fluvial_engine::EmptyBatches;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a session and its queries are set to.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionSettings {
    /// The session's time zone, an IANA name. How timestamps without a zone are read, and how
    /// timestamps are shown.
    pub timezone: String,
    /// State partitions of new batches.
    pub state_partitions: u32,
    /// Into how many parts the input of a batch is cut, to be read at once.
    pub input_splits: usize,
    /// Which backend keeps state.
    pub state_backend: StateBackendKind,
    /// For which checkpoints.
    pub state_backend_for: BackendFor,
    /// Bytes of memory that the state of all queries of a session may take together.
    pub state_memory: Option<u64>,
    /// Bytes of memory that the batches of all queries of a session may take together: rows that
    /// wait between operators, sorts, partial groups. What does not fit goes to temporary files.
    pub batch_memory: Option<u64>,
    /// A local folder for blocks of state that were read from the checkpoint's store, for `lsm`.
    pub state_cache: Option<PathBuf>,
    /// Bytes that the blocks of one query may take there.
    pub state_cache_max: u64,
    /// How the watermarks of several inputs combine; pinned by a query's first batch.
    pub watermark_policy: WatermarkPolicy,
    /// Which watermark each stateful operator sees; pinned by a query's first batch.
    pub watermark_scope: WatermarkScope,
    /// Whether a batch may run only because the watermark moved.
    pub empty_batches: EmptyBatches,
    /// How many batches can be recovered from.
    pub batches_retained: usize,
    /// Below it a query without a checkpoint location has its checkpoint, under its name.
    pub checkpoint_location: Option<String>,
    /// Whether `k` and `K` are different columns.
    pub case: NameCase,
    /// Whether a stream may find its schema in the files that are there.
    pub schema_inference: SchemaInference,
    /// Options of object stores: `storage.aws_region` and the like, without the prefix.
    pub storage: BTreeMap<String, String>,
}

/// The backends that there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StateBackendKind {
    /// In memory, with deltas and snapshots on the checkpoint's store.
    Memory,
    /// As sorted runs on the checkpoint's store, read lazily: in bounded memory.
    #[cfg(feature = "lsm")]
    Lsm,
    /// The one that [`SessionBuilder::state_backend`](crate::SessionBuilder::state_backend) gave.
    Own,
}

impl StateBackendKind {
    /// The one of ours that has a format.
    pub(crate) fn of_format(format: &str) -> Option<Self> {
        match format {
            "memory" => Some(Self::Memory),
            #[cfg(feature = "lsm")]
            "lsm" => Some(Self::Lsm),
            _ => None,
        }
    }
}

/// For which checkpoints a choice of a backend holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackendFor {
    /// For all: one with state of another backend is refused.
    All,
    /// For new ones: one that has state goes on with the backend that it has. So it is with Spark's
    /// names of providers, because in Spark a query goes on with the provider that it began with.
    New,
}

/// Whether a stream over files may do without a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaInference {
    /// It needs one.
    Refused,
    /// It looks at the files that are there.
    Allowed,
}

impl Default for SessionSettings {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            timezone: "UTC".into(),
            state_partitions: u32::try_from(cores).unwrap_or(1),
            input_splits: cores,
            state_backend: StateBackendKind::Memory,
            state_backend_for: BackendFor::All,
            state_memory: None,
            batch_memory: None,
            state_cache: None,
            state_cache_max: 10 << 30,
            watermark_policy: WatermarkPolicy::Min,
            watermark_scope: WatermarkScope::Operator,
            empty_batches: EmptyBatches::WhenWanted,
            batches_retained: 100,
            checkpoint_location: None,
            case: NameCase::Insensitive,
            schema_inference: SchemaInference::Refused,
            storage: BTreeMap::new(),
        }
    }
}

/// Our name, then Spark's, if it has one.
const NAMES: &[(&str, &str)] = &[
    ("timezone", "spark.sql.session.timeZone"),
    ("state.partitions", "spark.sql.shuffle.partitions"),
    ("input.splits", "spark.sql.leafNodeDefaultParallelism"),
    ("state.backend", "spark.sql.streaming.stateStore.providerClass"),
    ("state.memory", "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB"),
    ("batch.memory", "datafusion.runtime.memory_limit"),
    ("state.cache", ""),
    ("state.cache.max", ""),
    ("watermark.policy", "spark.sql.streaming.multipleWatermarkPolicy"),
    ("watermark.scope", "spark.sql.streaming.statefulOperator.allowMultiple"),
    ("batches.empty", "spark.sql.streaming.noDataMicroBatches.enabled"),
    ("batches.retained", "spark.sql.streaming.minBatchesToRetain"),
    ("checkpoint.location", "spark.sql.streaming.checkpointLocation"),
    ("case.sensitive", "spark.sql.caseSensitive"),
    ("schema.inference", "spark.sql.streaming.schemaInference"),
];

/// Settings of Spark that ask for what is always so here: accepted if they ask for that.
const ALWAYS: &[(&str, &[&str])] = &[
    ("spark.sql.ansi.enabled", &["true"]),
    ("spark.sql.streaming.unsupportedOperationCheck", &["true"]),
    ("spark.sql.streaming.statefulOperator.checkCorrectness.enabled", &["true"]),
    ("spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage", &["true", "false"]),
    ("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", &["true", "false"]),
    ("spark.sql.streaming.fileSource.log.compactInterval", &[]),
    ("spark.sql.streaming.fileSource.log.deletion", &["true", "false"]),
    ("spark.sql.streaming.sessionWindow.merge.sessions.in.local.partition", &["true", "false"]),
    ("spark.sql.streaming.stateStore.minDeltasForSnapshot", &[]),
];

impl SessionSettings {
    /// The session's time zone.
    ///
    /// # Errors
    ///
    /// `INVALID_SETTING` if [`Self::timezone`] is none.
    pub fn zone(&self) -> Result<Tz> {
        zone("timezone", &self.timezone)
    }

    /// Sets one setting.
    ///
    /// # Errors
    ///
    /// `Invalid`: an unknown name, with the nearest known one, or a value that does not fit.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        if let Some(option) = name.strip_prefix("storage.") {
            self.storage.insert(option.to_ascii_lowercase(), value.to_owned());
            return Ok(());
        }
        let is = |known: &&(&str, &str)| {
            name.eq_ignore_ascii_case(known.0) || name.eq_ignore_ascii_case(known.1)
        };
        let Some((ours, _)) = NAMES.iter().find(is) else { return always(name, value) };
        match *ours {
            "timezone" => {
                zone(name, value)?;
                value.clone_into(&mut self.timezone);
            }
            "state.partitions" => self.state_partitions = positive(name, value)?,
            "input.splits" => self.input_splits = positive(name, value)? as usize,
            "state.backend" => {
                (self.state_backend, self.state_backend_for) = backend(name, value)?;
            }
            "state.memory" => self.state_memory = Some(memory(name, value)?),
            "batch.memory" => self.batch_memory = Some(memory(name, value)?),
            "state.cache" => {
                self.state_cache = Some(value).filter(|folder| !folder.is_empty()).map(Into::into);
            }
            "state.cache.max" => self.state_cache_max = bytes(name, value.trim().to_owned())?,
            "watermark.policy" => {
                self.watermark_policy = match value.to_ascii_lowercase().as_str() {
                    "min" => WatermarkPolicy::Min,
                    "max" => WatermarkPolicy::Max,
                    _ => return Err(bad(name, value, "min or max")),
                }
            }
            "watermark.scope" => {
                self.watermark_scope = match value.to_ascii_lowercase().as_str() {
                    "operator" | "true" => WatermarkScope::Operator,
                    "query" | "false" => WatermarkScope::Query,
                    _ => return Err(bad(name, value, "operator or query")),
                }
            }
            "batches.empty" => {
                self.empty_batches = match boolean(name, value)? {
                    true => EmptyBatches::WhenWanted,
                    false => EmptyBatches::Never,
                }
            }
            "batches.retained" => self.batches_retained = positive(name, value)? as usize,
            "checkpoint.location" => self.checkpoint_location = Some(value.to_owned()),
            "case.sensitive" => {
                self.case = match boolean(name, value)? {
                    true => NameCase::Sensitive,
                    false => NameCase::Insensitive,
                }
            }
            _ => {
                self.schema_inference = match boolean(name, value)? {
                    true => SchemaInference::Allowed,
                    false => SchemaInference::Refused,
                }
            }
        }
        Ok(())
    }
}

fn always(name: &str, value: &str) -> Result<()> {
    if let Some((_, values)) = ALWAYS.iter().find(|(known, _)| name.eq_ignore_ascii_case(known)) {
        if values.is_empty() || values.iter().any(|v| value.eq_ignore_ascii_case(v)) {
            return Ok(());
        }
        return Err(bad(name, value, &values.join(" or ")));
    }
    let known = NAMES.iter().flat_map(|(ours, spark)| [*ours, *spark]);
    let known: Vec<&str> = known.filter(|known| !known.is_empty()).collect();
    let hint = match nearest(name, &known) {
        Some(near) => format!("did you mean {near}?"),
        None => {
            let ours: Vec<&str> = NAMES.iter().map(|(ours, _)| *ours).collect();
            format!("known are {}", ours.join(", "))
        }
    };
    Err(Error::invalid(format!("unknown setting {name}: {hint}")).with_condition("UNKNOWN_SETTING"))
}

fn backend(name: &str, value: &str) -> Result<(StateBackendKind, BackendFor)> {
    let class = value.rsplit('.').next().unwrap_or(value).to_ascii_lowercase();
    match class.as_str() {
        "memory" => Ok((StateBackendKind::Memory, BackendFor::All)),
        "hdfsbackedstatestoreprovider" => Ok((StateBackendKind::Memory, BackendFor::New)),
        #[cfg(feature = "lsm")]
        "lsm" => Ok((StateBackendKind::Lsm, BackendFor::All)),
        #[cfg(feature = "lsm")]
        "rocksdbstatestoreprovider" => Ok((StateBackendKind::Lsm, BackendFor::New)),
        "own" => Ok((StateBackendKind::Own, BackendFor::All)),
        _ => Err(bad(name, value, "memory, lsm, or own for the session's own")),
    }
}

/// Bytes, with or without a unit; megabytes by the name that Spark has.
fn memory(name: &str, value: &str) -> Result<u64> {
    let megabytes = name.to_ascii_lowercase().ends_with("mb");
    let unit = if megabytes { "m" } else { "" };
    bytes(name, format!("{}{unit}", value.trim()))
}

fn bytes(name: &str, value: String) -> Result<u64> {
    match Options::new([(name, value.clone())]).take_bytes(name) {
        Ok(Some(bytes)) => Ok(bytes.get()),
        _ => Err(bad(name, &value, "a number of bytes such as 536870912 or 512m")),
    }
}

fn positive(name: &str, value: &str) -> Result<u32> {
    match value.trim().parse::<u32>() {
        Ok(number) if number > 0 => Ok(number),
        _ => Err(bad(name, value, "a positive whole number")),
    }
}

fn boolean(name: &str, value: &str) -> Result<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(bad(name, value, "true or false")),
    }
}

fn zone(name: &str, value: &str) -> Result<Tz> {
    let expected = "an IANA time zone such as UTC or Europe/Berlin";
    value.parse().map_err(|_| bad(name, value, expected))
}

fn bad(name: &str, value: &str, expected: &str) -> Error {
    Error::invalid(format!("{name} is {value:?}, but must be {expected}"))
        .with_condition("INVALID_SETTING")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spark_names_are_aliases() {
        let mut settings = SessionSettings::default();
        settings.set("spark.sql.shuffle.partitions", "3").unwrap();
        assert_eq!(settings.state_partitions, 3);
        settings.set("state.partitions", "5").unwrap();
        assert_eq!(settings.state_partitions, 5);
        #[cfg(feature = "lsm")]
        {
            let rocks = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider";
            settings.set("spark.sql.streaming.stateStore.providerClass", rocks).unwrap();
            let set = (settings.state_backend, settings.state_backend_for);
            assert_eq!(set, (StateBackendKind::Lsm, BackendFor::New));
        }
        settings.set("state.memory", "512m").unwrap();
        assert_eq!(settings.state_memory, Some(512 << 20));
        settings.set("spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB", "2").unwrap();
        assert_eq!(settings.state_memory, Some(2 << 20));
        settings.set("state.cache", "/tmp/blocks").unwrap();
        settings.set("state.cache.max", "1g").unwrap();
        assert_eq!(settings.state_cache, Some("/tmp/blocks".into()));
        assert_eq!(settings.state_cache_max, 1 << 30);
        settings.set("storage.AWS_REGION", "eu").unwrap();
        assert_eq!(settings.storage["aws_region"], "eu");
    }

    #[test]
    fn unknown_names_and_bad_values_are_refused_with_a_hint() {
        let mut settings = SessionSettings::default();
        let error = settings.set("state.partition", "3").unwrap_err();
        assert!(error.to_string().contains("state.partitions"), "{error}");
        for (name, value) in [
            ("state.partitions", "0"),
            ("watermark.policy", "avg"),
            ("state.memory", "much"),
            ("state.cache.max", "much"),
            ("state.backend", "rocks"),
        ] {
            assert_eq!(settings.set(name, value).unwrap_err().condition(), Some("INVALID_SETTING"));
        }
    }
}
