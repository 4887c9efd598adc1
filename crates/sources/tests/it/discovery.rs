//! How Auto Loader finds files: by names, by news, again after a while; and what becomes of files
//! that are done with.

use crate::query::{Query, Spec, put};
use fluvial_core::Source;
use fluvial_sim::{Disk, VirtualClock};
use fluvial_sources::NewsInProcess;
use std::sync::Arc;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

fn given() -> Spec {
    Spec { auto: true, ..Spec::json("v INT") }
}

fn file(disk: &Disk, name: &str, v: i64) {
    put(disk, name, &[&format!("{{\"v\":{v}}}")], v);
}

fn values(query: &mut Query) -> Vec<String> {
    query.batch().unwrap().unwrap_or_default()
}

#[test]
fn only_unknown_names_are_asked_for() {
    let disk = Disk::new();
    (0..20).for_each(|n| file(&disk, &format!("k={}/f{n:02}", n % 2), n));
    let spec = Spec { names: true, ..given() };
    let mut query = Query::start(&disk, &spec).unwrap();
    assert_eq!(values(&mut query).len(), 20);
    query.restart(&spec).unwrap();
    file(&disk, "k=1/f20", 20);
    file(&disk, "k=1/_hidden", 21);
    file(&disk, "other/f21", 21);
    let before = query.process.calls().len();
    assert_eq!(values(&mut query), ["v=20 k=1"]);
    let calls = query.process.calls();
    let asked = calls[before..].iter().filter(|call| call.path.contains("/f0")).count();
    assert_eq!(asked, 0, "files that were read are not asked for: {:?}", &calls[before..]);
    assert_eq!(query.batch().unwrap(), None);
    // Out of the order of names and times.
    file(&disk, "k=0/a", -5);
    assert_eq!(values(&mut query), ["v=-5 k=0"]);
}

#[test]
fn names_find_what_a_listing_finds() {
    let names = ["a", "k=1/b", "k=1/_l=2/c", "k=1/d/e", ".h=1/f", "_SUCCESS", "g/h", "_p=1/i"];
    for recursive in ["true", "false"] {
        let found = |names_first| {
            let disk = Disk::new();
            names.iter().enumerate().for_each(|(n, name)| file(&disk, name, n as i64));
            let spec = given().option("recursiveFileLookup", recursive);
            let mut query = Query::start(&disk, &Spec { names: names_first, ..spec }).unwrap();
            values(&mut query)
        };
        assert_eq!(found(true), found(false), "recursive: {recursive}");
        assert!(!found(true).is_empty());
    }
}

fn told(news: &Arc<NewsInProcess>, clock: &Arc<VirtualClock>) -> Spec {
    let spec = given().option("useNotifications", "true").option("backfillInterval", "1 day");
    Spec { news: Some(news.clone()), clock: Some(clock.clone()), ..spec }
}

#[test]
fn files_that_are_told_of_are_read_once_and_others_when_all_are_looked_at() {
    let (disk, news) = (Disk::new(), Arc::new(NewsInProcess::default()));
    let clock = Arc::new(VirtualClock::at(0));
    file(&disk, "a", 1);
    let spec = told(&news, &clock).option("maxFilesPerTrigger", "1");
    let mut query = Query::start(&disk, &spec).unwrap();
    assert_eq!(values(&mut query), ["v=1"], "a start looks at all files");
    for (name, v) in [("b", 2), ("k=1/c", 3), ("silent", 4)] {
        file(&disk, name, v);
    }
    for location in ["sim:///in/b", "in/k=1/c", "/in/b", "in/gone", "elsewhere/x", "in/_hidden"] {
        news.tell(location);
    }
    let listings = |query: &Query| {
        query.process.calls().iter().filter(|call| call.path.trim_matches('/') == "in").count()
    };
    let before = listings(&query);
    assert_eq!(values(&mut query), ["v=2"]);
    // What is planned and not adopted is told again.
    assert!(query.plan(None).unwrap().is_some());
    assert_eq!(values(&mut query), ["v=3"]);
    assert_eq!(query.batch().unwrap(), None);
    assert_eq!(listings(&query), before, "nothing was listed");
    clock.advance(DAY);
    assert_eq!(values(&mut query), ["v=4"], "nobody told of it");
    news.tell("in/b");
    assert_eq!(query.batch().unwrap(), None, "old news");
    // News that a process takes with it is made up for by the next one's start.
    file(&disk, "d", 5);
    query.restart(&Spec { news: Some(Arc::default()), ..spec }).unwrap();
    assert_eq!(values(&mut query), ["v=5"]);
}

#[test]
fn the_tail_is_listed_until_all_is_due() {
    let (disk, clock) = (Disk::new(), Arc::new(VirtualClock::at(0)));
    file(&disk, "m", 1);
    let spec = given().option("useIncrementalListing", "true").option("backfillInterval", "7 days");
    let mut query = Query::start(&disk, &Spec { clock: Some(clock.clone()), ..spec }).unwrap();
    assert_eq!(values(&mut query), ["v=1"]);
    file(&disk, "a", 2);
    for _ in 0..20 {
        assert_eq!(query.batch().unwrap(), None);
    }
    clock.advance(7 * DAY);
    assert_eq!(values(&mut query), ["v=2"]);
}

#[test]
fn what_is_left_unread_is_said() {
    let disk = Disk::new();
    (0..5).for_each(|n| file(&disk, &format!("{n}"), n));
    let spec = given().option("maxFilesPerTrigger", "2");
    let mut query = Query::start(&disk, &spec).unwrap();
    let said = |query: &Query| {
        let metrics = query.source.metrics();
        [&metrics["numFilesOutstanding"], &metrics["numBytesOutstanding"]]
            .map(|text| text.parse::<u64>().unwrap())
    };
    assert_eq!(said(&query), [0, 0]);
    for left in [3u64, 1, 0] {
        values(&mut query);
        assert_eq!(said(&query), [left, left * 8], "{left}");
    }
}

#[test]
fn files_that_are_done_with_are_moved_once_they_were_kept_long_enough() {
    let (disk, clock) = (Disk::new(), Arc::new(VirtualClock::at(1_000_000)));
    let spec = given()
        .option("cleanSource", "MOVE")
        .option("cleanSource.moveDestination", "sim:///done")
        .option("cleanSource.retentionDuration", "2 days")
        .option("maxFilesPerTrigger", "1");
    let spec = Spec { clock: Some(clock.clone()), ..spec };
    (0..25).for_each(|n| file(&disk, &format!("{n:02}"), n));
    let mut query = Query::start(&disk, &spec).unwrap();
    for _ in 0..25 {
        values(&mut query);
        clock.advance(DAY / 10);
    }
    let left = |query: &Query| query.disk.paths_under("in/").len();
    query.release(10).unwrap();
    assert_eq!(left(&query), 19, "six were planned two days ago");
    query.restart(&spec).unwrap();
    query.release(23).unwrap();
    assert_eq!(left(&query), 19);
    clock.advance(DAY);
    query.release(23).unwrap();
    assert_eq!(left(&query), 9);
    clock.advance(30 * DAY);
    query.restart(&spec).unwrap();
    query.release(23).unwrap();
    assert_eq!(query.disk.paths_under("in/"), ["in/24"]);
    assert!(query.disk.paths_under("done/in/").len() == 24);
    query.restart(&spec).unwrap();
    assert_eq!(query.batch().unwrap(), None, "moved files are not read again");
    let log = query.disk.paths_under("checkpoint/").len();
    assert!(log < 20, "{log} objects");
}

#[test]
fn deleted_files_are_kept_for_a_month_unless_it_is_said() {
    let (disk, clock) = (Disk::new(), Arc::new(VirtualClock::at(0)));
    let spec = given().option("cleanSource", "DELETE");
    let spec = Spec { clock: Some(clock.clone()), ..spec };
    file(&disk, "a", 1);
    let mut query = Query::start(&disk, &spec).unwrap();
    values(&mut query);
    clock.advance(29 * DAY);
    query.release(0).unwrap();
    assert_eq!(query.disk.paths_under("in/"), ["in/a"]);
    clock.advance(DAY);
    query.release(0).unwrap();
    assert!(query.disk.paths_under("in/").is_empty());
}
