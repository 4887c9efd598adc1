//! Joins beside a model that has all rows in hand: a nested loop over everything that was received
//! in time, which knows nothing of batches, state and eviction.

use super::harness::{Marks, Query, R, SECOND, Within, keyed, marks, ranged, stored};
use crate::join::JoinKind;
use proptest::prelude::*;

const KINDS: [JoinKind; 5] =
    [JoinKind::Inner, JoinKind::Left, JoinKind::Right, JoinKind::Full, JoinKind::LeftSemi];

/// Far in the future: everything has left.
const FAR: i64 = 9_000_000_000_000;

fn row() -> impl Strategy<Value = (Option<f64>, Option<i64>)> {
    let key = prop_oneof![
        8 => (0i64..4).prop_map(|k| Some(k as f64)),
        1 => Just(Some(-0.0)),
        1 => Just(Some(f64::NAN)),
        1 => Just(Some(-f64::NAN)),
        1 => Just(None),
    ];
    let time = prop_oneof![
        12 => (0i64..60).prop_map(|s| Some(s * SECOND)),
        2 => (0i64..60_000_000).prop_map(Some),
        1 => Just(None),
        1 => prop_oneof![Just(-FAR * SECOND / 2), Just(FAR * SECOND / 2)].prop_map(Some),
    ];
    (key, time)
}

/// Batches of rows of both sides, and how far the watermark moves with each, in seconds.
type History = Vec<([Vec<(Option<f64>, Option<i64>)>; 2], i64)>;

fn history() -> impl Strategy<Value = History> {
    let rows = || proptest::collection::vec(row(), 0..12);
    proptest::collection::vec(((rows(), rows()).prop_map(|(l, r)| [l, r]), 0i64..30), 1..6)
}

/// The numbered rows of a history, and the watermarks of its batches.
fn numbered(history: &History) -> Vec<([Vec<R>; 2], Marks)> {
    let (mut v, mut watermark, mut late) = (0, None, None);
    let mut batches = Vec::new();
    for (sides, moved) in history {
        let sides = sides.clone().map(|rows| {
            let rows = rows.into_iter().map(|(k, t)| {
                v += 1;
                R { k, t, v }
            });
            rows.collect::<Vec<_>>()
        });
        watermark = Some(watermark.unwrap_or(-10) + moved);
        batches.push((sides, marks(late, watermark)));
        late = watermark;
    }
    batches
}

fn same_key(a: Option<f64>, b: Option<f64>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a == b || (a.is_nan() && b.is_nan()),
        _ => false,
    }
}

/// What the model expects at the end of everything.
fn expected(
    kind: JoinKind,
    batches: &[([Vec<R>; 2], Marks)],
    matches: impl Fn(&R, &R) -> bool,
) -> Vec<String> {
    let received = |side: usize| -> Vec<R> {
        let in_time = |row: &&R, marks: Marks| match (row.t, marks.late) {
            (Some(t), Some(late)) => t > late * SECOND,
            _ => true,
        };
        let of_batch = |(sides, marks): &([Vec<R>; 2], Marks)| {
            sides[side].iter().filter(|row| in_time(row, *marks)).copied().collect::<Vec<_>>()
        };
        batches.iter().flat_map(of_batch).collect()
    };
    let (left, right) = (received(0), received(1));
    let mut out = Vec::new();
    let pairs = |l: &R| right.iter().filter(|r| matches(l, r)).map(|r| r.v).collect::<Vec<_>>();
    for l in &left {
        let partners = pairs(l);
        match kind {
            JoinKind::LeftSemi if partners.is_empty() => {}
            JoinKind::LeftSemi => out.push(l.v.to_string()),
            _ => out.extend(partners.iter().map(|r| format!("{}-{r}", l.v))),
        }
        // Rows without a time never leave the state: nothing says that they cannot match.
        let leaves = partners.is_empty() && l.t.is_some();
        if leaves && matches!(kind, JoinKind::Left | JoinKind::Full) {
            out.push(format!("{}-_", l.v));
        }
    }
    if matches!(kind, JoinKind::Right | JoinKind::Full) {
        let unmatched = |r: &&R| r.t.is_some() && !left.iter().any(|l| matches(l, r));
        out.extend(right.iter().filter(unmatched).map(|r| format!("_-{}", r.v)));
    }
    out.sort();
    out
}

fn received(query: &mut Query, batches: &[([Vec<R>; 2], Marks)]) -> Vec<String> {
    let mut out = Vec::new();
    for (n, ([left, right], marks)) in batches.iter().enumerate() {
        query.batch_rows = 1 + n * 7;
        out.extend(query.run(left, right, *marks).0);
    }
    let last = batches.last().and_then(|(_, marks)| marks.evict);
    out.extend(query.run(&[], &[], marks(last, Some(FAR))).0);
    out.sort();
    out
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Trap B5.
    #[test]
    fn a_ranged_join_is_the_join_of_everything(
        kind in proptest::sample::select(KINDS.to_vec()),
        lower in -15i64..15,
        width in 0i64..20,
        history in history(),
    ) {
        let within = Within { lower, upper: lower + width };
        let batches = numbered(&history);
        let mut query = Query::new(ranged(kind, within));
        let have = received(&mut query, &batches);
        let matches = |l: &R, r: &R| {
            same_key(l.k, r.k)
                && l.t.zip(r.t).is_some_and(|(l, r)| within.holds(l, r))
        };
        prop_assert_eq!(have, expected(kind, &batches, matches));
    }

    #[test]
    fn a_join_on_the_time_is_the_join_of_everything(
        kind in proptest::sample::select(KINDS.to_vec()),
        history in history(),
    ) {
        let batches = numbered(&history);
        let mut query = Query::new(keyed(kind));
        let have = received(&mut query, &batches);
        let matches = |l: &R, r: &R| same_key(l.k, r.k) && l.t.is_some() && l.t == r.t;
        prop_assert_eq!(have, expected(kind, &batches, matches));
        let timeless = batches.iter().all(|(sides, _)| sides.iter().flatten().all(|r| r.t.is_some()));
        if timeless {
            prop_assert!(stored(&query.contents).is_empty());
        }
    }
}
