//! What is measured of one contestant.

use crate::keys::{ENTRY_BYTES, Keys, values};
use crate::process::{cpu, files, peak, written};
use crate::{Contestant, Make};
use arrow::array::Array;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Keys of a commit, and of a batched read.
const BATCH: usize = 10_000;
/// Keys of a commit of the bulk load.
const LOAD: usize = 100_000;

/// A figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// What was measured.
    pub what: String,
    /// In which unit.
    pub unit: String,
    /// The value.
    pub value: f64,
}

/// How often each thing is done.
#[derive(Debug, Clone, Copy)]
pub struct Rounds {
    /// Commits of read-modify-write.
    pub commits: u64,
    /// Batched reads, and windows.
    pub others: u64,
}

/// CPU time of a piece of work and of what it leaves to the background, without the making of its
/// input.
struct Meter {
    start: Duration,
    input: Duration,
}

fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

impl Meter {
    fn new() -> Self {
        Self { start: cpu(), input: Duration::ZERO }
    }

    fn input<T>(&mut self, make: impl FnOnce() -> T) -> T {
        let start = own_cpu();
        let input = make();
        self.input += own_cpu() - start;
        input
    }

    fn seconds(&self) -> f64 {
        (cpu() - self.start - self.input).as_secs_f64()
    }
}

struct Figures(Vec<Figure>);

impl Figures {
    fn add(&mut self, what: &str, unit: &str, value: f64) {
        eprintln!("  {what}: {value:.2} {unit}");
        self.0.push(Figure { what: what.into(), unit: unit.into(), value });
    }

    fn rate(&mut self, what: &str, keys: usize, seconds: f64) {
        self.add(what, "k keys per CPU second", keys as f64 / 1000.0 / seconds);
    }

    /// Times in milliseconds, of waiting and not of work.
    fn waits(&mut self, what: &str, mut times: Vec<Duration>) {
        times.sort_unstable();
        for (name, share) in [("median", 0.5), ("p99", 0.99)] {
            let at = ((times.len() - 1) as f64 * share).round() as usize;
            self.add(&format!("{what}, {name}"), "ms", times[at].as_secs_f64() * 1000.0);
        }
    }
}

fn timed(times: &mut Vec<Duration>, work: impl FnOnce()) {
    let start = Instant::now();
    work();
    times.push(start.elapsed());
}

/// Measures a contestant with so many keys, within so many bytes of memory.
pub fn measure(make: Make, keys: Keys, memory: u64, rounds: Rounds) -> Vec<Figure> {
    let mut figures = Figures(Vec::new());
    let (empty, before) = (peak(), written());
    let mut store = make(memory);
    let store = store.as_mut();
    load(store, keys, &mut figures);
    let loaded = written() - before;
    figures.add(
        "bytes written for each byte loaded",
        "",
        loaded as f64 / (keys.0 * ENTRY_BYTES) as f64,
    );
    read_modify_write(store, keys, rounds, &mut figures);
    let updated = rounds.commits * BATCH as u64 * ENTRY_BYTES;
    let written = written() - before - loaded;
    figures.add("bytes written for each byte updated", "", written as f64 / updated as f64);
    reads(store, keys, rounds, &mut figures);
    if store.is_ordered() {
        windows(store, keys, rounds, &mut figures);
        reopen(store, keys, &mut figures);
    }
    if let Some(folder) = store.folder() {
        let bytes = files(folder) as f64 / (keys.0 * ENTRY_BYTES) as f64;
        figures.add("bytes on disk for each byte of state", "", bytes);
    }
    figures.add("peak memory", "MB", (peak() - empty) as f64 / 1e6);
    figures.0
}

fn load(store: &mut dyn Contestant, keys: Keys, figures: &mut Figures) {
    let mut meter = Meter::new();
    let mut batches = keys.all(LOAD);
    let mut number = 0;
    while let Some((keys, values)) = meter.input(|| {
        let keys = batches.next()?;
        let values = values(keys.len(), number);
        Some((keys, values))
    }) {
        store.put(&keys, &values);
        store.commit();
        number += 1;
    }
    store.settle();
    figures.rate("bulk load, 100 k keys a commit", keys.0 as usize, meter.seconds());
}

fn read_modify_write(
    store: &mut dyn Contestant,
    keys: Keys,
    rounds: Rounds,
    figures: &mut Figures,
) {
    let mut commits = Vec::new();
    let mut meter = Meter::new();
    for round in 0..rounds.commits {
        let (keys, values) = meter.input(|| (keys.random(BATCH, round), values(BATCH, round)));
        assert_eq!(store.get(&keys), BATCH);
        store.put(&keys, &values);
        timed(&mut commits, || store.commit());
    }
    store.settle();
    let updated = rounds.commits as usize * BATCH;
    figures.rate("read-modify-write, 10 k keys a commit", updated, meter.seconds());
    figures.waits("commit of 10 k keys", commits);
}

fn reads(store: &mut dyn Contestant, keys: Keys, rounds: Rounds, figures: &mut Figures) {
    let mut rate = |what: &str, rounds: u64, read: &mut dyn FnMut(&mut Meter, u64)| {
        let mut meter = Meter::new();
        (0..rounds).for_each(|round| read(&mut meter, round));
        figures.rate(what, rounds as usize * BATCH, meter.seconds());
    };
    rate("get, 10 k keys at once", rounds.others, &mut |meter, round| {
        let asked = meter.input(|| keys.random(BATCH, round + (1 << 20)));
        assert_eq!(store.get(&asked), BATCH);
    });
    rate("get, 10 k absent keys at once", rounds.others, &mut |meter, round| {
        let asked = meter.input(|| keys.absent(BATCH, round));
        assert_eq!(store.get(&asked), 0);
    });
    rate("get, one by one", 3, &mut |meter, round| {
        let asked = meter.input(|| keys.random(BATCH, round + (1 << 21)));
        assert_eq!(store.get_each(&asked), BATCH);
    });
    rate("get, one by one, absent", 3, &mut |meter, round| {
        let asked = meter.input(|| keys.absent(BATCH, round));
        assert_eq!(store.get_each(&asked), 0);
    });
    if !store.is_ordered() {
        return;
    }
    let (meter, mut found) = (Meter::new(), 0);
    for round in 0..rounds.others {
        let (count, range) = keys.group(round);
        assert_eq!(store.scan(&range) as u64, count);
        found += count;
    }
    figures.rate("scan of a key group", found as usize, meter.seconds());
}

/// A window is evicted, and comes back before the next one: what that leaves to do in the
/// background belongs to it.
fn windows(store: &mut dyn Contestant, keys: Keys, rounds: Rounds, figures: &mut Figures) {
    for (what, counted) in
        [("eviction of a window, counted", true), ("eviction of a window", false)]
    {
        let (mut spent, mut evicted) = (0.0, 0);
        let mut waits = Vec::new();
        for round in 0..rounds.others {
            let (own, ranges) = keys.window(round);
            let meter = Meter::new();
            timed(&mut waits, || {
                match counted {
                    true => assert_eq!(store.evict(&ranges), own.len() as u64),
                    false => store.evict_uncounted(&ranges),
                }
                store.commit();
            });
            store.settle();
            spent += meter.seconds();
            evicted += own.len();
            store.put(&own, &values(own.len(), round));
            store.commit();
            store.settle();
        }
        figures.rate(what, evicted, spent);
        figures.waits(what, waits);
    }
}

fn reopen(store: &mut dyn Contestant, keys: Keys, figures: &mut Figures) {
    let mut waits = Vec::new();
    for round in 0..5 {
        let keys = keys.random(BATCH, round + (1 << 22));
        timed(&mut waits, || {
            store.reopen();
            assert_eq!(store.get(&keys), BATCH);
        });
    }
    figures.waits("open and get 10 k keys", waits);
}
