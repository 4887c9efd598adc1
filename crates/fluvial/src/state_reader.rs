//! `session.read_state(checkpoint)`: the state of a query as a table.

use crate::session::Session;
use crate::state_table::{Version, VersionTable};
use crate::stored_state::{StoredBatch, StoredState};
use arrow::array::{ArrayRef, RecordBatch, StringArray, UInt32Array, UInt64Array};
use datafusion::dataframe::DataFrame;
use fluvial_core::options::Options;
use fluvial_core::{
    BatchId, Error, PartitionId, Result, Snapshot, StateVersion, StoreId, Verification,
};
use fluvial_datafusion::from_datafusion;
use fluvial_datafusion::inspect::{Side, StateTable, StateView, views};
use std::sync::Arc;

/// The names of options: ours, then Spark's.
const OPTIONS: &[(&str, &str)] = &[
    ("operator", "operatorId"),
    ("store", "storeName"),
    ("batch", "batchId"),
    ("side", "joinSide"),
    ("variable", "stateVarName"),
    ("timers", "readRegisteredTimers"),
];

/// Describes which state to read. [`Self::load`] makes it a DataFrame.
///
/// Columns are `key`, `value` (structs; see [`fluvial_datafusion::inspect`] for joins and
/// processors), `partition_id` and `key_group`.
#[must_use = "a reader reads nothing until load()"]
#[derive(Debug, Clone)]
pub struct StateReader {
    session: Session,
    checkpoint: String,
    options: Options,
}

impl Session {
    /// Reads the state in a checkpoint: of the newest batch, if no other is asked for. The query
    /// may run meanwhile.
    pub fn read_state(&self, checkpoint: impl Into<String>) -> StateReader {
        let options = Options::new(Vec::<(String, String)>::new());
        StateReader { session: self.clone(), checkpoint: checkpoint.into(), options }
    }

    /// What state a checkpoint has: a row for each store of each stateful operator, with the
    /// columns of Spark's `state-metadata` and the views that [`Session::read_state`] can give.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no committed batch; `Corrupt` if the log is damaged.
    pub async fn read_state_metadata(&self, checkpoint: &str) -> Result<DataFrame> {
        let batches = StoredState::open(self, checkpoint)?.batches().await?;
        let rows = metadata(&batches)?;
        self.context().read_batch(rows).map_err(from_datafusion)
    }

    /// Reads and checks every byte of state that `snapshots` of a checkpoint need. `format` is the
    /// one that its plans name.
    ///
    /// # Errors
    ///
    /// `Invalid` if no backend has that format; errors of the store. Damage is no error: the
    /// report is told.
    pub async fn verify_state(
        &self,
        checkpoint: &str,
        format: &str,
        snapshots: &[Snapshot],
        report: &dyn Verification,
    ) -> Result<()> {
        let backend = StoredState::open(self, checkpoint)?.backend(format)?;
        backend.verify(snapshots, report).await
    }
}

impl StateReader {
    /// Of this operator: by its name, or by its position. Needed if there are several.
    pub fn operator(self, operator: impl ToString) -> Self {
        self.option("operator", operator)
    }

    /// Of this store of the operator; `default` if not given.
    pub fn store(self, store: impl ToString) -> Self {
        self.option("store", store)
    }

    /// After this batch, which must still be retained; the newest if not given.
    pub fn batch(self, batch: u64) -> Self {
        self.option("batch", batch)
    }

    /// One side of a join: `left` or `right`.
    pub fn side(self, side: impl ToString) -> Self {
        self.option("side", side)
    }

    /// A variable of a processor. Needed if it has several.
    pub fn variable(self, name: impl ToString) -> Self {
        self.option("variable", name)
    }

    /// The timers of a processor.
    pub fn timers(self) -> Self {
        self.option("timers", true)
    }

    /// Keys and values as they are stored.
    pub fn bytes(self) -> Self {
        self.option("bytes", true)
    }

    /// Sets an option, by our name or Spark's: `operator`, `store`, `batch`, `side`, `variable`,
    /// `timers`, `bytes`.
    pub fn option(mut self, name: &str, value: impl ToString) -> Self {
        let ours = OPTIONS.iter().find(|(_, spark)| spark.eq_ignore_ascii_case(name));
        let name = ours.map_or(name, |(ours, _)| ours);
        self.options.set(name, value.to_string());
        self
    }

    /// The table.
    ///
    /// # Errors
    ///
    /// `NotFound` if there is no such batch any more; `Invalid` for an option that is unknown or
    /// names nothing that is there.
    pub async fn load(self) -> Result<DataFrame> {
        let version = self.version().await?;
        let table = Arc::new(VersionTable(Arc::new(version)));
        self.session.context().read_table(table).map_err(from_datafusion)
    }

    async fn version(&self) -> Result<Version> {
        let mut options = self.options.clone();
        let batch = options.take_parsed::<u64>("batch", "the number of a batch")?;
        let (operator, store) = (options.take("operator"), options.take("store"));
        let asked = asked(&mut options)?;
        let known: Vec<&str> =
            OPTIONS.iter().flat_map(|(ours, spark)| [*ours, *spark]).chain(["bytes"]).collect();
        options.finish(&known)?;

        let state = StoredState::open(&self.session, &self.checkpoint)?;
        let stored = state.batch(batch.map(BatchId)).await?;
        let (operator, shape) = stored.operator(operator.as_deref())?;
        let store = StoredBatch::store(shape, store.as_deref())?;
        let of_it = |error: Error| error.at(format_args!("operator {operator}"));
        let view = match asked {
            Some(view) => view,
            None => only(&views(&shape.schema)).map_err(of_it)?,
        };
        let (count, partitions) = (stored.plan.settings.key_groups, stored.plan.partitions);
        let table = StateTable::new(&shape.schema, &view, count, partitions).map_err(of_it)?;
        let ranges = (0..partitions).map(|p| count.range_of(PartitionId(p), partitions));
        let partitions = ranges.filter(|range| !range.is_empty()).collect();
        let StateVersion(version) = stored.commit.batch.writes();
        Ok(Version {
            table,
            backend: state.backend(&stored.plan.settings.state_format)?,
            snapshots: stored.snapshots(operator, &store),
            id: StoreId { operator: operator.clone(), store },
            version: StateVersion(version),
            partitions,
        })
    }
}

/// The view that options ask for.
fn asked(options: &mut Options) -> Result<Option<StateView>> {
    let mut views = Vec::new();
    let side = |text: &str| match text.to_ascii_lowercase().as_str() {
        "left" => Some(Some(Side::Left)),
        "right" => Some(Some(Side::Right)),
        // Spark's default: no side.
        "none" => Some(None),
        _ => None,
    };
    if let Some(Some(side)) = options.take_with("side", "left or right", side)? {
        views.push(StateView::Side(side));
    }
    if let Some(name) = options.take("variable") {
        views.push(StateView::Variable(name));
    }
    if options.take_bool("timers")? == Some(true) {
        views.push(StateView::Timers);
    }
    if options.take_bool("bytes")? == Some(true) {
        views.push(StateView::Bytes);
    }
    if views.len() > 1 {
        let views: Vec<String> = views.iter().map(ToString::to_string).collect();
        let message = format!("one table at a time, not {} at once", views.join(" and "));
        return Err(Error::invalid(message).with_condition("STDS_CONFLICT_OPTIONS"));
    }
    Ok(views.pop())
}

/// The view of who asked for none: the only one beside timers, or bytes where there is none.
fn only(views: &[StateView]) -> Result<StateView> {
    let tables: Vec<&StateView> = views.iter().filter(|view| **view != StateView::Timers).collect();
    match tables.as_slice() {
        [] => Ok(views.first().cloned().unwrap_or(StateView::Bytes)),
        [only] => Ok((*only).clone()),
        several => {
            let names: Vec<String> = several.iter().map(ToString::to_string).collect();
            Err(Error::invalid(format!(
                "which of its tables? There are {}: choose with the option side or variable",
                names.join(", ")
            ))
            .with_condition("STDS_REQUIRED_OPTION_UNSPECIFIED"))
        }
    }
}

/// A row for each store of each operator.
fn metadata(batches: &[StoredBatch]) -> Result<RecordBatch> {
    let (mut names, mut kinds, mut stores) = (Vec::new(), Vec::new(), Vec::new());
    let (mut partitions, mut tables, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    let ends = batches.first().zip(batches.last());
    let Some((first, last)) = ends.map(|(a, b)| (a.commit.batch.0, b.commit.batch.0)) else {
        return Err(Error::not_found("there is no committed batch: is that a checkpoint?")
            .with_condition("STDS_COMMITTED_BATCH_UNAVAILABLE"));
    };
    if let Some(batch) = batches.last() {
        for (operator, shape) in &batch.plan.shape.operators {
            let views: Vec<String> = views(&shape.schema).iter().map(ToString::to_string).collect();
            for store in &shape.stores {
                names.push(operator.as_str());
                kinds.push(shape.schema.kind.as_str());
                stores.push(store.as_str());
                partitions.push(batch.plan.partitions);
                tables.push(views.join(", "));
                let snapshots = batch.snapshots(operator, store);
                rows.push(snapshots.iter().map(|snapshot| snapshot.rows).sum::<u64>());
            }
        }
    }
    let batch = |batch: u64| -> ArrayRef { Arc::new(UInt64Array::from(vec![batch; names.len()])) };
    let (first, last) = (batch(first), batch(last));
    Ok(RecordBatch::try_from_iter([
        ("operatorId", Arc::new(StringArray::from(names)) as ArrayRef),
        ("operatorName", Arc::new(StringArray::from(kinds))),
        ("stateStoreName", Arc::new(StringArray::from(stores))),
        ("numPartitions", Arc::new(UInt32Array::from(partitions))),
        ("minBatchId", first),
        ("maxBatchId", last),
        ("numEntries", Arc::new(UInt64Array::from(rows))),
        ("tables", Arc::new(StringArray::from(tables))),
    ])?)
}
