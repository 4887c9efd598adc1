//! What was tried, as text.

use fluvial_testing::{Coverage, Failure, Schedule, Simulation, Violation};
use std::collections::BTreeMap;
use std::time::Duration;

/// A line for each query, then where processes died, then how fast it went.
pub(crate) fn print(seen: &BTreeMap<String, Coverage>, took: Duration) {
    let mut all = Coverage::default();
    for (name, coverage) in seen {
        println!("{}", line(name, coverage));
        all.add(coverage);
    }
    print!("\n{all}");
    let rate = all.schedules as f64 / took.as_secs_f64().max(0.001);
    println!("\n{:.0} s, {rate:.1} schedules a second", took.as_secs_f64());
}

/// One query in a line.
pub(crate) fn line(name: &str, coverage: &Coverage) -> String {
    format!(
        "{name:<26} {:>7} schedules, {:>7} distinct, {:>7} runs, {:>9} steps, {:>7} crashes",
        coverage.schedules,
        coverage.distinct(),
        coverage.runs,
        coverage.steps,
        coverage.crashes.values().sum::<u64>(),
    )
}

/// A failure, made smaller, with the command that shows it again.
pub(crate) fn failure(
    simulation: &Simulation,
    seed: Option<u64>,
    schedule: Schedule,
    violation: Violation,
) -> String {
    let name = simulation.query().name().to_owned();
    println!("{name} \"{schedule}\": {violation}");
    let failure = Failure::smallest(simulation, seed, schedule, violation);
    let again = format!("cargo xtask sim --query {name} --schedule '{}'", failure.schedule);
    format!("{failure}\nreplay: {again}\ninput: {:?}", failure.input)
}
