//! Listens to queries and prints what there is to see.

use super::json;
use super::live::{Live, Style};
use super::view::{End, Pace, View};
use fluvial_core::RunId;
use fluvial_engine::{
    QueryIdle, QueryStarted, QueryTerminated, StreamingQuery, StreamingQueryListener,
    StreamingQueryProgress,
};
use std::collections::BTreeMap;
use std::io::{ErrorKind, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// How long the end of a run waits for its last reports to be printed.
const LAST_REPORTS: Duration = Duration::from_secs(5);

/// Where reports go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// To people.
    Terminal(Style),
    /// To programs.
    Lines,
}

impl Output {
    /// What the standard output is. `style` is for terminals.
    pub(crate) fn of_stdout(style: Style) -> Self {
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        match std::io::stdout().is_terminal() && !dumb {
            true => Self::Terminal(style),
            false => Self::Lines,
        }
    }
}

/// Prints the progress of all queries of a session.
pub(crate) struct Reporter {
    screen: Mutex<Screen>,
    /// A query's last report was taken.
    told: Notify,
}

struct Screen {
    live: Option<Live>,
    out: Box<dyn Write + Send>,
    /// Of this run, in the order in which they were started.
    order: Vec<RunId>,
    views: BTreeMap<RunId, View>,
    /// Reports of queries that are not known yet: the first batch may be faster than its start.
    early: Vec<StreamingQueryProgress>,
    warned: BTreeMap<RunId, usize>,
    terminated: Vec<RunId>,
    /// Why something could not be printed: the first time.
    lost: Option<std::io::Error>,
}

impl Reporter {
    pub(crate) fn new(output: Output, out: Box<dyn Write + Send>) -> Self {
        let live = match output {
            Output::Terminal(style) => Some(Live::new(style)),
            Output::Lines => None,
        };
        let screen = Screen {
            live,
            out,
            order: Vec::new(),
            views: BTreeMap::new(),
            early: Vec::new(),
            warned: BTreeMap::new(),
            terminated: Vec::new(),
            lost: None,
        };
        Self { screen: Mutex::new(screen), told: Notify::new() }
    }

    fn screen<T>(&self, f: impl FnOnce(&mut Screen) -> T) -> T {
        f(&mut self.screen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A query was started.
    pub(crate) fn watch(&self, name: &str, pace: Pace, query: &StreamingQuery) {
        self.screen(|screen| screen.watch(name, pace, query.run_id()));
    }

    /// Looks at what the queries are doing right now, and at what they warn of.
    pub(crate) fn look<'a>(&self, queries: impl Iterator<Item = &'a StreamingQuery>) {
        self.screen(|screen| {
            for query in queries {
                screen.warn(query.run_id(), &query.warnings());
                if let Some(view) = screen.views.get_mut(query.run_id()) {
                    view.status(&query.status().message);
                }
            }
            screen.redraw();
        });
    }

    /// A query has ended: waits until all its reports are printed, and says how it ended.
    pub(crate) async fn ended(&self, query: &StreamingQuery, end: End) {
        let run = query.run_id();
        let told = async {
            loop {
                let next = self.told.notified();
                if self.screen(|screen| screen.terminated.contains(run)) {
                    return;
                }
                next.await;
            }
        };
        // Reports are a courtesy: a listener that is stuck must not hold the program.
        let _ = tokio::time::timeout(LAST_REPORTS, told).await;
        self.screen(|screen| {
            screen.warn(run, &query.warnings());
            screen.ended(run, end);
        });
    }

    /// Why something could not be printed, if so: the first time.
    pub(crate) fn lost(&self) -> Option<std::io::Error> {
        self.screen(|screen| screen.lost.take())
    }

    /// Prints text for people: rows of a SELECT, what a statement did.
    pub(crate) fn print(&self, text: &str) {
        self.screen(|screen| screen.print(text));
    }
}

impl Screen {
    fn watch(&mut self, name: &str, pace: Pace, run: &RunId) {
        self.order.push(run.clone());
        self.views.insert(run.clone(), View::new(name, pace));
        let (ours, others) = std::mem::take(&mut self.early)
            .into_iter()
            .partition(|progress| progress.run_id == *run);
        self.early = others;
        self.redraw();
        Vec::into_iter(ours).for_each(|progress| self.batch(&progress));
    }

    fn batch(&mut self, progress: &StreamingQueryProgress) {
        let Some(view) = self.views.get_mut(&progress.run_id) else {
            self.early.push(progress.clone());
            return;
        };
        view.batch(progress);
        self.show(&progress.run_id, || Some(json::batch(progress)));
    }

    fn ended(&mut self, run: &RunId, end: End) {
        let Some(view) = self.views.get_mut(run) else { return };
        view.ended(end);
        let line = json::ended(view);
        self.show(run, || line);
        if self.views.values().all(View::has_ended)
            && let Some(live) = &mut self.live
        {
            live.settle();
            self.views.clear();
            self.order.clear();
        }
    }

    fn warn(&mut self, run: &RunId, warnings: &[String]) {
        let seen = self.warned.entry(run.clone()).or_default();
        let new = warnings.get(*seen..).unwrap_or_default();
        *seen = warnings.len();
        let Some(view) = self.views.get(run) else { return };
        let text: Vec<String> =
            new.iter().map(|warning| format!("{}: warning: {warning}", view.name)).collect();
        if text.is_empty() {
            return;
        }
        match self.live {
            Some(_) => self.print(&text.join("\n")),
            // Programs read the standard output.
            None => eprintln!("{}", text.join("\n")),
        }
    }

    /// Shows that a query has something new; `line` is for programs.
    fn show(&mut self, run: &RunId, line: impl FnOnce() -> Option<String>) {
        let views: Vec<&View> = self.order.iter().filter_map(|run| self.views.get(run)).collect();
        let text = match (&mut self.live, self.views.get(run)) {
            (Some(live), Some(view)) => live.changed(view, &views),
            (Some(_), None) => String::new(),
            (None, _) => line().map_or_else(String::new, |line| line + "\n"),
        };
        self.write(&text);
    }

    fn redraw(&mut self) {
        let views: Vec<&View> = self.order.iter().filter_map(|run| self.views.get(run)).collect();
        let text = self.live.as_mut().map_or_else(String::new, |live| live.redraw(&views));
        self.write(&text);
    }

    fn print(&mut self, text: &str) {
        let views: Vec<&View> = self.order.iter().filter_map(|run| self.views.get(run)).collect();
        let text = match &mut self.live {
            Some(live) => live.above(text, &views),
            None => format!("{}\n", text.trim_end_matches('\n')),
        };
        self.write(&text);
    }

    fn write(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        match self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()) {
            // Whoever read the output may be gone (`| head`). The queries go on: their output is
            // elsewhere.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                self.lost.get_or_insert(error);
            }
            _ => {}
        }
    }
}

impl StreamingQueryListener for Reporter {
    fn on_started(&self, _: &QueryStarted) {}

    fn on_progress(&self, progress: &StreamingQueryProgress) {
        self.screen(|screen| screen.batch(progress));
    }

    fn on_idle(&self, _: &QueryIdle) {}

    fn on_terminated(&self, event: &QueryTerminated) {
        self.screen(|screen| screen.terminated.push(event.run_id.clone()));
        self.told.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::testing::progress;
    use std::sync::Arc;

    /// Bytes that a test can look at.
    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn printed(output: Output, f: impl FnOnce(&Reporter, &RunId)) -> String {
        let paper = Paper::default();
        let reporter = Reporter::new(output, Box::new(paper.clone()));
        f(&reporter, &RunId::new("run").unwrap());
        let bytes = paper.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn programs_get_one_line_per_batch() {
        let text = printed(Output::Lines, |reporter, run| {
            reporter.screen(|screen| screen.watch("q", Pace::Finite, run));
            reporter.on_progress(&progress(0, 16, None, None));
            reporter.on_progress(&progress(1, 2, None, None));
            reporter.screen(|screen| screen.ended(run, End::Done));
            reporter.print("+---+\n");
        });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[1].contains("\"batchId\":1"));
        assert_eq!(lines[2], "+---+");
    }

    #[test]
    fn people_see_the_end_of_a_query_and_then_the_rows() {
        let text = printed(Output::Terminal(Style::InPlace), |reporter, run| {
            reporter.screen(|screen| screen.watch("q", Pace::Finite, run));
            reporter.screen(|screen| screen.ended(run, End::Done));
            reporter.print("+---+\n");
        });
        assert!(text.ends_with("q: nothing new\n\x1b[?7h+---+\n"), "{text:?}");
    }

    #[test]
    fn a_batch_that_is_faster_than_its_start_is_not_lost() {
        let text = printed(Output::Lines, |reporter, run| {
            reporter.on_progress(&progress(0, 16, None, None));
            reporter.screen(|screen| screen.watch("q", Pace::Finite, run));
        });
        assert_eq!(text.lines().count(), 1);
    }
}
