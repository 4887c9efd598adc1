//! Runs Fluvial's own queries, then random ones, in the simulator: `cargo xtask sim`.

mod each_kind;
mod explore;
mod report;

use fluvial_testing::{Input, Query, Simulation, gallery, kinds, random_query};
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask sim [--minutes N] [--seed S] [--schedules N] [--query NAME] [--schedule TEXT] [--threads N]

  --minutes N      for how long (1; with --schedules as long as it takes)
  --seed S         where seeds begin (0)
  --schedules N    instead of a mixture: N distinct histories of each kind of operator on each state
                   backend, every crash point among them
  --query NAME     this query only: one of the gallery, KIND-on-BACKEND, or random-KIND-SEED
  --schedule TEXT  replays this schedule of the query, as a failure has printed it
  --threads N      how many simulations at once (as many as cores)
";

struct Arguments {
    minutes: Option<f64>,
    seed: u64,
    schedules: Option<usize>,
    query: Option<String>,
    schedule: Option<String>,
    threads: usize,
}

fn arguments() -> Result<Arguments, String> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut all =
        Arguments { minutes: None, seed: 0, schedules: None, query: None, schedule: None, threads };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or_else(|| format!("{word} needs a value\n\n{HELP}"))?;
        let wrong = || format!("{word} cannot be {value:?}\n\n{HELP}");
        match word.as_str() {
            "--minutes" => all.minutes = Some(value.parse().map_err(|_| wrong())?),
            "--seed" => all.seed = value.parse().map_err(|_| wrong())?,
            "--schedules" => all.schedules = Some(value.parse().map_err(|_| wrong())?),
            "--query" => all.query = Some(value),
            "--schedule" => all.schedule = Some(value),
            "--threads" => all.threads = value.parse().map_err(|_| wrong())?,
            _ => return Err(format!("unknown option {word}\n\n{HELP}")),
        }
    }
    Ok(all)
}

fn main() -> ExitCode {
    let done = arguments().and_then(|arguments| match (&arguments.schedule, arguments.schedules) {
        (Some(schedule), _) => replay(&arguments, schedule),
        (None, Some(schedules)) => each_kind::run(&arguments, schedules),
        (None, None) => explore::run(&arguments),
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
    if let Some(found) = kinds::find(name).map_err(|e| e.to_string())? {
        return Ok(found);
    }
    let names = || gallery::all().iter().map(|(q, _)| q.name().to_owned()).collect::<Vec<_>>();
    let kinds = || kinds::ALL.iter().map(|kind| kind.name).collect::<Vec<_>>();
    gallery::find(name).ok_or_else(|| {
        format!(
            "no query {name:?}: there are {}, and -on-memory and -on-lsm of {}",
            names().join(", "),
            kinds().join(", ")
        )
    })
}

fn replay(arguments: &Arguments, schedule: &str) -> Result<(), String> {
    let name = arguments.query.as_deref().ok_or("--schedule needs --query")?;
    let (query, input) = find(name)?;
    let simulation = Simulation::new(&query, &input).map_err(|e| format!("{name}: {e}"))?;
    let outcome = simulation.replay(schedule).map_err(|e| format!("{name} {schedule:?}: {e}"))?;
    println!("{name} {schedule:?}: as it should be, trace {:016x}", outcome.trace);
    Ok(())
}
