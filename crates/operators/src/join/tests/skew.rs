//! Keys with very many rows.

use super::harness::{Query, R, Within, column, marks, r, ranged, side};
use crate::join::{JoinEviction, JoinKind, StreamJoin};
use datafusion_expr::Operator as Op;

fn many(count: i64, from: i64) -> Vec<R> {
    (0..count).map(|n| r(7, from + n, n)).collect()
}

#[test]
fn a_hot_key_grows_in_chunks_and_leaves_whole() {
    let mut query = Query::new(ranged(JoinKind::Left, Within { lower: 0, upper: 0 }));
    for step in 0..5 {
        let left = many(50, step * 50);
        assert_eq!(query.run(&left, &[], marks(None, None)).0, Vec::<String>::new());
    }
    // 250 rows in chunks of 64, and some runs.
    assert!(query.contents.len() < 30, "{} entries", query.contents.len());
    let (pairs, counts) = query.run(&[], &many(250, 0), marks(None, None));
    assert_eq!((pairs.len(), counts.rows_total), (250, 500));
    // Half of it expires: first chunks go, the first one stays for its counts.
    let (gone, counts) = query.run(&[], &[], marks(None, Some(100)));
    assert_eq!((gone.len(), counts.rows_total), (0, 300));
    let (gone, _) = query.run(&many(3, 500), &[], marks(Some(100), Some(100)));
    assert_eq!(gone.len(), 0);
    let (gone, counts) = query.run(&[], &[], marks(Some(100), Some(1000)));
    assert_eq!((gone, counts.rows_total), (vec!["0-_".into(), "1-_".into(), "2-_".into()], 0));
    assert!(query.contents.is_empty(), "{:?}", query.contents);
}

/// 20 k rows a side: four hundred million pairs, of which the range leaves few. They are not even
/// made.
#[test]
fn far_apart_rows_of_a_hot_key_are_not_paired() {
    let mut query = Query::new(ranged(JoinKind::Full, Within { lower: 0, upper: 1 }));
    query.batch_rows = 8192;
    let (pairs, _) = query.run(&many(20_000, 0), &many(20_000, 0), marks(None, None));
    assert_eq!(pairs.len(), 20_000 + 19_999);
}

/// All pairs of a hot key come out, in pieces.
#[test]
fn all_pairs_of_a_hot_key_come_in_pieces() {
    let both = [(); 2].map(|()| side(vec![0], JoinEviction::Never));
    let differ = super::harness::binary(column(2), Op::NotEq, column(5));
    let join = StreamJoin::new(JoinKind::Inner, both, vec![false], Some(differ), None).unwrap();
    let mut query = Query::new(join);
    query.batch_rows = 1000;
    assert_eq!(query.run(&many(300, 0), &[], marks(None, None)).0.len(), 0);
    let (pairs, counts) = query.run(&[], &many(300, 0), marks(None, None));
    assert_eq!((pairs.len(), counts.rows_total), (300 * 299, 600));
}
