//! `WatermarkNode`: where a query says how late its events may be.

use super::event_time::{can_be_event_time, mark_column};
use datafusion::common::{Column, DFSchemaRef, Result, internal_err};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use fluvial_core::{CalendarInterval, Error, EventDuration, WatermarkId};
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

/// Marks `column` as event time and observes how far it has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatermarkNode {
    /// The rows.
    pub input: LogicalPlan,
    /// The event-time column.
    pub column: Column,
    /// How late a row may be.
    pub delay: EventDuration,
    /// After how long a silence of its sources the other inputs go on without it.
    pub idle_after: Option<Duration>,
    /// Its name in the checkpoint.
    pub id: WatermarkId,
    schema: DFSchemaRef,
}

impl WatermarkNode {
    /// A watermark on `column` of `input`.
    ///
    /// # Errors
    ///
    /// `EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE` unless the column is a timestamp with a zone.
    pub fn try_new(
        input: LogicalPlan,
        column: Column,
        delay: EventDuration,
        id: WatermarkId,
    ) -> Result<Self> {
        let index = input.schema().index_of_column(&column)?;
        let field = input.schema().field(index);
        if !can_be_event_time(field.data_type()) {
            let error = Error::invalid(format!(
                "the event time `{}` has the type {}, but must be a TIMESTAMP: cast it, or read it \
                 as a timestamp",
                field.name(),
                fluvial_core::ddl::ddl_name(field.data_type()),
            ));
            return Err(crate::error::plan(
                error.with_condition("EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE"),
            ));
        }
        let schema = Arc::new(mark_column(input.schema(), index)?);
        Ok(Self { input, column, delay, idle_after: None, id, schema })
    }

    /// With this policy for silent inputs.
    #[must_use]
    pub fn idle_after(self, idle_after: Option<Duration>) -> Self {
        Self { idle_after, ..self }
    }

    /// Position of the event-time column.
    pub fn column_index(&self) -> Result<usize> {
        self.schema.index_of_column(&self.column)
    }
}

/// After how long a silence an input is idle.
///
/// # Errors
///
/// `Invalid`: an interval that does not parse, has months, or is not above zero
/// (`WATERMARK_IDLE_AFTER_NOT_POSITIVE`).
pub fn parse_idle_after(text: &str) -> fluvial_core::Result<Duration> {
    let EventDuration(micros) = CalendarInterval::parse(text)?.to_fixed()?;
    match u64::try_from(micros) {
        Ok(micros) if micros > 0 => Ok(Duration::from_micros(micros)),
        _ => Err(Error::invalid(format!(
            "an input is idle after a time above zero, not after {text}"
        ))
        .with_condition("WATERMARK_IDLE_AFTER_NOT_POSITIVE")),
    }
}

impl Hash for WatermarkNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.input.hash(state);
        self.id.hash(state);
    }
}

impl PartialOrd for WatermarkNode {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for WatermarkNode {
    fn name(&self) -> &str {
        "Watermark"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![Expr::Column(self.column.clone())]
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let delay = self.delay.0 / 1000;
        write!(f, "Watermark: {}, delay={delay} ms", self.column)?;
        if let Some(after) = self.idle_after {
            write!(f, ", idle after {} ms", after.as_millis())?;
        }
        write!(f, ", id={}", self.id)
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let (Some(Expr::Column(column)), Some(input)) =
            (exprs.into_iter().next().map(Expr::unalias), inputs.into_iter().next())
        else {
            return internal_err!("a watermark needs its column and one input");
        };
        let node = Self::try_new(input, column, self.delay, self.id.clone())?;
        Ok(node.idle_after(self.idle_after))
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        // The event time stays, or pruning would change what is late.
        let mut needed = output_columns.to_vec();
        needed.push(self.column_index().ok()?);
        needed.sort_unstable();
        needed.dedup();
        Some(vec![needed])
    }
}
