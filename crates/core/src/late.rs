//! Rows that came too late, for whoever wants to see them.

use arrow::array::RecordBatch;

/// What an operator does with rows that came too late, beside counting them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LateHandling {
    /// It drops them.
    #[default]
    Drop,
    /// It keeps them until they are asked for with [`crate::OperatorRun::take_late`].
    HandOver,
}

/// Rows of one input of an operator that came too late for it.
#[derive(Debug, Clone, PartialEq)]
pub struct LateBatch {
    /// The port at which they came.
    pub port: usize,
    /// The rows, as they came.
    pub rows: RecordBatch,
}
