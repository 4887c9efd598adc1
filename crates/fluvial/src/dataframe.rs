//! What a DataFrame can do beyond DataFusion's verbs: watermarks, Spark's grouping, writing.

use crate::batch_writer::DataFrameWriter;
use crate::hidden::with_metadata;
use crate::session::Session;
use crate::stream_writer::DataStreamWriter;
use arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::dataframe::DataFrame;
use datafusion::functions_aggregate::expr_fn;
use datafusion::logical_expr::utils::find_aggregate_exprs;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, LogicalPlanBuilder, lit};
use fluvial_core::{CalendarInterval, Error, EventDuration, OperatorId, Result, WatermarkId};
use fluvial_datafusion::from_datafusion;
use fluvial_datafusion::plan::{
    OperatorNameNode, Remembered, StreamDedupNode, StreamingPlan, WatermarkNode, is_streaming,
    parse_idle_after,
};
use fluvial_sources::METADATA;
use std::sync::Arc;
use std::time::Duration;

/// Streaming verbs of a DataFrame. All of DataFusion's verbs work on streams too: what cannot
/// stream is refused when the query starts.
pub trait StreamingDataFrame: Sized {
    /// Whether it reads a stream.
    fn is_streaming(&self) -> bool;

    /// Says how late events may be: `column` is a timestamp, `delay` text such as `"10 minutes"`.
    /// State of times before the newest event minus the delay is finished and let go.
    ///
    /// # Errors
    ///
    /// `Invalid`: `EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE`, `CANNOT_PARSE_INTERVAL`, a negative
    /// delay, or no such column.
    fn with_watermark(self, column: &str, delay: &str) -> Result<DataFrame>;

    /// As [`Self::with_watermark`], with a delay that was parsed already.
    ///
    /// # Errors
    ///
    /// `Invalid`: `EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE`, or no such column.
    fn with_watermark_delay(self, column: &str, delay: EventDuration) -> Result<DataFrame>;

    /// Says, right behind a watermark, that the other inputs of a query go on without this one
    /// once its sources have had nothing to read for so long, `"5 minutes"` of processing time.
    /// What comes from it after that is late where it is older than they are. Without this a
    /// silent input holds the watermark back for ever.
    ///
    /// # Errors
    ///
    /// `Invalid`: `WATERMARK_MISSING` if this does not follow a watermark,
    /// `WATERMARK_IDLE_AFTER_NOT_POSITIVE`, `CANNOT_PARSE_INTERVAL`.
    fn idle_after(self, silence: &str) -> Result<DataFrame>;

    /// Drops rows whose `columns` another row had before; no columns are all of them.
    ///
    /// On a stream keys are state: with the event time of a watermark among the columns they are
    /// forgotten once the watermark has passed it, and without for ever, which is warned of. Of
    /// several rows the first is kept, in the order in which a batch reads them. On a table any
    /// one of them is.
    ///
    /// # Errors
    ///
    /// `UNRESOLVED_COLUMN`, `AMBIGUOUS_REFERENCE`; at the start of a stream
    /// `UNSUPPORTED_FEATURE.SET_OPERATION_ON_MAP_TYPE`.
    fn drop_duplicates(self, columns: &[&str]) -> Result<DataFrame>;

    /// Drops rows whose `columns` another row had whose event time is not older than the delay of
    /// the watermark: duplicates that come later than that pass. No columns are all of them.
    ///
    /// # Errors
    ///
    /// As [`Self::drop_duplicates`]; `CALL_ON_BATCH_DATASET_UNSUPPORTED` on a table; at the start
    /// `DROP_DUPLICATES_WITHIN_WATERMARK_WITHOUT_WATERMARK`.
    fn drop_duplicates_within_watermark(self, columns: &[&str]) -> Result<DataFrame>;

    /// Groups by expressions; follow with [`GroupedData::agg`], [`GroupedData::count`] or
    /// [`GroupedData::transform_with_state`].
    fn group_by(self, keys: Vec<Expr>) -> GroupedData;

    /// Names the last stateful operator, in `explain` and in the checkpoint: its state is found
    /// again wherever it stands in the plan.
    ///
    /// # Errors
    ///
    /// `Invalid` for a name that cannot be part of a path.
    fn named(self, name: &str) -> Result<DataFrame>;

    /// The same with the column `_metadata`: path, name, size and modification time of the file
    /// that a row comes from. SQL and [`Session::select`] need only name it.
    ///
    /// # Errors
    ///
    /// `UNRESOLVED_COLUMN` if no files are read.
    fn with_file_metadata(self) -> Result<DataFrame>;

    /// Writes a stream.
    ///
    /// # Errors
    ///
    /// `WRITE_STREAM_NOT_ALLOWED` if it is no stream.
    fn write_stream(self) -> Result<DataStreamWriter>;

    /// The session that it belongs to: in `foreach_batch` one of its own.
    ///
    /// # Errors
    ///
    /// `Invalid` if the session is gone, or the DataFrame was not made by one of ours.
    fn session(&self) -> Result<Session>;

    /// Gives the rows a name for the SQL of its session, in place of what had it.
    ///
    /// # Errors
    ///
    /// As [`Self::session`].
    fn create_or_replace_temp_view(&self, name: &str) -> Result<()>;

    /// Writes a table or files, once.
    ///
    /// # Errors
    ///
    /// `CALL_ON_STREAMING_DATASET_UNSUPPORTED` if it is a stream.
    fn write(self) -> Result<DataFrameWriter>;
}

/// The same rows under a watermark that does not wait for them for ever.
pub(crate) fn with_idle_after(frame: DataFrame, silence: Duration) -> Result<DataFrame> {
    if !frame.is_streaming() {
        return Ok(frame);
    }
    let (state, plan) = frame.into_parts();
    if let LogicalPlan::Extension(Extension { node }) = &plan
        && let Some(watermark) = node.as_any().downcast_ref::<WatermarkNode>()
    {
        let node = Arc::new(watermark.clone().idle_after(Some(silence)));
        return Ok(DataFrame::new(state, LogicalPlan::Extension(Extension { node })));
    }
    Err(Error::invalid(
        "idle_after says something about a watermark: call it on with_watermark(..)",
    )
    .with_condition("WATERMARK_MISSING"))
}

impl StreamingDataFrame for DataFrame {
    fn session(&self) -> Result<Session> {
        Session::of(self)
    }

    fn create_or_replace_temp_view(&self, name: &str) -> Result<()> {
        let session = Session::of(self)?;
        let context = session.context();
        context.deregister_table(name).map_err(from_datafusion)?;
        context.register_table(name, self.clone().into_view()).map_err(from_datafusion)?;
        Ok(())
    }

    fn is_streaming(&self) -> bool {
        is_streaming(self.logical_plan())
    }

    fn with_watermark(self, column: &str, delay: &str) -> Result<DataFrame> {
        let delay = CalendarInterval::parse(delay)?.to_delay()?;
        self.with_watermark_delay(column, delay)
    }

    fn with_watermark_delay(self, column: &str, delay: EventDuration) -> Result<DataFrame> {
        if !self.is_streaming() {
            // As in Spark: a table has no lateness.
            return Ok(self);
        }
        let column = resolve(&self, column)?;
        let (state, plan) = self.into_parts();
        // The query names its watermarks when it starts.
        let id = WatermarkId::new("watermark")?;
        let node = WatermarkNode::try_new(plan, column, delay, id).map_err(from_datafusion)?;
        let plan = LogicalPlan::Extension(Extension { node: Arc::new(node) });
        Ok(DataFrame::new(state, plan))
    }

    fn idle_after(self, silence: &str) -> Result<DataFrame> {
        with_idle_after(self, parse_idle_after(silence)?)
    }

    fn drop_duplicates(self, columns: &[&str]) -> Result<DataFrame> {
        if self.is_streaming() {
            return deduplicated(self, columns, Remembered::ByKey);
        }
        if columns.is_empty() {
            return self.distinct().map_err(from_datafusion);
        }
        let on = resolve_all(&self, columns)?.into_iter().map(Expr::Column).collect();
        let all = self.schema().columns().into_iter().map(Expr::Column).collect();
        self.distinct_on(on, all, None).map_err(from_datafusion)
    }

    fn drop_duplicates_within_watermark(self, columns: &[&str]) -> Result<DataFrame> {
        if !self.is_streaming() {
            return Err(Error::invalid(
                "drop_duplicates_within_watermark is for streams only: use drop_duplicates",
            )
            .with_condition("CALL_ON_BATCH_DATASET_UNSUPPORTED"));
        }
        deduplicated(self, columns, Remembered::WithinWatermark(None))
    }

    fn group_by(self, keys: Vec<Expr>) -> GroupedData {
        GroupedData { input: self, keys }
    }

    fn named(self, name: &str) -> Result<DataFrame> {
        let name = OperatorId::new(name)?;
        let (state, plan) = self.into_parts();
        let node = Arc::new(OperatorNameNode { input: plan, name });
        Ok(DataFrame::new(state, LogicalPlan::Extension(Extension { node })))
    }

    fn with_file_metadata(self) -> Result<DataFrame> {
        let (state, plan) = self.into_parts();
        if plan.schema().has_column_with_unqualified_name(METADATA) {
            return Ok(DataFrame::new(state, plan));
        }
        match with_metadata(&plan).map_err(from_datafusion)? {
            Some(plan) => Ok(DataFrame::new(state, plan)),
            None => {
                Err(Error::invalid(format!("there is no column {METADATA}: no files are read"))
                    .with_condition("UNRESOLVED_COLUMN"))
            }
        }
    }

    fn write_stream(self) -> Result<DataStreamWriter> {
        // A stream in a subquery is refused at the start, by its own name.
        if !StreamingPlan::reads_stream(self.logical_plan()) {
            return Err(Error::invalid(
                "write_stream can be called only on a streaming DataFrame: use write for this one",
            )
            .with_condition("WRITE_STREAM_NOT_ALLOWED"));
        }
        let session = Session::of(&self)?;
        Ok(DataStreamWriter::new(session, self))
    }

    fn write(self) -> Result<DataFrameWriter> {
        if self.is_streaming() {
            return Err(Error::invalid(
                "write cannot be called on a streaming DataFrame: use write_stream",
            )
            .with_condition("CALL_ON_STREAMING_DATASET_UNSUPPORTED"));
        }
        let session = Session::of(&self)?;
        Ok(DataFrameWriter::new(session, self))
    }
}

/// The stream without duplicates by these columns.
fn deduplicated(frame: DataFrame, columns: &[&str], remembered: Remembered) -> Result<DataFrame> {
    let keys = match columns {
        [] => frame.schema().columns(),
        columns => resolve_all(&frame, columns)?,
    };
    let (state, input) = frame.into_parts();
    // The query names its operators when it starts.
    let operator = OperatorId::new("dedup")?;
    let node = Arc::new(StreamDedupNode { input, keys, remembered, operator });
    Ok(DataFrame::new(state, LogicalPlan::Extension(Extension { node })))
}

fn resolve_all(frame: &DataFrame, names: &[&str]) -> Result<Vec<Column>> {
    names.iter().map(|name| resolve(frame, name)).collect()
}

/// The column that a user's name means, without regard to case unless the session has some.
fn resolve(frame: &DataFrame, name: &str) -> Result<Column> {
    let schema = frame.schema();
    let case = Session::of(frame)?.settings().case;
    let is_meant = |column: &Column| case.same(&column.name, name);
    let mut same: Vec<Column> = schema.columns().into_iter().filter(is_meant).collect();
    match (same.pop(), same.is_empty()) {
        (Some(column), true) => Ok(column),
        (Some(_), false) => Err(Error::invalid(format!(
            "the column {name} is ambiguous: several have this name, or differ from it in case only"
        ))
        .with_condition("AMBIGUOUS_REFERENCE")),
        (None, _) => {
            let names: Vec<&str> = schema.fields().iter().map(|f| f.name().as_str()).collect();
            Err(Error::invalid(format!(
                "there is no column {name}: there are {}",
                names.join(", ")
            ))
            .with_condition("UNRESOLVED_COLUMN"))
        }
    }
}

/// A DataFrame with grouping keys.
pub struct GroupedData {
    pub(crate) input: DataFrame,
    pub(crate) keys: Vec<Expr>,
}

impl GroupedData {
    /// Aggregates each group.
    ///
    /// # Errors
    ///
    /// `Invalid` if an expression does not fit the columns.
    pub fn agg(self, aggregates: Vec<Expr>) -> Result<DataFrame> {
        let Self { input, keys } = self;
        let plain = |e: &Expr| matches!(e.clone().unalias(), Expr::AggregateFunction(_));
        if aggregates.iter().all(plain) {
            return aggregate(input, keys, aggregates);
        }
        // Expressions over aggregates, such as max(a) - min(a): aggregate first, compute then.
        let functions = find_aggregate_exprs(&aggregates);
        let names: Vec<String> = aggregates.iter().map(|e| e.schema_name().to_string()).collect();
        let frame = aggregate(input, keys, functions.clone())?;
        let columns = frame.schema().columns();
        let (keys, results) = columns.split_at(columns.len() - functions.len());
        let mut exprs: Vec<Expr> = keys.iter().cloned().map(Expr::Column).collect();
        for (expr, name) in aggregates.into_iter().zip(names) {
            let replaced = expr.transform_down(|e| {
                Ok(match functions.iter().position(|f| *f == e) {
                    Some(at) => Transformed::new(
                        Expr::Column(results[at].clone()),
                        true,
                        TreeNodeRecursion::Jump,
                    ),
                    None => Transformed::no(e),
                })
            });
            exprs.push(replaced.map_err(from_datafusion)?.data.alias(name));
        }
        frame.select(exprs).map_err(from_datafusion)
    }

    /// Counts the rows of each group, in the column `count`.
    ///
    /// # Errors
    ///
    /// As [`Self::agg`].
    pub fn count(self) -> Result<DataFrame> {
        self.agg(vec![expr_fn::count(lit(1_i64)).alias("count")])
    }
}

/// DataFusion's own verb also groups by columns that it takes for determined by the groups. It goes
/// by names: a window of windows that is called as they are would be grouped by all columns.
fn aggregate(input: DataFrame, keys: Vec<Expr>, functions: Vec<Expr>) -> Result<DataFrame> {
    if matches!(keys.as_slice(), [Expr::GroupingSet(_)]) {
        return input.aggregate(keys, functions).map_err(from_datafusion);
    }
    let (state, plan) = input.into_parts();
    let plan = LogicalPlanBuilder::from(plan).aggregate(keys, functions);
    let plan = plan.and_then(LogicalPlanBuilder::build).map_err(from_datafusion)?;
    Ok(DataFrame::new(state, plan))
}

/// `window(time, size)`: tumbling windows; a struct of `start` and `end`.
pub fn window(time: Expr, size: &str) -> Expr {
    fluvial_datafusion::functions::window_udf().call(vec![time, lit(size)])
}

/// `window(time, size, slide)`: sliding windows.
pub fn sliding_window(time: Expr, size: &str, slide: &str) -> Expr {
    fluvial_datafusion::functions::window_udf().call(vec![time, lit(size), lit(slide)])
}

/// `window(time, size, slide, start)`: windows that begin at `start` after the epoch.
pub fn window_with_start(time: Expr, size: &str, slide: &str, start: &str) -> Expr {
    let window = fluvial_datafusion::functions::window_udf();
    window.call(vec![time, lit(size), lit(slide), lit(start)])
}

/// `session_window(time, gap)`: sessions that go on as long as each event follows the one before by
/// at most a gap; a struct of `start` and `end`. The gap is text such as `"5 minutes"`, or an
/// expression that gives each row a text or an interval; rows with none above zero are left out.
pub fn session_window(time: Expr, gap: impl Into<SessionGap>) -> Expr {
    let SessionGap(gap) = gap.into();
    fluvial_datafusion::functions::session_window_udf().call(vec![time, gap])
}

/// The gap of a session window: the same for all rows, or an expression for each.
#[derive(Debug, Clone)]
pub struct SessionGap(Expr);

impl From<&str> for SessionGap {
    fn from(text: &str) -> Self {
        Self(lit(text))
    }
}

impl From<Expr> for SessionGap {
    fn from(gap: Expr) -> Self {
        Self(gap)
    }
}

/// `window_time(window)`: the event time of a window, one microsecond before its end.
pub fn window_time(window: Expr) -> Expr {
    fluvial_datafusion::functions::window_time_udf().call(vec![window])
}

/// The type of Spark's `TIMESTAMP`: microseconds UTC.
pub fn timestamp_type() -> DataType {
    fluvial_core::ddl::timestamp()
}
