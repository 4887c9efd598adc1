//! How watermarks move from one batch to the next.

use crate::event_time::EventTimeStats;
use fluvial_core::{EventDuration, WatermarkId, Watermarks};
use std::collections::BTreeMap;

/// `known` for exactly the definitions that the query has now; one not seen yet is `None`.
pub(crate) fn aligned(
    delays: &BTreeMap<WatermarkId, EventDuration>,
    known: Option<&Watermarks>,
) -> Watermarks {
    let of = |id| known.and_then(|known| known.get(id).copied().flatten());
    delays.keys().map(|id| (id.clone(), of(id))).collect()
}

/// The watermarks after a batch that ran with `evict` and saw `stats`: each follows its own
/// newest event and never goes back; one without new events stays where it is.
pub(crate) fn advanced(
    delays: &BTreeMap<WatermarkId, EventDuration>,
    evict: &Watermarks,
    stats: &BTreeMap<WatermarkId, EventTimeStats>,
) -> Watermarks {
    let next = |(id, delay): (&WatermarkId, &EventDuration)| {
        let old = evict.get(id).copied().flatten();
        let new = stats.get(id).map(|s| s.max.floor_to_millis().minus(*delay).floor_to_millis());
        (id.clone(), old.max(new))
    };
    delays.iter().map(next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use fluvial_core::EventTime;

    fn id(name: &str) -> WatermarkId {
        WatermarkId::new(name).unwrap()
    }

    fn seen(max: i64) -> EventTimeStats {
        EventTimeStats { min: EventTime(max), max: EventTime(max), sum: max.into(), count: 1 }
    }

    #[test]
    fn a_silent_input_keeps_its_watermark_and_none_goes_back() {
        let delays: BTreeMap<_, _> =
            [(id("a"), EventDuration(0)), (id("b"), EventDuration(2_000_000))].into();
        let start = aligned(&delays, None);
        assert_eq!(start, [(id("a"), None), (id("b"), None)].into());
        let first = advanced(&delays, &start, &[(id("a"), seen(5_001_999))].into());
        assert_eq!(first, [(id("a"), Some(EventTime(5_001_000))), (id("b"), None)].into());
        let second = advanced(&delays, &first, &[(id("a"), seen(1)), (id("b"), seen(-1))].into());
        assert_eq!(second[&id("a")], Some(EventTime(5_001_000)));
        assert_eq!(second[&id("b")], Some(EventTime(-2_001_000)));
    }

    /// Trap A21.
    #[test]
    fn extreme_times_saturate() {
        let delays: BTreeMap<_, _> = [(id("a"), EventDuration(10_000_000))].into();
        let start = aligned(&delays, None);
        for max in [i64::MIN, i64::MIN + 1, i64::MAX] {
            let next = advanced(&delays, &start, &[(id("a"), seen(max))].into());
            assert!(next[&id("a")] <= Some(EventTime(max)), "{max}");
        }
    }
}
