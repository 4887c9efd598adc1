//! What an operator's output watermark is, given those of its inputs.
//!
//! A watermark is propagated operator by operator: the output watermark is the lower bound of
//! the event times that the operator may still emit. The same rule holds for the watermark that
//! judges late rows and for the one that evicts.

use fluvial_core::{EventDuration, EventTime};

/// How a watermark passes an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutputWatermark {
    /// It passes on: what comes out has the event times of what came in, or, for windows, leaves
    /// when its end is passed.
    Passes,
    /// It ends here: the output has no event time.
    Ends,
    /// Rows may come out this much later than they came in, as from a join with a time range.
    Delayed(EventDuration),
}

impl OutputWatermark {
    /// The output watermark: of several inputs the lowest counts, and none while one of them has
    /// none yet.
    pub fn of(self, inputs: &[Option<EventTime>]) -> Option<EventTime> {
        let lowest = inputs.iter().copied().min().flatten();
        match self {
            Self::Passes => lowest,
            Self::Ends => None,
            Self::Delayed(delay) => lowest.map(|watermark| watermark.minus(delay)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_input_counts() {
        let (one, two) = (Some(EventTime(1)), Some(EventTime(2)));
        assert_eq!(OutputWatermark::Passes.of(&[two, one]), one);
        assert_eq!(OutputWatermark::Passes.of(&[two, None]), None);
        assert_eq!(OutputWatermark::Passes.of(&[]), None);
    }

    #[test]
    fn a_delay_saturates() {
        let delayed = OutputWatermark::Delayed(EventDuration(5));
        assert_eq!(delayed.of(&[Some(EventTime(7))]), Some(EventTime(2)));
        assert_eq!(delayed.of(&[Some(EventTime(i64::MIN))]), Some(EventTime(i64::MIN)));
        assert_eq!(OutputWatermark::Ends.of(&[Some(EventTime(7))]), None);
    }
}
