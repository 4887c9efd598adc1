//! What one query has done in this run.

use super::numbers::{grouped, rate, rows};
use fluvial_engine::StreamingQueryProgress;

/// Batches in a row that took in rows faster than they processed them, until that is said.
const BEHIND_AFTER: u32 = 3;

/// The watermark that a progress shows before any event.
const NO_WATERMARK: &str = "1970-01-01T00:00:00.000Z";

/// Whether a run works off what is there, or keeps up with what comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// It ends by itself. It is behind by definition, so that is not said.
    Finite,
    /// It goes on.
    Endless,
}

/// How a query ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// There was no more to do.
    Done,
    /// It was asked to stop.
    Stopped,
    /// The error is told elsewhere.
    Failed,
}

/// One query.
#[derive(Debug, Clone)]
pub(super) struct View {
    pub(super) name: String,
    pace: Pace,
    batches: u64,
    rows_in: u64,
    late: u64,
    behind: u32,
    last: Option<Last>,
    status: String,
    end: Option<End>,
}

/// Of the newest batch.
#[derive(Debug, Clone)]
struct Last {
    batch: u64,
    input_rate: Option<f64>,
    processed_rate: Option<f64>,
    watermark: Option<String>,
    state_rows: Option<u64>,
}

impl View {
    pub(super) fn new(name: impl Into<String>, pace: Pace) -> Self {
        Self {
            name: name.into(),
            pace,
            batches: 0,
            rows_in: 0,
            late: 0,
            behind: 0,
            last: None,
            status: "starting".to_owned(),
            end: None,
        }
    }

    /// A batch was committed.
    pub(super) fn batch(&mut self, progress: &StreamingQueryProgress) {
        self.batches += 1;
        self.rows_in += progress.num_input_rows;
        let rates = progress.input_rows_per_second.zip(progress.processed_rows_per_second);
        // A batch without rows shows that there was time to spare.
        let behind = progress.num_input_rows > 0
            && rates.is_some_and(|(input, processed)| input > processed);
        self.behind = if behind { self.behind + 1 } else { 0 };
        // A batch without rows says nothing about speed: the one before it still does. And a rate
        // of zero is one that is not known, in the first batch of a run.
        let before = self.last.take();
        let (input_rate, processed_rate) = match before {
            Some(last) if progress.num_input_rows == 0 => (last.input_rate, last.processed_rate),
            _ => (progress.input_rows_per_second, progress.processed_rows_per_second),
        };
        let state = &progress.state_operators;
        self.late += state.iter().map(|s| s.num_rows_dropped_by_watermark).sum::<u64>();
        self.last = Some(Last {
            batch: progress.batch_id.0,
            input_rate: input_rate.filter(|rate| *rate > 0.0),
            processed_rate: processed_rate.filter(|rate| *rate > 0.0),
            watermark: progress.event_time.get("watermark").cloned(),
            state_rows: (!state.is_empty()).then(|| state.iter().map(|s| s.num_rows_total).sum()),
        });
    }

    /// What the query says that it is doing.
    pub(super) fn status(&mut self, status: &str) {
        status.clone_into(&mut self.status);
    }

    pub(super) fn ended(&mut self, end: End) {
        self.end = Some(end);
    }

    pub(super) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Whether it ended without having found anything to do.
    pub(super) fn found_nothing(&self) -> bool {
        self.batches == 0 && self.end == Some(End::Done)
    }

    /// Everything on one line.
    pub(super) fn line(&self) -> String {
        if self.found_nothing() {
            return format!("{}: nothing new", self.name);
        }
        let mut parts = Vec::new();
        match self.end {
            Some(End::Done) => parts.push("done".to_owned()),
            Some(End::Stopped) => parts.push("stopped".to_owned()),
            Some(End::Failed) => parts.push("failed".to_owned()),
            None => {}
        }
        match &self.last {
            None if self.end.is_none() => parts.push(self.status.clone()),
            None => {}
            Some(last) => self.describe(last, &mut parts),
        }
        format!("{}: {}", self.name, parts.join(", "))
    }

    fn describe(&self, last: &Last, parts: &mut Vec<String>) {
        match self.end {
            None => parts.push(format!("batch {}", last.batch)),
            Some(_) if self.batches == 1 => parts.push("1 batch".to_owned()),
            Some(_) => parts.push(format!("{} batches", grouped(self.batches))),
        }
        parts.push(format!("{} in", rows(self.rows_in)));
        if self.late > 0 {
            parts.push(format!("{} too late", grouped(self.late)));
        }
        if self.end.is_none() {
            if let Some(input) = last.input_rate {
                parts.push(format!("{} in", rate(input)));
            }
            if let Some(processed) = last.processed_rate {
                parts.push(format!("{} processed", rate(processed)));
            }
        }
        match last.watermark.as_deref() {
            None => {}
            Some(NO_WATERMARK) => parts.push("no watermark yet".to_owned()),
            Some(watermark) => parts.push(format!("watermark {watermark}")),
        }
        if let Some(state_rows) = last.state_rows {
            parts.push(format!("state {}", rows(state_rows)));
        }
        if self.end.is_none() && self.pace == Pace::Endless && self.behind >= BEHIND_AFTER {
            parts.push("falling behind".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::testing::progress;

    const WATERMARK: &str = "watermark 2026-06-10T10:20:00.000Z";
    const NONE: &str = "no watermark yet";

    #[test]
    fn a_query_is_one_line() {
        let mut view = View::new("page_views_5m", Pace::Finite);
        assert_eq!(view.line(), "page_views_5m: starting");
        view.status("looking for new files");
        assert_eq!(view.line(), "page_views_5m: looking for new files");

        view.batch(&progress(0, 16, Some(0.0), Some(1234.0)));
        assert_eq!(
            view.line(),
            "page_views_5m: batch 0, 16 rows in, 1,234 rows/s processed, no watermark yet, \
             state 13 rows"
        );
        let mut second = progress(1, 1, Some(0.5), Some(20.0));
        second.event_time.insert("watermark".into(), "2026-06-10T10:20:00.000Z".into());
        view.batch(&second);
        assert_eq!(
            view.line(),
            "page_views_5m: batch 1, 17 rows in, 0.5 rows/s in, 20 rows/s processed, \
             watermark 2026-06-10T10:20:00.000Z, state 13 rows"
        );
        let line = view.line();
        view.batch(&progress(2, 0, Some(0.0), Some(0.0)));
        assert_eq!(view.line(), line.replace("batch 1", "batch 2").replace(WATERMARK, NONE));
        view.ended(End::Done);
        assert_eq!(
            view.line(),
            "page_views_5m: done, 3 batches, 17 rows in, no watermark yet, state 13 rows"
        );
    }

    #[test]
    fn rows_that_came_too_late_are_counted() {
        let mut view = View::new("q", Pace::Finite);
        for batch in 0..2 {
            let mut report = progress(batch, 2, None, None);
            report.state_operators[0].num_rows_dropped_by_watermark = 1 - batch;
            view.batch(&report);
        }
        view.ended(End::Done);
        assert_eq!(
            view.line(),
            "q: done, 2 batches, 4 rows in, 1 too late, no watermark yet, state 13 rows"
        );
    }

    #[test]
    fn nothing_new_is_said() {
        let mut view = View::new("q", Pace::Finite);
        view.ended(End::Done);
        assert_eq!(view.line(), "q: nothing new");
        let mut stopped = View::new("q", Pace::Endless);
        stopped.ended(End::Stopped);
        assert_eq!(stopped.line(), "q: stopped");
    }

    #[test]
    fn stateless_queries_have_no_state_and_no_watermark() {
        let mut stateless = progress(7, 2000, Some(100.0), Some(200.0));
        stateless.state_operators.clear();
        stateless.event_time.clear();
        let mut view = View::new("q", Pace::Endless);
        view.batch(&stateless);
        assert_eq!(view.line(), "q: batch 7, 2,000 rows in, 100 rows/s in, 200 rows/s processed");
    }

    #[test]
    fn falling_behind_is_said_after_three_such_batches() {
        let behind = |rows| progress(1, rows, Some(200.0), Some(100.0));
        let says = |view: &View| view.line().ends_with(", falling behind");
        let mut view = View::new("q", Pace::Endless);
        view.batch(&behind(10));
        view.batch(&behind(10));
        assert!(!says(&view));
        view.batch(&behind(10));
        assert!(says(&view));
        view.batch(&behind(0));
        assert!(!says(&view));

        let mut finite = View::new("q", Pace::Finite);
        (0..9).for_each(|_| finite.batch(&behind(10)));
        assert!(!says(&finite));
    }
}
