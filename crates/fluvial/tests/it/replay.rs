//! The law of exact replay: the same plan over the same state gives the same rows, bit for bit,
//! and the same state, whatever the schedule, the number of cores and the number of attempts.

use crate::clock::ManualClock;
use fluvial::arrow::array::RecordBatch;
use fluvial::arrow::datatypes::DataType;
use fluvial::datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use fluvial::prelude::*;
use fluvial::{BatchId, Error};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// Everything whose value depends on the order of rows: sums of floats, lists, first and last,
/// sketches. `jitter` gives back its argument, after a while.
const ORDERED: &str = "SELECT window(at, '1 minute') AS w, page, count(*) AS n, sum(v) AS total, \
    avg(v) AS mean, stddev(v) AS spread, collect_list(user) AS users, first(user) AS earliest, \
    last(user) AS latest, max_by(user, v) AS best, percentile_approx(v, 0.5) AS middle, \
    approx_count_distinct(user) AS distinct_users \
    FROM STREAM read_files('in', format => 'json', maxFilesPerTrigger => 8, \
    schema => 'page string, user string, at timestamp, v double') \
    WATERMARK at DELAY OF INTERVAL 2 MINUTES WHERE jitter(v) > 0.0 GROUP BY 1, 2";

/// No state and no keys; two streams, one after the other.
const PLAIN: &str = "SELECT page, jitter(v) / 3.0 AS third, current_timestamp() AS now \
    FROM STREAM read_files('in', format => 'json', maxFilesPerTrigger => 8, \
    schema => 'page string, v double') \
    UNION ALL SELECT user, v, at FROM STREAM read_files('in', format => 'json', \
    maxFilesPerTrigger => 5, schema => 'user string, at timestamp, v double')";

/// One group, and a group of groups that are sorted.
const TOTAL: &str = "SELECT sum(v) AS total, collect_list(user) AS users, corr(v, jitter(v)) AS c \
    FROM STREAM read_files('in', format => 'json', maxFilesPerTrigger => 8, \
    schema => 'user string, v double')";

/// What is drawn, which is drawn by the plan: other plans draw something else.
const DRAWN: &str = "SELECT window(at, '1 minute') AS w, page, count(*) AS n, \
    sum(v + rand()) AS total, first(uuid()) AS id, collect_list(user) AS users \
    FROM STREAM read_files('in', format => 'json', maxFilesPerTrigger => 8, \
    schema => 'page string, user string, at timestamp, v double') \
    WATERMARK at DELAY OF INTERVAL 2 MINUTES \
    WHERE jitter(v) > 0.0 AND rand() < 0.9 GROUP BY 1, 2";

const FILES: u64 = 24;

/// What shall make no difference.
#[derive(Debug, Clone, Copy)]
struct World {
    /// Threads of the runtime.
    workers: usize,
    /// Into how many partitions DataFusion likes to cut.
    target_partitions: usize,
    /// Other waits for `jitter`.
    seed: u64,
}

/// The rows of each attempt of each batch, in the order of arrival.
type Attempts = Arc<Mutex<BTreeMap<u64, Vec<Vec<RecordBatch>>>>>;

/// What was written of each version of each operator's state.
type State = BTreeMap<String, Vec<u8>>;

fn input(folder: &Path) {
    let landing = folder.join("in");
    fs::create_dir_all(&landing).unwrap();
    for file in 0..FILES {
        let mut rows = String::new();
        for row in 0..150_u64 {
            let at = file * 20 + row * 7 % 50;
            let (minute, second) = (at / 60 % 60, at % 60);
            // Sums of these depend on their order.
            let v = 0.1 + (file * 150 + row) as f64 * 1.7e3_f64.powi((row % 5) as i32 - 2);
            writeln!(
                rows,
                r#"{{"page":"/p{}","user":"u{}","at":"2026-06-10T10:{minute:02}:{second:02}Z","v":{v}}}"#,
                row % 11,
                file * 150 + row,
            )
            .unwrap();
        }
        fs::write(landing.join(format!("{file:02}.json")), rows).unwrap();
    }
}

/// Gives back its argument after a while that nobody knows: partitions overtake each other.
fn jitter(seed: u64) -> fluvial::datafusion::logical_expr::ScalarUDF {
    let calls = AtomicU64::new(seed);
    let body = move |arguments: &[ColumnarValue]| {
        let call = calls.fetch_add(1, Ordering::Relaxed);
        let micros = call.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 53;
        std::thread::sleep(Duration::from_micros(micros));
        Ok(arguments[0].clone())
    };
    let double = DataType::Float64;
    create_udf("jitter", vec![double.clone()], double, Volatility::Immutable, Arc::new(body))
}

/// Runs a query in a world until it ends; `fails` is the batch whose first attempt fails after
/// its plan is durable and its rows are made.
fn run(folder: &Path, sql: &str, mode: OutputMode, world: World, seen: &Attempts, fails: u64) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(world.workers)
        .enable_all()
        .thread_stack_size(16 << 20)
        .build()
        .unwrap();
    let (folder, sql, seen) = (folder.to_owned(), sql.to_owned(), Arc::clone(seen));
    let running = runtime.spawn(async move {
        let session = Session::builder().base_dir(folder).config("state.partitions", 3);
        let session = session.clock(Arc::new(ManualClock::at(1_781_085_600_000))).build().unwrap();
        let state = session.context().state_ref();
        state.write().config_mut().options_mut().execution.target_partitions =
            world.target_partitions;
        session.context().register_udf(jitter(world.seed));
        let writer = session.sql(&sql).await.unwrap().write_stream().unwrap();
        let writer = writer.output_mode(mode).trigger(Trigger::AvailableNow);
        let writer = writer.foreach_batch_rows(move |BatchId(batch), rows| {
            let seen = Arc::clone(&seen);
            async move {
                let mut seen = seen.lock().unwrap();
                let attempts = seen.entry(batch).or_default();
                attempts.push(rows);
                match batch == fails && attempts.len() == 1 {
                    true => Err(Error::invalid("the machine is gone")),
                    false => Ok(()),
                }
            }
        });
        let query = writer.option("checkpointLocation", "cp").start().await.unwrap();
        query.await_termination().await
    });
    let ended = runtime.block_on(running).unwrap();
    match ended {
        Ok(()) => {}
        Err(error) => assert!(error.to_string().contains("the machine is gone"), "{error}"),
    }
}

/// The state objects, by operator and version; run and attempt are not part of what they are.
fn state(folder: &Path) -> State {
    let mut found = State::new();
    for path in files(&folder.join("cp/state")) {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let (version, _) = name.split_once('-').unwrap();
        let operator = path.parent().unwrap().strip_prefix(folder).unwrap().display().to_string();
        let bytes = fs::read(&path).unwrap();
        let key = format!("{operator}/{version}");
        if let Some(other) = found.insert(key.clone(), bytes.clone()) {
            assert_eq!(other, bytes, "two attempts of {key} differ");
        }
    }
    found
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Runs a query in many worlds and compares rows and state with the first.
fn holds(sql: &str, mode: OutputMode, stateful: bool) {
    let mut expected: Option<(BTreeMap<u64, Vec<RecordBatch>>, State)> = None;
    let mut seed = 0;
    for (workers, target_partitions, fails) in
        [(1, 1, u64::MAX), (2, 8, u64::MAX), (4, 2, u64::MAX), (4, 8, 0), (1, 2, 1), (2, 1, 2)]
    {
        let folder = TempDir::new().unwrap();
        input(folder.path());
        let seen = Attempts::default();
        let world = World { workers, target_partitions, seed };
        run(folder.path(), sql, mode, world, &seen, fails);
        if fails != u64::MAX {
            // Another machine takes over.
            let other = World { workers: 5 - workers, target_partitions: 4, seed: seed + 1000 };
            run(folder.path(), sql, mode, other, &seen, u64::MAX);
        }
        seed += 7919;
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        let mut rows = BTreeMap::new();
        for (batch, mut attempts) in seen {
            assert_eq!(attempts.len(), if batch == fails { 2 } else { 1 }, "batch {batch}");
            let last = attempts.pop().unwrap();
            for attempt in attempts {
                assert_eq!(attempt, last, "batch {batch} again, {world:?}");
            }
            rows.insert(batch, last);
        }
        let state = state(folder.path());
        assert_eq!(state.is_empty(), !stateful);
        match &expected {
            None => {
                let total: usize = rows.values().flatten().map(RecordBatch::num_rows).sum();
                assert!(rows.len() >= 3 && total >= 3, "{} batches, {total} rows", rows.len());
                expected = Some((rows, state));
            }
            Some((expected_rows, expected_state)) => {
                assert_eq!(&rows, expected_rows, "{world:?}");
                let versions = |state: &State| Vec::from_iter(state.keys().cloned());
                assert_eq!(versions(&state), versions(expected_state), "{world:?}");
                for (version, bytes) in &state {
                    assert!(bytes == &expected_state[version], "{version} differs in {world:?}");
                }
            }
        }
    }
}

#[test]
fn windows_and_keys_replay_exactly() {
    holds(ORDERED, OutputMode::Update, true);
    holds(ORDERED, OutputMode::Append, true);
}

#[test]
fn rows_without_state_replay_exactly() {
    holds(PLAIN, OutputMode::Append, false);
}

#[test]
fn totals_replay_exactly() {
    holds(TOTAL, OutputMode::Complete, true);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let to = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, to).unwrap();
        }
    }
}

/// The very same plan, taken up again and again from the same checkpoint.
#[test]
fn what_a_plan_draws_replays_exactly() {
    const FAILS: u64 = 1;
    let folder = TempDir::new().unwrap();
    input(folder.path());
    let (checkpoint, saved) = (folder.path().join("cp"), folder.path().join("saved"));
    let seen = Attempts::default();
    let first = World { workers: 2, target_partitions: 2, seed: 1 };
    run(folder.path(), DRAWN, OutputMode::Update, first, &seen, FAILS);
    copy(&checkpoint, &saved);
    let worlds = [(1, 1), (2, 8), (4, 2), (3, 5)];
    for (seed, (workers, target_partitions)) in (2..).zip(worlds) {
        fs::remove_dir_all(&checkpoint).unwrap();
        copy(&saved, &checkpoint);
        let world = World { workers, target_partitions, seed: seed * 7919 };
        run(folder.path(), DRAWN, OutputMode::Update, world, &seen, u64::MAX);
        // The failed attempt has left its state, too, and these have to be the same.
        state(folder.path());
    }
    let attempts = std::mem::take(&mut *seen.lock().unwrap()).remove(&FAILS).unwrap();
    assert_eq!(attempts.len(), 1 + worlds.len());
    assert!(attempts[0].iter().map(RecordBatch::num_rows).sum::<usize>() > 10);
    for attempt in &attempts {
        assert_eq!(attempt, &attempts[0]);
    }
}
