//! Runs Fluvial's own queries, then random ones, in the simulator: `cargo xtask sim`.

use fluvial_testing::{Coverage, Failure, Input, Query, Simulation, gallery, random_query};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const HELP: &str = "\
cargo xtask sim [--minutes N] [--seed S] [--query NAME] [--schedule TEXT] [--threads N]

  --minutes N      for how long (1)
  --seed S         where seeds begin (0)
  --query NAME     this query only: one of the gallery, or random-KIND-SEED
  --schedule TEXT  replays this schedule of the query, as a failure has printed it
  --threads N      how many simulations at once (as many as cores)
";

struct Arguments {
    minutes: f64,
    seed: u64,
    query: Option<String>,
    schedule: Option<String>,
    threads: usize,
}

fn arguments() -> Result<Arguments, String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut all = Arguments { minutes: 1.0, seed: 0, query: None, schedule: None, threads };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value\n\n{HELP}"))?;
        let wrong = || format!("{word} cannot be {value:?}\n\n{HELP}");
        match word.as_str() {
            "--minutes" => all.minutes = value.parse().map_err(|_| wrong())?,
            "--seed" => all.seed = value.parse().map_err(|_| wrong())?,
            "--query" => all.query = Some(value),
            "--schedule" => all.schedule = Some(value),
            "--threads" => all.threads = value.parse().map_err(|_| wrong())?,
            _ => return Err(format!("unknown option {word}\n\n{HELP}")),
        }
    }
    Ok(all)
}

fn main() -> ExitCode {
    let done = arguments().and_then(|arguments| match &arguments.schedule {
        Some(schedule) => replay(&arguments, schedule),
        None => explore(&arguments),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn find(name: &str) -> Result<(Query, Input), String> {
    if let Some(rest) = name.strip_prefix("random-") {
        let seed = rest.rsplit('-').next().and_then(|seed| seed.parse().ok());
        return seed.map(random_query).ok_or_else(|| format!("{name:?} has no seed"));
    }
    let names = || gallery::all().iter().map(|(q, _)| q.name().to_owned()).collect::<Vec<_>>();
    gallery::find(name)
        .ok_or_else(|| format!("no query {name:?}: there are {}", names().join(", ")))
}

fn replay(arguments: &Arguments, schedule: &str) -> Result<(), String> {
    let name = arguments.query.as_deref().ok_or("--schedule needs --query")?;
    let (query, input) = find(name)?;
    let simulation = Simulation::new(&query, &input).map_err(|e| format!("{name}: {e}"))?;
    let outcome = simulation.replay(schedule).map_err(|e| format!("{name} {schedule:?}: {e}"))?;
    println!("{name} {schedule:?}: as it should be, trace {:016x}", outcome.trace);
    Ok(())
}

/// What all threads share.
struct Shared {
    until: Instant,
    stop: AtomicBool,
    next: AtomicUsize,
    seen: Mutex<BTreeMap<String, Coverage>>,
    failure: Mutex<Option<String>>,
}

impl Shared {
    fn over(&self) -> bool {
        self.stop.load(Ordering::SeqCst) || Instant::now() >= self.until
    }

    fn fail(&self, text: String) {
        self.stop.store(true, Ordering::SeqCst);
        if let Ok(mut failure) = self.failure.lock() {
            failure.get_or_insert(text);
        }
    }
}

/// Each query has this many schedules in one go: the gallery first, then as many random ones as
/// there is time for, then the gallery again with other seeds.
const TURN: u64 = 12;

fn explore(arguments: &Arguments) -> Result<(), String> {
    let began = Instant::now();
    let shared = Shared {
        until: began + Duration::from_secs_f64(arguments.minutes * 60.0),
        stop: AtomicBool::new(false),
        next: AtomicUsize::new(0),
        seen: Mutex::default(),
        failure: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads.max(1) {
            scope.spawn(|| work(arguments, &shared));
        }
    });
    report(&shared, began.elapsed());
    match shared.failure.into_inner().unwrap_or_default() {
        Some(failure) => Err(failure),
        None => Ok(()),
    }
}

fn work(arguments: &Arguments, shared: &Shared) {
    let gallery = gallery::all();
    while !shared.over() {
        let turn = shared.next.fetch_add(1, Ordering::SeqCst);
        let given = arguments.query.as_deref().map(find);
        let (query, input) = match given {
            Some(Ok(found)) => found,
            Some(Err(error)) => return shared.fail(error),
            // Every other turn is a random query, once each of ours has had its first.
            None if turn < gallery.len() => gallery[turn].clone(),
            None if turn.is_multiple_of(2) => random_query(arguments.seed + turn as u64),
            None => gallery[(turn / 2) % gallery.len()].clone(),
        };
        if let Err(failure) = one(arguments.seed, turn, &query, &input, shared) {
            shared.fail(failure);
        }
    }
}

/// One turn of a query: some crash points, some seeds.
fn one(
    seed: u64,
    turn: usize,
    query: &Query,
    input: &Input,
    shared: &Shared,
) -> Result<(), String> {
    let name = query.name();
    let simulation = Simulation::new(query, input).map_err(|e| format!("{name}: {e}"))?;
    let points = simulation.crash_points();
    let mut coverage = Coverage::default();
    for number in 0..TURN {
        if shared.over() {
            break;
        }
        let at = seed.wrapping_add(turn as u64 * TURN + number);
        let (seed, schedule) = match number % 2 {
            0 => (None, points[(at.wrapping_mul(7919) % points.len() as u64) as usize].clone()),
            _ => (Some(at), simulation.schedule(at)),
        };
        if let Err(violation) = simulation.run(&schedule, &mut coverage) {
            println!("{name} \"{schedule}\": {violation}");
            let failure = Failure::smallest(&simulation, seed, schedule, violation);
            let again = format!("cargo xtask sim --query {name} --schedule '{}'", failure.schedule);
            return Err(format!("{failure}\nreplay: {again}\ninput: {:?}", failure.input));
        }
    }
    if let Ok(mut seen) = shared.seen.lock() {
        // Random queries of one kind are one line.
        let kind = name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-');
        seen.entry(kind.to_owned()).or_default().add(&coverage);
    }
    Ok(())
}

fn report(shared: &Shared, took: Duration) {
    let mut all = Coverage::default();
    let Ok(seen) = shared.seen.lock() else { return };
    for (name, coverage) in seen.iter() {
        println!(
            "{name:<24} {:>6} schedules, {:>6} runs, {:>8} steps",
            coverage.schedules, coverage.runs, coverage.steps
        );
        all.add(coverage);
    }
    print!("\n{all}");
    let rate = all.schedules as f64 / took.as_secs_f64().max(0.001);
    println!("\n{:.0} s, {rate:.1} schedules a second", took.as_secs_f64());
}
