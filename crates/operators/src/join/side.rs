//! What a join must know of its sides and of its condition.

use super::kind::Side;
use crate::error::from_datafusion;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::prep_null_mask_filter;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion_common::tree_node::{Transformed, TreeNode};
use datafusion_physical_expr::PhysicalExpr;
use datafusion_physical_expr::expressions::Column;
use fluvial_core::{Error, EventDuration, EventTime, EvictWatermark, Result};
use std::sync::Arc;

/// One input of a [`super::StreamJoin`].
#[derive(Debug, Clone)]
pub struct JoinSide {
    /// The columns that come: those of the row first, then keys that are no column of it.
    pub input: SchemaRef,
    /// How many of them are the row: what is stored, tested and emitted.
    pub width: usize,
    /// The keys, by position. Both sides have equally many, of equal types.
    pub keys: Vec<usize>,
    /// The column whose time says that a row came too late; `None`: no row does.
    pub event_time: Option<usize>,
    /// A condition on the rows of this side alone. A row that fails it matches nothing: it is not
    /// stored, and comes out at once if its side is preserved.
    pub filter: Option<Arc<dyn PhysicalExpr>>,
    /// When rows leave the state.
    pub eviction: JoinEviction,
}

/// When a row can no longer match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinEviction {
    /// Never.
    Never,
    /// When the watermark has reached the time of the key at this position: a time, or a window,
    /// whose end it is.
    Key(usize),
    /// When the time in the column at this position is at or before `watermark + offset`, rounded
    /// down to milliseconds.
    Time {
        /// The column, a timestamp in microseconds.
        column: usize,
        /// What is added to the watermark.
        offset: EventDuration,
    },
}

impl JoinEviction {
    /// The time up to which rows leave.
    pub(super) fn threshold(self, watermark: EvictWatermark) -> Option<EventTime> {
        let watermark = watermark.0?;
        match self {
            Self::Never => None,
            Self::Key(_) => Some(watermark),
            Self::Time { offset, .. } => Some(watermark.plus(offset).floor_to_millis()),
        }
    }

    /// How its state is laid out, for [`fluvial_core::StateSchema::meaning`].
    pub(super) fn meaning(self, side: &JoinSide) -> String {
        match self {
            Self::Never => "for ever".to_owned(),
            Self::Key(key) => format!("until the time of key {}", key + 1),
            Self::Time { column, .. } => {
                format!("by the time of {}", side.input.field(column).name())
            }
        }
    }
}

/// What every match satisfies of the times of its rows: `left + lower <= right <= left + upper`,
/// where a bound is given. Rows of one key that are further apart are not even looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JoinRange {
    /// The column of the left rows, a timestamp in microseconds.
    pub left: usize,
    /// The column of the right rows.
    pub right: usize,
    /// The least that right is ahead of left.
    pub lower: Option<EventDuration>,
    /// The most that right is ahead of left.
    pub upper: Option<EventDuration>,
}

impl JoinRange {
    /// The right times that may match a left time, both inclusive.
    pub(super) fn of(self, left: i64) -> (i64, i64) {
        let bound =
            |by: Option<EventDuration>, none| by.map_or(none, |by| left.saturating_add(by.0));
        (bound(self.lower, i64::MIN), bound(self.upper, i64::MAX))
    }
}

impl JoinSide {
    /// The types of its keys.
    pub(super) fn key_types(&self) -> Vec<DataType> {
        self.keys.iter().map(|key| self.input.field(*key).data_type().clone()).collect()
    }

    /// The types of the row's columns.
    pub(super) fn row_types(&self) -> Vec<DataType> {
        self.row_fields().map(|field| field.data_type().clone()).collect()
    }

    /// The row's columns.
    pub(super) fn row_fields(&self) -> impl Iterator<Item = &Arc<Field>> {
        self.input.fields().iter().take(self.width)
    }

    pub(super) fn check(&self, side: Side) -> Result<()> {
        let bad = |what: String| Err(Error::invalid(format!("the {side} side of a join {what}")));
        let columns = self.input.fields().len();
        if self.width > columns || self.keys.iter().any(|key| *key >= columns) {
            return bad(format!("has {columns} columns, fewer than its rows or keys need"));
        }
        if self.event_time.is_some_and(|column| column >= columns) {
            return bad(format!("has {columns} columns: its event time is none of them"));
        }
        match self.eviction {
            JoinEviction::Key(key) if key >= self.keys.len() => {
                bad(format!("has {} keys: its event time is none of them", self.keys.len()))
            }
            JoinEviction::Time { column, .. } if !self.is_time(column) => {
                bad(format!("has no timestamp in microseconds at column {column}"))
            }
            _ => Ok(()),
        }
    }

    /// Whether the row has a timestamp in microseconds at `column`.
    pub(super) fn is_time(&self, column: usize) -> bool {
        column < self.width
            && matches!(
                self.input.field(column).data_type(),
                DataType::Timestamp(TimeUnit::Microsecond, _)
            )
    }
}

/// Which rows a boolean expression holds for; null is no.
pub(super) fn holds(expr: &dyn PhysicalExpr, rows: &RecordBatch) -> Result<BooleanArray> {
    let value = expr.evaluate(rows).map_err(from_datafusion)?;
    let value = value.into_array(rows.num_rows()).map_err(from_datafusion)?;
    let Some(mask) = value.as_boolean_opt() else {
        let what = value.data_type();
        return Err(Error::invalid(format!("the condition of a join is {what}, not a boolean")));
    };
    Ok(match mask.null_count() {
        0 => mask.clone(),
        _ => prep_null_mask_filter(mask),
    })
}

/// A condition over the rows of both sides, and the columns that it reads.
#[derive(Debug)]
pub(super) struct Condition {
    expr: Arc<dyn PhysicalExpr>,
    /// Its columns: the side, and the position there.
    pub(super) columns: Vec<(Side, usize)>,
    schema: SchemaRef,
}

impl Condition {
    /// `expr` reads the columns of the left rows, then those of the right.
    pub(super) fn new(expr: Arc<dyn PhysicalExpr>, sides: &[JoinSide; 2]) -> Result<Self> {
        let width = sides[0].width;
        let (mut columns, mut fields) = (Vec::new(), Vec::new());
        let expr = expr.transform_up(|node| {
            let any: &dyn std::any::Any = node.as_ref();
            let Some(column) = any.downcast_ref::<Column>() else {
                return Ok(Transformed::no(node));
            };
            let place = match column.index() {
                left if left < width => (Side::Left, left),
                right => (Side::Right, right - width),
            };
            let at = columns.iter().position(|known| *known == place).unwrap_or_else(|| {
                columns.push(place);
                columns.len() - 1
            });
            Ok(Transformed::yes(Arc::new(Column::new(column.name(), at)) as Arc<dyn PhysicalExpr>))
        });
        let expr = expr.map_err(from_datafusion)?.data;
        for (side, column) in &columns {
            let side = &sides[side.index()];
            if *column >= side.width {
                return Err(Error::invalid(
                    "the condition of a join reads a column that is not there",
                ));
            }
            fields.push(side.input.field(*column).clone().with_nullable(true));
        }
        Ok(Self { expr, columns, schema: Arc::new(Schema::new(fields)) })
    }

    /// Which of `rows` rows it holds for, given its columns.
    pub(super) fn holds(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<BooleanArray> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let rows = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        holds(self.expr.as_ref(), &rows)
    }
}
