//! An aggregate over a frame of rows that moves: `sum(v) OVER (ORDER BY t ROWS 2 PRECEDING)`.
//!
//! The rows of the frame are held and put together anew for each row, as Spark does: taking a
//! float back out of a sum would leave another sum.

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::Accumulator;
use std::collections::VecDeque;
use std::fmt::{Debug, Formatter};

/// Pieces that the rows of a frame may lie in before they are put into one.
const PIECES_MAX: usize = 64;

/// Makes an accumulator that has seen nothing.
type Fresh = Box<dyn Fn() -> Result<Box<dyn Accumulator>> + Send + Sync>;

/// An accumulator that can take rows back, whatever function it is of.
pub(super) struct Sliding {
    fresh: Fresh,
    /// The arguments of the frame's rows, oldest first.
    frame: VecDeque<Vec<ArrayRef>>,
}

impl Sliding {
    pub(super) fn new(fresh: Fresh) -> Self {
        Self { fresh, frame: VecDeque::new() }
    }

    fn accumulated(&self) -> Result<Box<dyn Accumulator>> {
        let mut all = (self.fresh)()?;
        for piece in &self.frame {
            all.update_batch(piece)?;
        }
        Ok(all)
    }

    fn join(&mut self) -> Result<()> {
        let Some(first) = self.frame.front() else { return Ok(()) };
        let column = |i: usize| {
            let pieces: Vec<&dyn Array> =
                self.frame.iter().map(|piece| piece[i].as_ref()).collect();
            concat(&pieces)
        };
        let joined = (0..first.len()).map(column).collect::<std::result::Result<_, _>>()?;
        self.frame = VecDeque::from([joined]);
        Ok(())
    }
}

impl Debug for Sliding {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sliding").field("frame", &self.frame).finish_non_exhaustive()
    }
}

impl Accumulator for Sliding {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if values.first().is_some_and(|first| !first.is_empty()) {
            self.frame.push_back(values.to_vec());
        }
        if self.frame.len() > PIECES_MAX { self.join() } else { Ok(()) }
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut left = values.first().map_or(0, |first| first.len());
        while left > 0 {
            let Some(oldest) = self.frame.front_mut() else {
                return internal_err!("a frame gives back more rows than it has");
            };
            let rows = oldest[0].len();
            if rows > left {
                oldest.iter_mut().for_each(|column| *column = column.slice(left, rows - left));
                return Ok(());
            }
            self.frame.pop_front();
            left -= rows;
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("frames are not merged")
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.accumulated()?.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.accumulated()?.state()
    }

    fn size(&self) -> usize {
        let columns = self.frame.iter().flatten();
        size_of::<Self>() + columns.map(|column| column.get_array_memory_size()).sum::<usize>()
    }
}
