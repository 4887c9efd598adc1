//! Planning a batch: what it reads, which watermarks it has, and whether it runs at all.

use crate::idle::{heard, without_idle};
use crate::run::Run;
use crate::settings::EmptyBatches;
use crate::timings::Timings;
use crate::watermarks::aligned;
use fluvial_core::{
    BatchTime, Error, Frontier, Offset, Plan, PlanRequest, ReadLimit, Result, Source, SourceId,
    SourceRange, Watermarks,
};
use futures::future::try_join_all;
use std::collections::BTreeMap;

/// What a trigger asks a step to do.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ask<'a> {
    /// How far each source may be read at most.
    pub(crate) until: Option<&'a BTreeMap<SourceId, Frontier>>,
    /// Whether the sources' limits hold.
    pub(crate) limits: Limits,
    /// Whether a batch without data may run.
    pub(crate) empty: Empty,
    /// Whether it may run because a timer is due.
    pub(crate) timers: Timers,
}

/// Whether a timer that is due may run a batch without data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Timers {
    #[default]
    Fire,
    /// Somebody waits for the end of what is there: timers that set each other have none.
    Wait,
}

/// Whether the sources' limits hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Limits {
    #[default]
    Kept,
    Ignored,
}

/// Whether a batch without data may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Empty {
    #[default]
    Allowed,
    Never,
}

impl Run {
    /// The plan of the next batch; `None` if there is nothing to do.
    pub(crate) async fn plan(&self, ask: Ask<'_>, timings: &mut Timings) -> Result<Option<Plan>> {
        let position = &self.position;
        let ranges = timings.measure(&self.stopwatch, "latestOffset", self.ranges(ask)).await?;
        let last = position.last.as_deref();
        let now = BatchTime(self.spec.environment.clock.now_ms());
        let time = last.map_or(now, |plan| now.max(plan.time));
        let heard = heard(&self.inputs, last, &ranges, time);
        let evict = aligned(&self.delays, Some(&position.watermarks));
        let policy = self.settings.watermark_policy;
        let evict = without_idle(&self.inputs, policy, &heard, time, evict);
        let late = aligned(&self.delays, last.map(|plan| &plan.evict));
        if ranges.is_empty() && !self.wants_empty(ask, &late, &evict) {
            return Ok(None);
        }
        let mut ends = position.starts.clone();
        ends.extend(ranges.iter().map(|(id, range)| (id.clone(), range.end.clone())));
        let key_groups = self.settings.key_groups;
        Ok(Some(Plan {
            batch: position.next,
            run: self.spec.run.clone(),
            silent: self.silent(&ranges),
            ranges,
            ends,
            late,
            evict,
            heard,
            time,
            partitions: self.spec.settings.partitions.clamp(1, key_groups.get().into()),
            settings: self.settings.clone(),
            shape: self.shape.clone(),
        }))
    }

    async fn ranges(&self, ask: Ask<'_>) -> Result<BTreeMap<SourceId, SourceRange>> {
        let each = self.sources.iter().map(|(id, source)| async move {
            let planned = self.range(id, source.as_ref(), ask).await.map_err(|e| e.at(id))?;
            Ok::<_, Error>(planned.map(|range| (id.clone(), range)))
        });
        let planned: Vec<_> = try_join_all(each).await?;
        Ok(planned.into_iter().flatten().collect())
    }

    async fn range(
        &self,
        id: &SourceId,
        source: &dyn Source,
        ask: Ask<'_>,
    ) -> Result<Option<SourceRange>> {
        let start = &self.position.starts[id];
        let limit = match ask.limits {
            Limits::Kept => source.read_limit(),
            Limits::Ignored => ReadLimit::NONE,
        };
        let request = PlanRequest {
            batch: self.position.next,
            run: &self.spec.run,
            start,
            limit,
            until: ask.until.and_then(|frontiers| frontiers.get(id)),
            splits: self.spec.settings.splits,
        };
        let planned = self.retried(|| source.plan(request)).await?;
        planned.iter().try_for_each(|range| check_range(start, range))?;
        Ok(planned)
    }

    /// A moved watermark may close what no data would: never when the trigger or the settings
    /// forbid it.
    fn wants_empty(&self, ask: Ask<'_>, from: &Watermarks, to: &Watermarks) -> bool {
        let spec = &self.spec;
        ask.empty == Empty::Allowed
            && spec.settings.empty_batches == EmptyBatches::WhenWanted
            && (self.watermark_moved(from, to) || self.timer_is_due(ask))
    }

    fn watermark_moved(&self, from: &Watermarks, to: &Watermarks) -> bool {
        let spec = &self.spec;
        from != to && spec.runner.wants_empty_batch(&self.settings, spec.mode, from, to)
    }

    fn timer_is_due(&self, ask: Ask<'_>) -> bool {
        let spec = &self.spec;
        let due = |timer: BatchTime| timer.0 <= spec.environment.clock.now_ms();
        ask.timers == Timers::Fire && spec.runner.next_timer().is_some_and(due)
    }

    /// The newest ranges of the sources that have none in this batch.
    fn silent(&self, ranges: &BTreeMap<SourceId, SourceRange>) -> BTreeMap<SourceId, SourceRange> {
        let Some(last) = self.position.last.as_deref() else { return BTreeMap::new() };
        let silent = self.sources.keys().filter(|id| !ranges.contains_key(*id));
        silent
            .filter_map(|id| {
                let mut range = last.newest_range(id)?.clone();
                if range.log.is_some() {
                    range.splits.clear();
                }
                Some((id.clone(), range))
            })
            .collect()
    }
}

/// Checks what a source planned, before it becomes durable.
fn check_range(start: &Offset, range: &SourceRange) -> Result<()> {
    let wrong = |condition: &'static str, what: &str| {
        Err(Error::invalid(format!(
            "the source was asked to go on after {start} and planned {} to {}: {what}; this is an \
             error in the source",
            range.start, range.end
        ))
        .with_condition(condition))
    };
    if range.start != *start {
        return wrong("SOURCE_OFFSET_ELSEWHERE", "that begins elsewhere");
    }
    if range.end == range.start {
        return wrong("SOURCE_OFFSET_DID_NOT_ADVANCE", "a range must end after its start");
    }
    if went_back(range.start.json(), range.end.json()) {
        return wrong("SOURCE_OFFSET_WENT_BACK", "that ends before it starts");
    }
    Ok(())
}

/// Whether `end` is plainly before `start`. Order is the source's business; but where offsets are
/// numbers, or flat maps of numbers of which none rises, there is no doubt.
fn went_back(start: &serde_json::Value, end: &serde_json::Value) -> bool {
    use serde_json::Value::{Number, Object};
    match (start, end) {
        (Number(start), Number(end)) => start.as_f64() > end.as_f64(),
        (Object(start), Object(end)) => {
            let falls = |(name, from): (&String, &serde_json::Value)| match (from, end.get(name)) {
                (Number(from), Some(Number(to))) => Some(from.as_f64() >= to.as_f64()),
                _ => None,
            };
            start.len() == end.len() && start.iter().all(|field| falls(field) == Some(true))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_is_plainly_behind_is_refused() {
        let check = |start: serde_json::Value, end: serde_json::Value| {
            let range = SourceRange {
                start: Offset::from(start.clone()),
                end: Offset::from(end),
                splits: Vec::new(),
                log: None,
            };
            let error = check_range(&Offset::from(start), &range).err();
            error.and_then(|e| e.condition().map(str::to_owned)).unwrap_or_default()
        };
        assert_eq!(check(json!(1), json!(2)), "");
        assert_eq!(check(json!(2), json!(1)), "SOURCE_OFFSET_WENT_BACK");
        assert_eq!(check(json!(2), json!(2)), "SOURCE_OFFSET_DID_NOT_ADVANCE");
        assert_eq!(check(json!({"0": 5, "1": 7}), json!({"0": 5, "1": 8})), "");
        assert_eq!(check(json!({"0": 5, "1": 7}), json!({"0": 4, "1": 8})), "");
        assert_eq!(check(json!({"0": 5}), json!({"0": 4})), "SOURCE_OFFSET_WENT_BACK");
        assert_eq!(check(json!({"0": 5}), json!({"0": 4, "1": 1})), "");
        assert_eq!(check(json!("b"), json!("a")), "");
    }
}
