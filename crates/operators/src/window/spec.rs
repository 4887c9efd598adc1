//! `WindowSpec`: size, slide and start of windows, checked.

use fluvial_core::{CalendarInterval, Error, EventDuration, Result};
use std::collections::BTreeMap;

/// The most windows that one row may lie in: a day sliding by ten seconds fits.
const OVERLAPS_MAX: i64 = 10_000;

/// Windows of `size` that begin every `slide`, counted from the epoch plus `start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WindowSpec {
    size: EventDuration,
    slide: EventDuration,
    start: EventDuration,
}

impl WindowSpec {
    /// Checks a specification. Tumbling windows have `slide` equal to `size`.
    ///
    /// # Errors
    ///
    /// `Invalid`: `DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE` for a size or slide that is not
    /// positive, `DATATYPE_MISMATCH.PARAMETER_CONSTRAINT_VIOLATION` for a slide above the size or
    /// a start of a slide or more, `WINDOW_OVERLAPS` if a row would lie in over 10000 windows.
    pub fn new(size: EventDuration, slide: EventDuration, start: EventDuration) -> Result<Self> {
        positive("window_duration", size)?;
        positive("slide_duration", slide)?;
        if slide > size {
            return Err(violated(("slide_duration", slide), "at most", ("window_duration", size)));
        }
        // `unsigned_abs`, because the absolute value of the lowest number is no `i64`.
        if start.0.unsigned_abs() >= slide.0.unsigned_abs() {
            let start = EventDuration(start.0.saturating_abs());
            return Err(violated(
                ("abs(start_time)", start),
                "less than",
                ("slide_duration", slide),
            ));
        }
        let spec = Self { size, slide, start };
        if spec.overlaps() > OVERLAPS_MAX {
            return Err(Error::invalid(format!(
                "a row would lie in {} windows, at most {OVERLAPS_MAX} are possible: slide by more",
                spec.overlaps()
            ))
            .with_condition("WINDOW_OVERLAPS"));
        }
        Ok(spec)
    }

    /// Reads a specification as users write it; the slide is the size if not given, the start
    /// zero.
    ///
    /// # Errors
    ///
    /// As [`CalendarInterval::parse`], [`CalendarInterval::to_fixed`] and [`Self::new`].
    pub fn parse(size: &str, slide: Option<&str>, start: Option<&str>) -> Result<Self> {
        let fixed = |text: &str| CalendarInterval::parse(text)?.to_fixed();
        let size = fixed(size)?;
        let slide = slide.map_or(Ok(size), fixed)?;
        let start = start.map_or(Ok(EventDuration(0)), fixed)?;
        Self::new(size, slide, start)
    }

    /// How long a window is.
    pub fn size(&self) -> EventDuration {
        self.size
    }

    /// The distance between the starts of neighbouring windows.
    pub fn slide(&self) -> EventDuration {
        self.slide
    }

    /// How far windows are moved from the epoch.
    pub fn start(&self) -> EventDuration {
        self.start
    }

    /// Whether every time lies in exactly one window.
    pub fn is_tumbling(&self) -> bool {
        self.slide == self.size
    }

    /// The most windows that one time lies in.
    pub fn overlaps(&self) -> i64 {
        // Rounded up without `size + slide`, which may not fit.
        (self.size.0 - 1) / self.slide.0 + 1
    }

    /// What gives stored windows their meaning: for [`fluvial_core::StateSchema::meaning`].
    pub fn meaning(&self) -> BTreeMap<String, String> {
        BTreeMap::from([
            ("window_size".to_owned(), text(self.size)),
            ("window_slide".to_owned(), text(self.slide)),
            ("window_start".to_owned(), text(self.start)),
        ])
    }
}

fn text(duration: EventDuration) -> String {
    CalendarInterval { months: 0, days: 0, micros: duration.0 }.to_string()
}

fn positive(name: &str, duration: EventDuration) -> Result<()> {
    if duration.0 > 0 {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the {name} of a window must be more than 0, and is {}: write it like '10 minutes'",
        text(duration)
    ))
    .with_condition("DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE"))
}

fn violated(
    (left, left_value): (&str, EventDuration),
    constraint: &str,
    (right, right_value): (&str, EventDuration),
) -> Error {
    Error::invalid(format!(
        "the {left} of a window ({}) must be {constraint} its {right} ({})",
        text(left_value),
        text(right_value)
    ))
    .with_condition("DATATYPE_MISMATCH.PARAMETER_CONSTRAINT_VIOLATION")
}
