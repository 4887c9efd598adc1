//! Inputs that say nothing: since when, who waits for them, and for how long.
//!
//! An input is silent while its sources have nothing to read. Since when is in the plan, and so is
//! what comes of it, as the watermarks that the batch evicts with: a replay looks at no clock.

use fluvial_core::{
    BatchTime, EventTime, Plan, SourceId, SourceRange, WatermarkId, WatermarkPolicy, Watermarks,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

/// What a watermark definition hears of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WatermarkInput {
    /// The sources below it.
    pub sources: BTreeSet<SourceId>,
    /// After how long a silence the other inputs go on without it; `None` is never.
    pub idle_after: Option<Duration>,
}

/// When each input last had something to read, as of a batch that reads `ranges`. An input that
/// never had counts from the first batch. Empty for queries whose watermark has one input.
pub(crate) fn heard(
    inputs: &BTreeMap<WatermarkId, WatermarkInput>,
    last: Option<&Plan>,
    ranges: &BTreeMap<SourceId, SourceRange>,
    now: BatchTime,
) -> BTreeMap<WatermarkId, BatchTime> {
    if inputs.len() < 2 {
        return BTreeMap::new();
    }
    let of = |id: &WatermarkId, input: &WatermarkInput| {
        let before = last.and_then(|plan| plan.heard.get(id)).copied();
        match input.sources.iter().any(|source| ranges.contains_key(source)) {
            true => now,
            false => before.unwrap_or(now),
        }
    };
    inputs.iter().map(|(id, input)| (id.clone(), of(id, input))).collect()
}

/// `evict`, with the watermarks of idle inputs brought up to those of the others: what comes from
/// an idle input later is judged like everything else. None goes back. Whoever was heard last is
/// never idle, so that a query that is idle as a whole stands still.
pub(crate) fn without_idle(
    inputs: &BTreeMap<WatermarkId, WatermarkInput>,
    policy: WatermarkPolicy,
    heard: &BTreeMap<WatermarkId, BatchTime>,
    now: BatchTime,
    mut evict: Watermarks,
) -> Watermarks {
    let newest = heard.values().max().copied();
    let is_idle = |id: &WatermarkId| {
        let after = inputs.get(id).and_then(|input| input.idle_after);
        let since = heard.get(id).copied();
        after.zip(since).is_some_and(|(after, since)| {
            Some(since) < newest && i128::from(now.0) - i128::from(since.0) >= millis(after)
        })
    };
    if policy == WatermarkPolicy::Max {
        return evict;
    }
    let active = evict.iter().filter(|(id, _)| !is_idle(id));
    let active: Watermarks = active.map(|(id, watermark)| (id.clone(), *watermark)).collect();
    let lowest = policy.combine(&active);
    for (id, watermark) in &mut evict {
        if is_idle(id) {
            *watermark = (*watermark).max(lowest);
        }
    }
    evict
}

fn millis(duration: Duration) -> i128 {
    i128::try_from(duration.as_millis()).unwrap_or(i128::MAX)
}

/// Which input the others wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) by: WatermarkId,
    /// Where it stands; `None` before its first event.
    pub(crate) at: Option<EventTime>,
    /// When it last had something to read.
    pub(crate) since: BatchTime,
}

/// The input that holds the watermark of a batch; `None` if no others are ahead of it.
pub(crate) fn held(plan: &Plan) -> Option<Held> {
    if plan.settings.watermark_policy == WatermarkPolicy::Max {
        return None;
    }
    let (by, at) = plan.evict.iter().min_by_key(|(_, watermark)| **watermark)?;
    let ahead = plan.evict.values().any(|watermark| watermark > at);
    let since = plan.heard.get(by).filter(|_| ahead)?;
    Some(Held { by: by.clone(), at: *at, since: *since })
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (by, since) = (&self.by, self.since);
        match self.at {
            Some(at) => {
                write!(f, "the watermark is held at {at} by {by}, which was last heard {since}")
            }
            None => write!(f, "the watermark waits for the first event of {by}, since {since}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::plan;

    fn id(name: &str) -> WatermarkId {
        WatermarkId::new(name).unwrap()
    }

    fn marks(values: [(&str, Option<i64>); 2]) -> Watermarks {
        values.into_iter().map(|(name, at)| (id(name), at.map(EventTime))).collect()
    }

    fn inputs(idle_after: Option<u64>) -> BTreeMap<WatermarkId, WatermarkInput> {
        let input = |name: &str, idle_after: Option<u64>| {
            let sources = [SourceId::new(name).unwrap()].into();
            (
                id(name),
                WatermarkInput { sources, idle_after: idle_after.map(Duration::from_millis) },
            )
        };
        [input("a", None), input("b", idle_after)].into()
    }

    fn times(a: i64, b: i64) -> BTreeMap<WatermarkId, BatchTime> {
        [(id("a"), BatchTime(a)), (id("b"), BatchTime(b))].into()
    }

    fn evict(idle_after: Option<u64>, b: Option<i64>, heard: (i64, i64), now: i64) -> Watermarks {
        let heard = times(heard.0, heard.1);
        let evict = marks([("a", Some(9)), ("b", b)]);
        let inputs = inputs(idle_after);
        without_idle(&inputs, WatermarkPolicy::Min, &heard, BatchTime(now), evict)
    }

    #[test]
    fn who_was_silent_long_enough_goes_with_the_others() {
        let both = marks([("a", Some(9)), ("b", Some(9))]);
        assert_eq!(evict(Some(10), Some(3), (100, 90), 100), both);
        assert_eq!(evict(Some(10), None, (100, 90), 100), both, "also before its first event");
        let held = marks([("a", Some(9)), ("b", Some(3))]);
        assert_eq!(evict(Some(10), Some(3), (100, 91), 100), held, "not long enough");
        assert_eq!(evict(None, Some(3), (100, 0), 100), held, "off");
        assert_eq!(evict(Some(10), Some(3), (90, 90), 200), held, "all are silent");
        let ahead = marks([("a", Some(9)), ("b", Some(12))]);
        assert_eq!(evict(Some(10), Some(12), (100, 0), 100), ahead, "none goes back");
    }

    #[test]
    fn an_active_input_without_events_holds_everything_back() {
        let evict = marks([("a", None), ("b", Some(3))]);
        let heard = times(100, 0);
        let (inputs, now) = (inputs(Some(10)), BatchTime(100));
        let lifted = without_idle(&inputs, WatermarkPolicy::Min, &heard, now, evict.clone());
        assert_eq!(lifted, evict);
    }

    #[test]
    fn hearing_is_having_something_to_read() {
        let last = Plan { heard: times(5, 6), ..plan(3) };
        let mut ranges = BTreeMap::new();
        let none = heard(&inputs(None), Some(&last), &ranges, BatchTime(9));
        assert_eq!(none, times(5, 6));
        assert_eq!(heard(&inputs(None), None, &ranges, BatchTime(9)), times(9, 9));
        let range = last.ranges.values().next().unwrap().clone();
        ranges.insert(SourceId::new("b").unwrap(), range);
        assert_eq!(heard(&inputs(None), Some(&last), &ranges, BatchTime(9)), times(5, 9));
        let one: BTreeMap<_, _> = inputs(None).into_iter().take(1).collect();
        assert!(heard(&one, Some(&last), &ranges, BatchTime(9)).is_empty());
    }

    #[test]
    fn the_lowest_holds_the_others() {
        let of = |a, b| {
            let (evict, heard) = (marks([("a", a), ("b", b)]), times(0, 1_000));
            held(&Plan { evict, heard, ..plan(3) }).map(|held| held.to_string())
        };
        assert_eq!(of(Some(5), Some(5)), None);
        assert_eq!(of(None, None), None);
        let text = of(Some(5_000_000), Some(2_000_000)).unwrap();
        assert!(text.contains("held at 1970-01-01T00:00:02.000Z by b"), "{text}");
        assert!(text.ends_with("heard 1970-01-01T00:00:01.000Z"), "{text}");
        let text = of(Some(5_000_000), None).unwrap();
        assert!(text.starts_with("the watermark waits for the first event of b"), "{text}");
    }
}
