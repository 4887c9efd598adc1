//! Who tests the tests? Each saboteur is one bug, put between the real parts at run time; the
//! simulator must find it. The list is also in the book.

pub(crate) mod parts;
pub(crate) mod store;

use fluvial_testing::{Coverage, Input, Query, Simulation, Violation};

/// What gives a saboteur away: crash points first, then seeds.
pub(crate) fn caught(query: &Query, input: &Input) -> Violation {
    let simulation = match Simulation::new(query, input) {
        Ok(simulation) => simulation,
        Err(violation) => return violation,
    };
    let schedules = simulation.crash_points().into_iter();
    // From the end, too: what breaks late is found early.
    let points: Vec<_> = schedules.collect();
    let (first, second) = points.split_at(points.len() / 2);
    let turns = first.iter().zip(second.iter().rev()).flat_map(|(a, b)| [a.clone(), b.clone()]);
    let seeds = (0..400).map(|seed| simulation.schedule(seed));
    let mut seeds = seeds.into_iter();
    let mixed = turns.flat_map(|point| [Some(point), seeds.next()]).flatten();
    for schedule in mixed.collect::<Vec<_>>() {
        if let Err(violation) = simulation.run(&schedule, &mut Coverage::default()) {
            return violation;
        }
    }
    panic!("the saboteur in {} went unnoticed", query.name());
}
