//! Turning what a trigger did into a progress report.

use crate::batch::Done;
use crate::event::{Observe, QueryEvent, QueryIdle};
use crate::event_time::EventTimeStats;
use crate::idle::held;
use crate::progress::{
    SinkProgress, SourceProgress, StateOperatorProgress, StreamingQueryProgress, rate,
};
use crate::query::Shared;
use crate::run::Run;
use crate::runner::OperatorReport;
use crate::timings::{Timings, millis};
use fluvial_core::{BatchId, BatchTime, EventTime, Plan, SourceId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// When a trigger began: by the wall clock for people, monotonically for durations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Began {
    pub(crate) at: BatchTime,
    pub(crate) mark: Duration,
}

/// Reports the triggers of one run.
pub(crate) struct Reporter {
    shared: Arc<Shared>,
    observer: Arc<dyn Observe>,
    /// The trigger before.
    previous: Option<Duration>,
    /// When something was last reported, and whether anything was.
    reported: Option<Duration>,
}

/// The two denominators of rates, in seconds.
struct Spans {
    input: f64,
    processing: f64,
}

impl Reporter {
    pub(crate) fn new(shared: Arc<Shared>, observer: Arc<dyn Observe>) -> Self {
        Self { shared, observer, previous: None, reported: None }
    }

    /// Reports a committed batch.
    pub(crate) fn done(&mut self, run: &Run, began: Began, done: Done) {
        let (spans, elapsed) = self.spans(run, began);
        let mut timings = done.timings.clone();
        timings.add("triggerExecution", elapsed);
        let progress = Arc::new(StreamingQueryProgress {
            event_time: event_time(run, &done.plan, &done.output.event_times),
            state_operators: state_operators(&done),
            sink: SinkProgress {
                description: run.spec.sink.description(),
                num_output_rows: i64::try_from(done.rows_out).unwrap_or(i64::MAX),
                metrics: sink_metrics(run, &done),
            },
            observed_metrics: done.output.observed,
            ..self.frame(
                run,
                began,
                done.plan.batch,
                elapsed,
                &timings,
                sources(run, Some(&done.plan), &done.output.source_rows, &spans),
                &spans,
            )
        });
        self.reported = Some(run.stopwatch.now());
        self.shared.held(held(&done.plan).map(|held| held.to_string()));
        self.shared.reported(Arc::clone(&progress));
        self.observer.observe(QueryEvent::Progress(progress));
    }

    /// Reports that there was nothing to do, if that has not been said for a while.
    pub(crate) fn idle(&mut self, run: &Run, began: Began, mut timings: Timings) {
        let (spans, elapsed) = self.spans(run, began);
        let now = run.stopwatch.now();
        let interval = run.spec.settings.idle_report;
        if self.reported.is_some_and(|last| now < last.saturating_add(interval)) {
            return;
        }
        timings.add("triggerExecution", elapsed);
        let sources = sources(run, None, &BTreeMap::new(), &spans);
        let batch = run.position.next;
        let progress = self.frame(run, began, batch, elapsed, &timings, sources, &spans);
        self.shared.reported(Arc::new(progress));
        if self.reported.replace(now).is_some() {
            self.observer.observe(QueryEvent::Idle(QueryIdle {
                id: self.shared.id().clone(),
                run_id: self.shared.run().clone(),
                timestamp: began.at,
            }));
        }
    }

    fn spans(&mut self, run: &Run, began: Began) -> (Spans, Duration) {
        let elapsed = run.stopwatch.since(began.mark);
        let previous = self.previous.replace(began.mark);
        let input = previous
            .map_or(f64::INFINITY, |previous| began.mark.saturating_sub(previous).as_secs_f64());
        (Spans { input, processing: elapsed.as_secs_f64() }, elapsed)
    }

    #[expect(clippy::too_many_arguments, reason = "the common half of two reports")]
    fn frame(
        &self,
        run: &Run,
        began: Began,
        batch: BatchId,
        elapsed: Duration,
        timings: &Timings,
        sources: Vec<SourceProgress>,
        spans: &Spans,
    ) -> StreamingQueryProgress {
        let rows = sources.iter().map(|source| source.num_input_rows).sum();
        StreamingQueryProgress {
            id: self.shared.id().clone(),
            run_id: self.shared.run().clone(),
            name: self.shared.name().map(str::to_owned),
            timestamp: began.at,
            batch_id: batch,
            batch_duration: millis(elapsed),
            num_input_rows: rows,
            input_rows_per_second: rate(rows, spans.input),
            processed_rows_per_second: rate(rows, spans.processing),
            duration_ms: timings.millis(),
            event_time: BTreeMap::new(),
            state_operators: Vec::new(),
            sources,
            sink: SinkProgress {
                description: run.spec.sink.description(),
                num_output_rows: -1,
                metrics: BTreeMap::new(),
            },
            observed_metrics: BTreeMap::new(),
        }
    }
}

fn sources(
    run: &Run,
    plan: Option<&Plan>,
    rows: &BTreeMap<SourceId, u64>,
    spans: &Spans,
) -> Vec<SourceProgress> {
    let position = &run.position;
    let of = |(id, source): (&SourceId, &Arc<dyn fluvial_core::Source>)| {
        let end = match plan {
            Some(plan) => plan.ends.get(id),
            None => position.last.as_ref().and_then(|last| last.ends.get(id)),
        };
        let start = match plan {
            Some(plan) if plan.batch == BatchId::FIRST => None,
            Some(plan) => plan.ranges.get(id).map(|range| &range.start).or(end),
            None => end,
        };
        let rows = rows.get(id).copied().unwrap_or(0);
        SourceProgress {
            description: source.description(),
            start_offset: start.map(|offset| offset.json().clone()),
            end_offset: end.map(|offset| offset.json().clone()),
            // A source without a log of its own reads all that there is, up to its limit.
            latest_offset: plan
                .and_then(|plan| plan.ranges.get(id))
                .filter(|range| range.log.is_none())
                .map(|range| range.end.json().clone()),
            num_input_rows: rows,
            input_rows_per_second: rate(rows, spans.input),
            processed_rows_per_second: rate(rows, spans.processing),
            metrics: source.metrics(),
        }
    };
    run.sources.iter().map(of).collect()
}

/// The watermark that the batch ran with, shown as the epoch before the first event, and the
/// event times that it saw over all inputs.
fn event_time(
    run: &Run,
    plan: &Plan,
    seen: &BTreeMap<fluvial_core::WatermarkId, EventTimeStats>,
) -> BTreeMap<String, String> {
    if run.delays.is_empty() {
        return BTreeMap::new();
    }
    let watermark = plan.settings.watermark_policy.combine(&plan.evict).unwrap_or(EventTime(0));
    let mut shown = BTreeMap::from([("watermark".to_owned(), watermark.to_string())]);
    let all = seen.values().copied().reduce(|mut all, more| {
        all.merge(more);
        all
    });
    if let Some(all) = all {
        shown.insert("avg".into(), all.average().to_string());
        shown.insert("max".into(), all.max.to_string());
        shown.insert("min".into(), all.min.to_string());
    }
    if let Some(held) = held(plan) {
        shown.insert("heldBy".into(), held.by.to_string());
        shown.insert("heldSince".into(), held.since.to_string());
    }
    shown
}

/// What the operator tells, and where its rows went.
fn custom_metrics(report: &OperatorReport) -> BTreeMap<String, i64> {
    let mut all = report.custom.clone();
    all.extend(crate::account::metrics(report.rows_in, &report.counts.rows));
    if report.kind.starts_with("dedupe") {
        // Spark always says how many.
        all.entry("numDroppedDuplicateRows".to_owned()).or_default();
    }
    all
}

/// What there is to say about the output beside its rows.
fn sink_metrics(run: &Run, done: &Done) -> BTreeMap<String, String> {
    let late = run.spec.late.as_ref().map(|_| {
        let rows: u64 = done.output.late.iter().map(|staged| staged.rows).sum();
        ("numLateRows".to_owned(), rows.to_string())
    });
    late.into_iter().collect()
}

fn state_operators(done: &Done) -> Vec<StateOperatorProgress> {
    let of = |report: &OperatorReport| StateOperatorProgress {
        operator_name: report.kind.clone(),
        num_rows_total: report.counts.rows_total,
        num_rows_updated: report.counts.rows_updated,
        all_updates_time_ms: millis(report.updates),
        num_rows_removed: report.counts.rows_removed,
        all_removals_time_ms: millis(report.removals),
        commit_time_ms: millis(done.state_commit),
        memory_used_bytes: report.counts.memory_bytes,
        num_rows_dropped_by_watermark: report.counts.rows.late,
        num_shuffle_partitions: done.plan.partitions,
        num_state_store_instances: report.store_instances,
        custom_metrics: custom_metrics(report),
    };
    done.output.operators.iter().map(of).collect()
}
